"""Decides whether a message's properties satisfy a selector, a subset of SQL-92; reads no store and knows no queue.

The language is that of JMS selectors: literals ('text' with '' for a quote, 12, 1.5, 2e3, TRUE, FALSE), names of
properties, = <> < <= > >=, + - * /, NOT, AND, OR, [NOT] BETWEEN x AND y, [NOT] IN ('a', 'b'), [NOT] LIKE 'a%_' [ESCAPE
'!'], IS [NOT] NULL. A property that a message lacks is NULL; a comparison with NULL or of different kinds is unknown,
and only what is true is selected. Names that begin with `tq_` are the message's own fields.

Every step is linear in the text and in the values: LIKE never backtracks, numbers are finite, nesting is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from replica.core.selection.selector_steps import (
    Like,
    Test,
    Values,
    all_of,
    any_of,
    bad,
    both,
    compared,
    computing,
    opposite,
)
from replica.machine import Refused

BYTES_MAX = 4_096
DEPTH_MAX = 64
FIELDS = (
    *("tq_priority", "tq_index", "tq_enqueue_time", "tq_correlation_id", "tq_group_id"),
    *("tq_content_type", "tq_reply_to"),
)
"""Names of a message's own fields; tq_enqueue_time is in milliseconds since 1970."""


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$.-]*)"
    r"|(?P<sign><>|<=|>=|[=<>+\-*/(),]))"
)
_WORDS = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"))
_DIGITS_MAX = 40


class Token(NamedTuple):
    kind: str  # number, text, name, word, sign, end
    text: str
    at: int  # place in the selector, from 0


class Selector(NamedTuple):
    text: str
    names: frozenset[str]
    """Properties and fields that it looks at."""
    test: Test

    @property
    def weight(self) -> int:
        """What one look costs at most, in comparisons or so."""
        return 1 + len(self.text) // 16

    def matches(self, values: Values) -> bool:
        """True only for true: unknown is not selected."""
        return self.test(values) is True


def parse(text: str) -> Selector:
    """Raises Refused (BAD_SELECTOR) that says where and what was expected."""
    if len(text.encode()) > BYTES_MAX:
        raise bad(f"it is longer than {BYTES_MAX} bytes", text[:40])
    parser = _Parser(text, _tokens(text))
    test = parser.whole()
    return Selector(text, frozenset(parser.names), test)


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            problem = "a text that does not end" if text[at:].lstrip().startswith("'") else "no selector has this"
            raise bad(f"at {at + 1}: {problem}: {text[at : at + 20].strip()!r}", text)
        kind = match.lastgroup or ""
        word = match.group(kind)
        if kind == "name" and word.upper() in _WORDS:
            kind, word = "word", word.upper()
        found.append(Token(kind, word, match.start(match.lastgroup or 0)))
        at = match.end()
    found.append(Token("end", "", len(text)))
    return found


class _Parser:
    """By descent; each method reads one level of the grammar and gives what evaluates it."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.names: set[str] = set()

    def whole(self) -> Test:
        test = self._or()
        if self._next.kind != "end":
            raise self._wrong("AND, OR or the end")
        return test

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _wrong(self, wanted: str) -> Refused:
        token = self._next
        found = repr(token.text) if token.kind != "end" else "the end"
        return bad(f"at {token.at + 1}: {wanted} expected, found {found}", self._text)

    def _took(self, kind: str, *texts: str) -> str:
        token = self._next
        if token.kind != kind or (texts and token.text not in texts):
            return ""
        self._at += 1
        return token.text

    def _take(self, kind: str, text: str, wanted: str) -> None:
        if not self._took(kind, text):
            raise self._wrong(wanted)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise bad(f"at {self._next.at + 1}: nested deeper than {DEPTH_MAX}", self._text)

    def _or(self) -> Test:
        self._deeper()
        tests = [self._and()]
        while self._took("word", "OR"):
            tests.append(self._and())
        self._depth -= 1
        return tests[0] if len(tests) == 1 else any_of(tests)

    def _and(self) -> Test:
        tests = [self._not()]
        while self._took("word", "AND"):
            tests.append(self._not())
        return tests[0] if len(tests) == 1 else all_of(tests)

    def _not(self) -> Test:
        if self._took("word", "NOT"):
            self._deeper()
            test = self._not()
            self._depth -= 1
            return lambda values: opposite(test(values))
        return self._condition()

    def _condition(self) -> Test:
        left = self._sum()
        sign = self._took("sign", "=", "<>", "<", "<=", ">", ">=")
        if sign:
            right = self._sum()
            return lambda values: compared(sign, left(values), right(values))
        if self._took("word", "IS"):
            negated = bool(self._took("word", "NOT"))
            self._take("word", "NULL", "NULL")
            return lambda values: (left(values) is None) is not negated
        negated = bool(self._took("word", "NOT"))
        test = self._range(left)
        if test is None:
            if negated:
                raise self._wrong("BETWEEN, IN or LIKE")
            return left
        return (lambda values: opposite(test(values))) if negated else test

    def _range(self, left: Test) -> Test | None:
        if self._took("word", "BETWEEN"):
            low = self._sum()
            self._take("word", "AND", "AND")
            high = self._sum()
            return lambda values: both(
                compared(">=", left(values), low(values)), compared("<=", left(values), high(values))
            )
        if self._took("word", "IN"):
            return self._in(left)
        if self._took("word", "LIKE"):
            pattern, escape = self._literal_text(), ""
            if self._took("word", "ESCAPE"):
                escape = self._literal_text()
                if len(escape) != 1:
                    raise bad("ESCAPE takes one character", self._text)
            like = Like(pattern, escape, self._text)
            return lambda values: like.matches(value) if isinstance(value := left(values), str) else None
        return None

    def _in(self, left: Test) -> Test:
        self._take("sign", "(", "(")
        wanted = {self._literal_text()}
        while self._took("sign", ","):
            wanted.add(self._literal_text())
        self._take("sign", ")", ", or )")
        return lambda values: value in wanted if isinstance(value := left(values), str) else None

    def _literal_text(self) -> str:
        if self._next.kind != "text":
            raise self._wrong("a text in single quotes")
        self._at += 1
        return self._tokens[self._at - 1].text[1:-1].replace("''", "'")

    def _sum(self) -> Test:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Test:
        return self._chain(self._signed, "*", "/")

    def _chain(self, operand: Callable[[], Test], *signs: str) -> Test:
        """Operands in a row, computed one after the other: a test inside a test each would end Python's stack."""
        first, rest = operand(), []
        while sign := self._took("sign", *signs):
            rest.append((sign, operand()))
        return computing(first, rest) if rest else first

    def _signed(self) -> Test:
        if sign := self._took("sign", "+", "-"):
            self._deeper()
            test = self._signed()
            self._depth -= 1
            return computing(lambda _values: 0, [(sign, test)])
        return self._operand()

    def _operand(self) -> Test:
        token = self._next
        if self._took("sign", "("):
            test = self._or()
            self._take("sign", ")", ")")
            return test
        if token.kind == "text":
            text = self._literal_text()
            return lambda _values: text
        if token.kind == "number":
            number = self._number()
            return lambda _values: number
        if self._took("word", "TRUE", "FALSE"):
            truth = token.text == "TRUE"
            return lambda _values: truth
        if token.kind == "name":
            return self._name()
        raise self._wrong("a name or a value")

    def _number(self) -> float:
        text = self._tokens[self._at].text
        self._at += 1
        if len(text) > _DIGITS_MAX:
            raise bad(f"a number of more than {_DIGITS_MAX} digits", self._text)
        number: float = int(text) if text.isdecimal() else float(text)
        if number in (float("inf"), float("-inf")):
            raise bad(f"the number {text} is too large", self._text)
        return number

    def _name(self) -> Test:
        name = self._tokens[self._at].text
        if name.lower().startswith("tq_") and name not in FIELDS:
            raise self._wrong(f"one of {', '.join(FIELDS)}")
        self._at += 1
        self.names.add(name)
        return lambda values: values.get(name)

"""Selectors: any text is read or refused in words that say where, and what was read tells of any message, soon."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from replica.core.selection.selector import BYTES_MAX, FIELDS, parse
from replica.core.selection.selector_steps import Value
from replica.machine import Refused
from tandemq.v1.common_pb2 import Reason
from tests.fuzz.cost import assert_within
from tests.fuzz.source import Source

FRAMES = 900
TEXT_MAX = BYTES_MAX + 40
CAP_S = 0.2
"""What one selector may take to be read and asked three times. Of this process's own time."""
WORDS = (
    *("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "not", "Or"),
    *("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "(", ")", ",", "'", "''", ".", "%", "_", "$", " "),
    *("'a'", "'a%'", "'_b'", "'!%'", "'!'", "'it''s'", "0", "1", "-1", "1.5", "2e3", "9" * 40, "1e308", "1e-320"),
    *("n", "s", "b", "x", "none", "tq_other", "TQ_index", *FIELDS),
)
OPERANDS = ("n", "s", "b", "none", "tq_index", "0", "1", "-1", "2e3", "(n + 1)", "'a'", "TRUE", "+ n")
RANGES = ("IN ('a', 'it''s')", "LIKE 'a%'", "LIKE '%_b%'", "LIKE '!%' ESCAPE '!'", "LIKE ''")
NAMES = ("n", "s", "b", "x", *FIELDS)
VALUES: tuple[Value, ...] = (
    0,
    1,
    -1,
    1 << 62,
    1.5,
    1e300,
    float("inf"),
    float("nan"),
    "",
    "a",
    "ab",
    "it's",
    True,
    False,
)


def one(data: bytes) -> None:
    source = Source(data)
    text = _text(source)
    values = [{name: source.pick(VALUES) for name in NAMES if source.flag()} for _ in range(3)]
    with _stack_of_a_member():
        _judge(text, values)


@contextmanager
def _stack_of_a_member() -> Iterator[None]:
    """What Python leaves a call there: engines raise the limit for themselves."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _judge(text: str, values: list[dict[str, Value]]) -> None:
    is_read = False

    def read_and_ask() -> None:
        nonlocal is_read
        try:
            selector = parse(text)
        except Refused as refused:
            assert refused.reason == Reason.REASON_BAD_SELECTOR
            assert refused.message
            return
        is_read = True
        for each in values:
            assert type(selector.matches(each)) is bool

    assert_within(CAP_S, read_and_ask)
    if is_read:
        assert len(text.encode()) <= BYTES_MAX
        _check_laws(text, values)


def _text(source: Source) -> str:
    if source.flag():
        text = _condition(source, 0)
        return (text if not source.rarely() else text + source.pick(WORDS))[:TEXT_MAX]
    pieces: list[str] = []
    while source.more and len(pieces) < 60:
        piece = source.text() if source.rarely() else source.pick(WORDS)
        pieces += [piece] * (source.number(1, 250) if source.rarely() else 1)
    return " ".join(pieces)[:TEXT_MAX].encode(errors="replace").decode()  # protobuf lets nothing else through


def _condition(source: Source, depth: int) -> str:
    if not source.more or depth > 8:
        return "n = 1"
    match source.number(0, 7):
        case 0 | 1:
            return f"{_sum(source)} {source.pick(('=', '<>', '<', '<=', '>', '>='))} {_sum(source)}"
        case 2:
            word = source.pick((" AND ", " OR "))
            parts = [_condition(source, depth + 1) for _ in range(source.number(2, 4))]
            return word.join(parts * (source.number(1, 60) if source.rarely() else 1))
        case 3:
            return f"NOT ({_condition(source, depth + 1)})"
        case 4:
            return f"{_sum(source)} {source.pick(('', 'NOT '))}BETWEEN {_sum(source)} AND {_sum(source)}"
        case 5:
            return f"{source.pick(NAMES)} {source.pick(('', 'NOT '))}{source.pick(RANGES)}"
        case 6:
            return f"{source.pick(NAMES)} IS {source.pick(('', 'NOT '))}NULL"
    return source.pick(("TRUE", "FALSE", "b"))


def _sum(source: Source) -> str:
    operands = [source.pick(OPERANDS) for _ in range(source.number(1, 3))]
    if source.rarely():
        operands *= source.number(1, 1500)
    return source.pick(("+", "-", "*", "/")).join(operands)


def _check_laws(text: str, values: list[dict[str, Value]]) -> None:
    """What is selected is not what its negation selects; with itself it is the same."""
    try:
        against, twice = parse(f"NOT ({text})"), parse(f"({text}) AND ({text})")
    except Refused:
        return  # too long or too deep now
    selector = parse(text)
    for each in values:
        found = selector.matches(each)
        assert not (found and against.matches(each)), "both it and its negation"
        assert twice.matches(each) == found

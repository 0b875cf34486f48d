"""Decides what each step of a selector makes of a message's values: compares, computes, matches a pattern. Never reads
the text of a selector. None is unknown, as SQL has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeGuard

from replica.machine import Refused
from tandemq.v1.common_pb2 import Reason

_NUMBER_MAX = 1e300  # beyond it a result is unknown: whole numbers must not grow without end

Value = str | int | float | bool | None


class Values(Protocol):
    """A message as its selector sees it."""

    def get(self, name: str, /) -> Value:
        """None: it has no such property."""


Test = Callable[[Values], Value]


def bad(problem: str, text: str) -> Refused:
    return Refused(Reason.REASON_BAD_SELECTOR, f"selector {text!r}: {problem}")


def _is_number(value: Value) -> TypeGuard[float]:
    return type(value) in (int, float)


def _comparable(left: Value, right: Value) -> bool:
    if _is_number(left):
        return _is_number(right)
    return left is not None and type(left) is type(right)


def compared(sign: str, left: Value, right: Value) -> Value:
    if not _comparable(left, right):
        return None
    if sign == "=":
        return left == right
    if sign == "<>":
        return left != right
    if isinstance(left, bool):
        return None  # truth has no order
    if sign == "<":
        return left < right  # type: ignore[operator]  # comparable: both text or both numbers
    if sign == "<=":
        return left <= right  # type: ignore[operator]  # as above
    if sign == ">":
        return left > right  # type: ignore[operator]  # as above
    return left >= right  # type: ignore[operator]  # as above


def computed(sign: str, left: Value, right: Value) -> Value:
    if not _is_number(left) or not _is_number(right):
        return None
    try:
        match sign:
            case "+":
                found: float = left + right
            case "-":
                found = left - right
            case "*":
                found = left * right
            case _:
                if isinstance(left, int) and isinstance(right, int):
                    found = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)  # as SQL: towards zero
                else:
                    found = left / right
    except (ZeroDivisionError, OverflowError):
        return None
    return None if abs(found) > _NUMBER_MAX else found


def both(left: Value, right: Value) -> Value:
    if left is False or right is False:
        return False
    return True if left is True and right is True else None


def opposite(value: Value) -> Value:
    return not value if isinstance(value, bool) else None


class Like:
    """A pattern as pieces between its %: each is found once, from left to right, so no value makes it slow."""

    def __init__(self, pattern: str, escape: str, selector: str) -> None:
        pieces: list[list[str]] = [[]]  # "" in a piece: any one character
        at = 0
        while at < len(pattern):
            sign = pattern[at]
            if escape and sign == escape:
                at += 1
                if at == len(pattern):
                    raise bad("LIKE: nothing follows the escape at the end of the pattern", selector)
                pieces[-1].append(pattern[at])
            elif sign == "%":
                pieces.append([])
            else:
                pieces[-1].append("" if sign == "_" else sign)
            at += 1
        self._pieces = pieces
        # Of one length each, so a search is linear in the value, and not in Python.
        self._middle = [
            re.compile("".join(re.escape(sign) if sign else "." for sign in piece), re.DOTALL) for piece in pieces[1:-1]
        ]

    def matches(self, value: str) -> bool:
        first, *rest = self._pieces
        if not _fits(first, value, 0):
            return False
        at = len(first)
        if not rest:
            return at == len(value)
        last = rest[-1]
        for piece in self._middle:
            found = piece.search(value, at)
            if found is None:
                return False
            at = found.end()
        return len(value) - len(last) >= at and _fits(last, value, len(value) - len(last))


def _fits(piece: list[str], value: str, at: int) -> bool:
    return len(value) - at >= len(piece) and all(sign in ("", value[at + place]) for place, sign in enumerate(piece))


def computing(first: Test, rest: Sequence[tuple[str, Test]]) -> Test:
    def test(values: Values) -> Value:
        value = first(values)
        for sign, operand in rest:
            value = computed(sign, value, operand(values))
        return value

    return test


def any_of(tests: list[Test]) -> Test:
    def test(values: Values) -> Value:
        found: Value = False
        for each in tests:
            value = each(values)
            if value is True:
                return True
            if value is not False:
                found = None
        return found

    return test


def all_of(tests: list[Test]) -> Test:
    def test(values: Values) -> Value:
        found: Value = True
        for each in tests:
            value = each(values)
            if value is False:
                return False
            if value is not True:
                found = None
        return found

    return test

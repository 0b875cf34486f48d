"""Waiting for what can be seen and is not reported: until it is so, in an event loop and outside of one.

A wait ends at its event. The one outer bound is there for failures alone, on whatever machine, and says what was waited
for; where a wait has an event of its own, that is awaited under `asyncio.timeout(OUTER_S)`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeVar

OUTER_S = 120.0
"""Below the time of a test, so that a failure says what it waited for."""
POLL_S, TURNS = 0.02, 50

T = TypeVar("T")


async def until(condition: Callable[[], Awaitable[T] | T], what: str = "what is waited for") -> T:
    """The first true answer of `condition`, which may be a coroutine; fails at the bound, saying the last answer."""
    deadline_s, turns = time.monotonic() + OUTER_S, 0
    while True:
        asked = condition()
        answer: T = await asked if isawaitable(asked) else asked
        if answer:
            return answer
        _look_at(deadline_s, what, answer)
        turns += 1
        await asyncio.sleep(0 if turns < TURNS else POLL_S)  # most of it is so as soon as the loop has turned


def until_sync(condition: Callable[[], T], what: str) -> T:
    """The same without a loop."""
    deadline_s = time.monotonic() + OUTER_S
    while not (answer := condition()):
        _look_at(deadline_s, what, answer)
        time.sleep(POLL_S)
    return answer


def _look_at(deadline_s: float, what: str, answer: object) -> None:
    assert time.monotonic() < deadline_s, f"not within {OUTER_S:g} s: {what}; last seen: {answer!r}"

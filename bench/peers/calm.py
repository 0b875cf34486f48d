"""What was measured while others used the machine is measured again; what it was before stays beside it.

Whether it is, is a matter of what strangers used alone, never of a figure: who repeats what came out slow, lies. Nor is
it repeated when a message was lost or a setting was wrong: that is a result, in noise too.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from bench.peers.figures import NOISY_CORES, load_was_the_limit

AGAIN_MAX = 5
"""Repetitions. What is noisy after these stays so, and no report takes it."""
PAUSE_S = 5.0
"""Before the first repetition, and so much more before each that follows: neighbours come for a while."""
KEPT_OF = ("value", "p50_ms", "p99_ms", "foreign_cores")
SAID_OF = ("refused", "remarks")  # where it says anything

Line = dict[str, Any]


def is_noisy(line: Mapping[str, Any]) -> bool:
    return bool((line.get("foreign_cores") or 0.0) > NOISY_CORES)


class Attempts:
    """At one measurement, be it of one line or of several."""

    def __init__(self, again_max: int) -> None:
        self._again_max = again_max
        self._earlier: list[Sequence[Line]] = []

    @property
    def count(self) -> int:
        return len(self._earlier)

    def pause_after(self, lines: Sequence[Line]) -> float:
        """Seconds before the next attempt; 0: these lines stand."""
        if self.count == self._again_max or not repeatable(lines):
            return 0.0
        self._earlier.append(lines)
        most = max(line["foreign_cores"] for line in lines)
        print(f"measured again: strangers used {most:.2f} cores", file=sys.stderr, flush=True)
        return PAUSE_S * self.count

    def beside(self, lines: Sequence[Line]) -> list[Line]:
        """`set_aside` of each line says what it was in the attempts before."""
        before = zip(*self._earlier, strict=True) if self._earlier else [()] * len(lines)
        return [
            {**line, "set_aside": [kept_of(attempt) for attempt in attempts]} if attempts else line
            for line, attempts in zip(lines, before, strict=True)
        ]


def calm(
    measure: Callable[[], Sequence[Line]], again_max: int = AGAIN_MAX, pause: Callable[[float], None] = time.sleep
) -> list[Line]:
    """What `measure` gives in the first attempt in which the machine was ours, or in the last of 1 + `again_max`."""
    attempts = Attempts(again_max)
    while pause_s := attempts.pause_after(lines := measure()):
        pause(pause_s)
    return attempts.beside(lines)


async def calm_on_loop(
    measure: Callable[[int], Awaitable[Line]],
    again_max: int = AGAIN_MAX,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Line:
    """The same of one line, where an event loop must go on; `measure` gets how many attempts there were."""
    attempts = Attempts(again_max)
    while pause_s := attempts.pause_after([line := await measure(attempts.count)]):
        await pause(pause_s)
    return attempts.beside([line])[0]


def kept_of(attempt: Line) -> Line:
    """Its figures, and why it would not have counted in quiet either."""
    said = {name: attempt[name] for name in SAID_OF if attempt.get(name)}
    return {name: attempt[name] for name in KEPT_OF if name in attempt} | said


def repeatable(lines: Sequence[Line]) -> bool:
    """Some are noisy, and none says of the system what no noise excuses."""
    return any(map(is_noisy, lines)) and not any(map(failed, lines))


def failed(line: Line) -> bool:
    """Refused for more than lateness of the load, which noise brings about."""
    late = load_was_the_limit(line) if "rate" in line else []
    return bool(set(line.get("refused", ())) - set(late))

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


def calm(
    measure: Callable[[], Sequence[Line]], again_max: int = AGAIN_MAX, pause: Callable[[float], None] = time.sleep
) -> list[Line]:
    """What `measure` gives in the first attempt in which the machine was ours, or in the last of 1 + `again_max`;
    `set_aside` of each line says what it was in those before."""
    earlier: list[Sequence[Line]] = []
    while True:
        lines = measure()
        if len(earlier) == again_max or not repeatable(lines):
            break
        earlier.append(lines)
        most = max(line["foreign_cores"] for line in lines)
        print(f"measured again: strangers used {most:.2f} cores", file=sys.stderr, flush=True)
        pause(PAUSE_S * len(earlier))
    if not earlier:
        return list(lines)
    before = zip(*earlier, strict=True)
    return [
        {**line, "set_aside": [kept_of(attempt) for attempt in attempts]}
        for line, attempts in zip(lines, before, strict=True)
    ]


async def calm_on_loop(
    measure: Callable[[int], Awaitable[Line]],
    again_max: int = AGAIN_MAX,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Line:
    """The same of one line, where an event loop must go on; `measure` is told how many attempts there were."""
    earlier: list[Line] = []
    while True:
        line = await measure(len(earlier))
        if len(earlier) == again_max or not repeatable([line]):
            return {**line, "set_aside": [kept_of(attempt) for attempt in earlier]} if earlier else line
        earlier.append(line)
        print(f"measured again: strangers used {line['foreign_cores']:.2f} cores", file=sys.stderr, flush=True)
        await pause(PAUSE_S * len(earlier))


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

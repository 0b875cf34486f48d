"""Waits for work as long as it moves, and distinguishes a machine that is too busy from work that stands still."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from pipeline.problems import DEMO_FAILED, TOO_BUSY, PipelineError

BUSY_LOAD = 2.0
"""Load average for each processor, above which nothing is said of the work itself."""
LOOK_S = 0.5
Came = TypeVar("Came")


async def while_it_moves(
    work: Coroutine[Any, Any, Came], progress: Callable[[], object], what: str, quiet_s: float
) -> Came:
    """What the work comes to, however long it takes. `progress` is something that changes while the work goes on.

    Raises PipelineError when it has not changed for `quiet_s`, with reason TOO_BUSY where the machine has more to do
    than it can; the work is cancelled then.
    """
    task = asyncio.create_task(work)
    seen, at = progress(), time.monotonic()
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK_S)
            now = progress()
            if now != seen:
                seen, at = now, time.monotonic()
            elif not task.done() and time.monotonic() - at > quiet_s:
                raise stuck(f"{what}: nothing has moved for {quiet_s:g} s; {now} was the last", os.getloadavg()[0])
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    return task.result()


def stuck(text: str, load: float, cpus: int | None = None) -> PipelineError:
    """Whose fault it is, by the load average of the last minute."""
    count = cpus or os.cpu_count() or 1
    if load > BUSY_LOAD * count:
        return PipelineError(TOO_BUSY, f"{text}; the load average is {load:.1f} on {count} processors")
    return PipelineError(DEMO_FAILED, text)

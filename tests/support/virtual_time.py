"""An asyncio loop whose time passes at once: whoever waits for a day waits for nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Skipping(selectors.SelectSelector):
    skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits for something that nobody will do"
        self.skipped_s += max(timeout, 0.0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._skipping.skipped_s


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`, from time 0."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


async def until(time_s: float) -> None:
    """Lets everything happen that is due before then."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop), "in real time a test waits for an event"
    reached = loop.create_future()
    loop.call_at(time_s, reached.set_result, None)
    await reached

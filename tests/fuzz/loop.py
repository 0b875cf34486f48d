"""An asyncio loop whose time is a number: nothing waits, and what an executor would do is done by itself.

Time moves when every task waits for it. When every task waits for something else, nothing can ever happen again, and
that is an error rather than a hang.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, Self


class StuckError(AssertionError):
    """Every task waits for something that no timer will bring."""


class _Selector(selectors.DefaultSelector):
    """Never looks at a socket; a wait is time that has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError("nothing is left that could happen")
        self.now_s += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Use it as a context: it is the current loop inside, and closed after."""

    def __init__(self) -> None:
        self._selector_of_time = _Selector()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        return self._selector_of_time.now_s

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Done in a later turn of the loop, as if a thread had needed no time for it."""

        async def work() -> Any:
            return func(*args)

        return self.create_task(work())

    def __enter__(self) -> Self:
        asyncio.set_event_loop(self)
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.set_event_loop(None)
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.close()


async def pass_time(seconds: float) -> None:
    """Virtual seconds go by: nobody waits for them."""
    await asyncio.sleep(seconds)


__all__ = ["StuckError", "VirtualLoop", "pass_time"]

"""Carries coroutines from any thread to one event loop on a thread of its own; it decides nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


class LoopThread:
    """An event loop that runs on a daemon thread until it is closed."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Starts a coroutine; does not wait."""
        if self.loop.is_closed():
            work.close()
            raise RuntimeError("the client is closed")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The coroutine's result; cancels it when the caller is interrupted."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking call from the client's own thread (a callback) would wait for itself")
        future = self.submit(work)
        try:
            return future.result()
        finally:
            future.cancel()  # does nothing unless the caller was interrupted

    def apply(self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """The function's result, called on the loop's thread."""

        async def call() -> Result:
            return function(*args, **kwargs)

        return self.run(call())

    def each(self, source: AsyncIterator[Result], *, at_once: int = 1) -> Iterator[Result]:
        """What the source gives, of which so many items come over together. Does not close it."""

        async def some() -> list[Result]:
            found: list[Result] = []
            async for item in source:
                found.append(item)
                if len(found) == at_once:
                    break
            return found

        while found := self.run(some()):
            yield from found

    def call_soon(self, work: Callable[[], None]) -> None:
        """Runs a function on the loop's thread; does not wait."""
        self.loop.call_soon_threadsafe(work)

    def close(self) -> None:
        """Stops the loop and waits for its thread. May be called twice."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

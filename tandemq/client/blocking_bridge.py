"""Between a blocking client and the asyncio one: their end, and the calls that do more than be carried over.

It decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TypeVar, Unpack
from weakref import WeakSet

from tandemq.client import aio
from tandemq.client.blocking_results import Handle, ReceivedBatch
from tandemq.client.blocking_units import Unit
from tandemq.client.completion import WAIT_SLICE, Completion, OnCompletion
from tandemq.client.consumer import Mode
from tandemq.client.loop_thread import LoopThread
from tandemq.client.open_units import RETRIES
from tandemq.client.outgoing import Attributes
from tandemq.client.queue_watch import DepthEvent
from tandemq.client.waits import Wait, to_wait
from tandemq.errors import UnitAborted, error_of
from tandemq.finding.target import Target

Result = TypeVar("Result")


class Bridge:
    """One asyncio client on its thread, which is its own unless it is given one."""

    def __init__(self, inner: aio.Client, thread: LoopThread | None) -> None:
        self.thread = thread or LoopThread("tandemq client")
        self._inner = inner
        self._own = thread is None
        self._closed = False
        self._asked: WeakSet[Future[ReceivedBatch]] = WeakSet()

    @property
    def target(self) -> Target:
        """Where its members are."""
        return self._inner.target

    def close(self) -> None:
        """Closes its producers (which flush) and consumers (which give back), then the connections. May be repeated."""
        if self._closed:
            return
        self._closed = True
        for asked in list(self._asked):  # nobody will have what has not come
            asked.cancel()
        try:
            self.thread.run(self._inner.close())
        finally:
            if self._own:
                self.thread.close()

    def send(
        self,
        queue: str,
        payload: bytes,
        *,
        wait: Wait | None = None,
        on_completion: Callable[[Handle, Completion], None] | None = None,
        min_copies: int = 0,
        request_id: bytes | None = None,
        **attributes: Unpack[Attributes],
    ) -> Handle:
        """Sends one message; see aio.Client.send. `on_completion` runs on the client's thread and must not block."""
        call = self._inner.send(
            queue,
            payload,
            wait=wait,
            on_completion=None if on_completion is None else self._with_handle(on_completion),
            min_copies=min_copies,
            request_id=request_id,
            **attributes,
        )
        return Handle(self.thread, self.thread.run(call))

    def _with_handle(self, wanted: Callable[[Handle, Completion], None]) -> OnCompletion:
        def notify(inner: aio.Handle, completion: Completion) -> None:
            wanted(Handle(self.thread, inner), completion)

        return notify

    def completions(self, queue: str, handles: Iterable[bytes | Handle]) -> Iterator[Completion]:
        """Each message once, when it has ended; see aio.Client.completions."""
        values = [handle.value if isinstance(handle, Handle) else handle for handle in handles]
        source = self._inner.completions(queue, values)
        try:
            yield from self.thread.each(source)
        finally:
            self.thread.run(_ended(source))

    def in_unit(
        self,
        work: Callable[[Unit], Result],
        *,
        retries: int = RETRIES,
        timeout: timedelta | None = None,
        min_copies: int = 0,
        client_id: bytes | str | None = None,
        puts_at_commit: bool = False,
    ) -> Result:
        """Runs `work` in a unit of work, on the caller's thread, and again after a takeover; see aio.Client.in_unit."""
        if retries < 0:
            raise error_of("BAD_REQUEST", f"retries must be 0 or more, not {retries}")
        while True:
            inner = self._inner.unit(
                timeout=timeout, min_copies=min_copies, client_id=client_id, puts_at_commit=puts_at_commit
            )
            unit = Unit(self.thread, inner)
            try:
                with unit:
                    return work(unit)
            except UnitAborted:
                if not retries or not unit.is_undone:
                    raise
                retries -= 1

    def watch(self, queues: str | Sequence[str], *, depth: int = 1) -> Iterator[DepthEvent]:
        """Says when messages gather in queues; see aio.Client.watch. Ends when the iterator is closed."""
        source = self._inner.watch(queues, depth=depth)
        try:
            yield from self.thread.each(source)
        finally:
            self.thread.run(_ended(source))

    def dequeue_ahead(
        self,
        queue: str,
        max_messages: int = 1,
        *,
        wait: Wait | None = -1,
        lease: timedelta | None = None,
        mode: Mode | None = None,
    ) -> Future[ReceivedBatch]:
        """Asks for messages and goes on: the future has them when they have come, or none when the wait is over.

        wait: seconds, -1, the default, for ever. Requests are served in the order in which they came to the master.
        Callbacks of the future run on the client's thread and must not block.
        """
        asked = self.thread.submit(self._until(queue, max_messages, to_wait(wait), lease, mode))
        self._asked.add(asked)
        return asked

    async def _until(
        self, queue: str, max_messages: int, wait: timedelta, lease: timedelta | None, mode: Mode | None
    ) -> ReceivedBatch:
        """A slice of the wait at a time: a member that went silent is left by then."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait.total_seconds()
        left = wait
        while True:
            slice_ = min(left, WAIT_SLICE)
            batch = await self._inner.dequeue(queue, max_messages, wait=slice_, lease=lease, mode=mode)
            left = timedelta(seconds=until - loop.time())
            if batch or left <= timedelta():
                return ReceivedBatch(self.thread, batch)


async def _ended(source: AsyncIterator[Completion] | AsyncIterator[DepthEvent]) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()

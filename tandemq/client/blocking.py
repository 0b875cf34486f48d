"""The blocking client: the asyncio client on one background thread, with the same calls. It decides nothing.

with tandemq.connect("host:7600,host:7610") as client:
    with client.producer("orders") as producer:
        receipt = producer.send(b"...")
    for delivery in client.consumer("orders"):
        delivery.ack()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from datetime import timedelta
from types import TracebackType
from typing import Self, Unpack
from weakref import WeakSet

from tandemq.client import aio
from tandemq.client.blocking_generated import Calls
from tandemq.client.blocking_results import Handle, ReceivedBatch
from tandemq.client.blocking_streams import Consumer, Producer
from tandemq.client.completion import WAIT_SLICE, Completion
from tandemq.client.consumer import Mode
from tandemq.client.loop_thread import LoopThread
from tandemq.client.outgoing import Attributes
from tandemq.client.waits import Wait, to_wait
from tandemq.finding.resolver import Resolver
from tandemq.finding.target import Target

__all__ = ["Client", "Consumer", "Handle", "Producer", "ReceivedBatch", "connect"]


def connect(
    target: str | Sequence[str] | Target | None = None,
    *,
    timeout: float = aio.TIMEOUT_S,
    attempt_timeout: float = 5.0,
    follow_master: bool = True,
    resolvers: Sequence[Resolver] = (),
) -> Client:
    """A blocking client; the arguments are those of tandemq.aio.connect. Close it, or use it in a `with` block."""
    inner = aio.connect(
        target, timeout=timeout, attempt_timeout=attempt_timeout, follow_master=follow_master, resolvers=resolvers
    )
    return Client(inner)


class Client(Calls):
    """Talks to one pair from any thread. Calls raise what those of aio.Client raise, and repeat as those do."""

    def __init__(self, inner: aio.Client, thread: LoopThread | None = None) -> None:
        super().__init__(inner, thread or LoopThread("tandemq client"))
        self._own = thread is None
        self._closed = False
        self._asked: WeakSet[Future[ReceivedBatch]] = WeakSet()

    @property
    def target(self) -> Target:
        """Where its members are."""
        return self._inner.target

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes its producers (which flush) and consumers (which give back), then the connections. May be repeated."""
        if self._closed:
            return
        self._closed = True
        self._give_up()
        try:
            self._thread.run(self._inner.close())
        finally:
            if self._own:
                self._thread.close()

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
        tell = None
        if on_completion is not None:
            told = on_completion

            def tell(inner: aio.Handle, completion: Completion) -> None:
                told(Handle(self._thread, inner), completion)

        call = self._inner.send(
            queue,
            payload,
            wait=wait,
            on_completion=tell,
            min_copies=min_copies,
            request_id=request_id,
            **attributes,
        )
        return Handle(self._thread, self._thread.run(call))

    def completions(self, queue: str, handles: Iterable[bytes | Handle]) -> Iterator[Completion]:
        """Each message once, when it has ended; see aio.Client.completions."""
        values = [handle.value if isinstance(handle, Handle) else handle for handle in handles]
        source = self._inner.completions(queue, values)
        try:
            yield from self._thread.each(source)
        finally:
            self._thread.run(_ended(source))

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
        asked = self._thread.submit(self._until(queue, max_messages, to_wait(wait), lease, mode))
        self._asked.add(asked)
        return asked

    def _give_up(self) -> None:
        """Nobody will have what was asked for and has not come."""
        for asked in list(self._asked):
            asked.cancel()

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
                return ReceivedBatch(self._thread, batch)


async def _ended(source: AsyncIterator[Completion]) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()

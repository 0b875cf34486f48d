"""The blocking form of the calls about numbered batches; see `batches`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

from tandemq.client import aio
from tandemq.client.batches import LeasedBatch, TakenBatches
from tandemq.client.delivery import ReceivedMessage
from tandemq.client.loop_thread import LoopThread
from tandemq.client.places import JournalPosition


class Batches:
    """Part of the blocking client."""

    _inner: aio.Client
    _thread: LoopThread

    def lease_batch(
        self,
        queue: str,
        consumer: str,
        number: int,
        *,
        max_messages: int = 0,
        max_bytes: int = 0,
        lease: timedelta | None = None,
        seen: JournalPosition | None = None,
    ) -> LeasedBatch | None:
        """Takes the next messages as a batch, or says what it is; see aio.Client.lease_batch."""
        return self._thread.run(
            self._inner.lease_batch(
                queue, consumer, number, max_messages=max_messages, max_bytes=max_bytes, lease=lease, seen=seen
            )
        )

    def read_batch(
        self,
        queue: str,
        consumer: str,
        number: int,
        *,
        first: int = 0,
        until: int | None = None,
        seen: JournalPosition | None = None,
    ) -> Iterator[list[ReceivedMessage]]:
        """The messages of a batch, page by page; see aio.Client.read_batch."""
        pages = self._inner.read_batch(queue, consumer, number, first=first, until=until, seen=seen)
        while (page := self._thread.run(_next_of(pages))) is not None:
            yield page

    def ack_batch(self, queue: str, consumer: str, number: int, *, seen: JournalPosition | None = None) -> None:
        """Acknowledges a whole batch; see aio.Client.ack_batch."""
        self._thread.run(self._inner.ack_batch(queue, consumer, number, seen=seen))

    def get_batches(self, queue: str, consumer: str, *, seen: JournalPosition | None = None) -> TakenBatches:
        """Where a consumer stands; see aio.Client.get_batches."""
        return self._thread.run(self._inner.get_batches(queue, consumer, seen=seen))


async def _next_of(pages: AsyncIterator[list[ReceivedMessage]]) -> list[ReceivedMessage] | None:
    return await anext(pages, None)

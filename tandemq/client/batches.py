"""Numbered batches: messages that a named consumer can read again, whatever crashes, until it acknowledges all of them.
It carries out calls and decides nothing; every one raises TandemqError, and may be repeated.

seen, of each call: where the journal was when this consumer last read a position. A pair that does not know of
it is another one, or went back: Refused with reason PAIR_CHANGED, EPOCH_DIVERGED or OUT_OF_RANGE.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration

from tandemq.client.calls import BATCH_SERVICE
from tandemq.client.delivery import ReceivedMessage
from tandemq.client.links import Linked
from tandemq.client.parts import RowsPart
from tandemq.client.places import JournalPosition, position_of, seen_of
from tandemq.v1 import batch_service_pb2 as pb


class LeasedBatch(NamedTuple):
    """A batch that is leased."""

    number: int
    messages: int
    """How many are in it."""
    lease_id: int
    expires_at: datetime | None
    """Then its messages are delivered again, and its number is refused. None: it has no end, as those of links."""
    position: JournalPosition | None = None
    """Where the journal was when it was taken: give it as `seen` with the next number. None: of a list, see there."""


class TakenBatches(NamedTuple):
    """What a consumer has."""

    last_number: int
    """0: none is known."""
    batches: tuple[LeasedBatch, ...]
    """Those that can be read and acknowledged, by number."""
    position: JournalPosition
    """Where the journal of the queue's domain is now."""


async def lease_batch(
    client: Linked,
    queue: str,
    consumer: str,
    number: int,
    *,
    max_messages: int = 0,
    max_bytes: int = 0,
    lease: timedelta | None = None,
    seen: JournalPosition | None = None,
) -> LeasedBatch | None:
    """Takes the next messages of a queue as batch `number` of `consumer`, or says what that batch is when it was
    taken before. None: there is nothing to take, and the number is still free.

    number: from 1, one more than the last one; of a consumer that is not known any. max_messages: up to 10,000; 0
    is 1,000. max_bytes: up to 64 MiB; 0 is 16 MiB. lease: how long the batch outlives this client, up to 12 h; 10
    minutes unless it is said.
    Raises Refused with reason BATCH_GAP when the number does not follow, BATCH_GONE when it was acknowledged or its
    lease has ended.
    """
    request = pb.LeaseBatchRequest(
        queue=queue,
        consumer=consumer,
        number=number,
        max_messages=max_messages,
        max_bytes=max_bytes,
        seen=seen_of(seen),
    )
    if lease is not None:
        duration = Duration()
        duration.FromTimedelta(lease)
        request.lease_duration.CopyFrom(duration)
    answer = await client.links.own.caller.call(
        BATCH_SERVICE + "LeaseBatch", request, pb.LeaseBatchResponse, queue=queue
    )
    if not answer.HasField("batch"):
        return None
    return _batch(answer.batch)._replace(position=position_of(answer.position))


async def read_batch(
    client: Linked,
    queue: str,
    consumer: str,
    number: int,
    *,
    first: int = 0,
    until: int | None = None,
    seen: JournalPosition | None = None,
) -> AsyncIterator[list[ReceivedMessage]]:
    """The messages of a batch at the places from `first` up to before `until` (None: all), the same each time, page
    by page.

    Raises Refused with reason BATCH_GONE when it was acknowledged or its lease has ended.
    """
    at = first
    while until is None or at < until:
        request = pb.ReadBatchRequest(
            queue=queue,
            consumer=consumer,
            number=number,
            first=at,
            max_messages=0 if until is None else until - at,
            seen=seen_of(seen),
        )
        page = await client.links.own.caller.call(
            BATCH_SERVICE + "ReadBatch", request, pb.ReadBatchResponse, queue=queue
        )
        if not page.messages:
            return
        part = RowsPart(page.messages)
        yield [ReceivedMessage(queue, part, place) for place in range(len(page.messages))]
        at = page.next


async def ack_batch(
    client: Linked, queue: str, consumer: str, number: int, *, seen: JournalPosition | None = None
) -> None:
    """Acknowledges a whole batch. Raises Refused with reason BATCH_GONE when its lease has ended: its messages are
    delivered again.
    """
    request = pb.AckBatchRequest(queue=queue, consumer=consumer, number=number, seen=seen_of(seen))
    await client.links.own.caller.call(BATCH_SERVICE + "AckBatch", request, pb.AckBatchResponse, queue=queue)


async def get_batches(
    client: Linked, queue: str, consumer: str, *, seen: JournalPosition | None = None
) -> TakenBatches:
    """Where a consumer stands."""
    request = pb.GetBatchesRequest(queue=queue, consumer=consumer, seen=seen_of(seen))
    found = await client.links.own.caller.call(
        BATCH_SERVICE + "GetBatches", request, pb.GetBatchesResponse, queue=queue
    )
    return TakenBatches(found.last_number, tuple(map(_batch, found.batches)), position_of(found.position))


def _batch(batch: pb.LeasedBatch) -> LeasedBatch:
    expires_at = batch.expires_at.ToDatetime(UTC) if batch.HasField("expires_at") else None
    return LeasedBatch(batch.number, batch.count, batch.lease_id, expires_at)

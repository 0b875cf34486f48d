"""Stages rows and publishes them, exactly once for each (writer, batch); see docs/CLIENTS.md. It decides nothing.

A stage is rows that are kept aside, under an id that its maker chooses at random. Every call here carries its identity
and may be repeated: a part of a stage, the batch of a writer, an abort.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tandemq.client.calls import STAGE_SERVICE
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.client.outgoing import Outgoing, write_columns
from tandemq.client.places import JournalPosition, position_of, seen_of
from tandemq.v1 import message_pb2
from tandemq.v1 import stage_service_pb2 as pb
from tandemq.v1.queue_service_pb2 import EnqueueBatch

STAGE_ID_BYTES = 16
PUBLISH_WAIT = timedelta(minutes=5)
"""A large batch takes its time to enter its queues; what is repeated meanwhile waits for the same end."""

Rows = message_pb2.MessageBatch | Iterable[bytes | Outgoing]
"""Columns as the contract has them, or a row each: a payload, or a payload with attributes."""


class Staged(NamedTuple):
    """What a stage holds after a part."""

    rows: int
    payload_bytes: int
    expires_at: datetime
    """It is dropped then, unless it is published, or gets another part before."""
    duplicate: bool
    """The part was here already."""


class PublishedRows(NamedTuple):
    """What one queue got of a batch."""

    queue: str
    first_index: int
    last_index: int
    rows: int


class Published(NamedTuple):
    """A batch is in its queues."""

    duplicate: bool
    """It was published before, and the stages of this call are dropped."""
    queues: tuple[PublishedRows, ...]
    """Empty for a batch before the last one of its writer."""
    position: JournalPosition
    """Where the journal was then: give it as `seen` with the next batch."""


class WriterState(NamedTuple):
    """What is remembered of a writer."""

    query_id: str
    batch: int
    """The last one that was published."""
    published_at: datetime
    position: JournalPosition
    """Where the journal is now; its history_id names the history that this is of."""
    digests: Mapping[int, int]
    """Asked for: what its latest 1,024 units at most were compared by, by number."""


def new_stage_id() -> bytes:
    """16 random bytes."""
    return new_request_id()


def batch_of(rows: Rows) -> message_pb2.MessageBatch:
    """Rows as columns. Raises TypeError for what has no form on the wire."""
    if isinstance(rows, message_pb2.MessageBatch):
        return rows
    given = [row if isinstance(row, Outgoing) else Outgoing(row) for row in rows]
    batch = message_pb2.MessageBatch(payloads=[row.payload for row in given])
    write_columns(batch, [row.attributes for row in given], [1] * len(given))
    return batch


async def stage(
    client: Linked,
    queue: str,
    rows: Rows,
    *,
    stage_id: bytes,
    part: int = 1,
    ttl: timedelta | None = None,
    seen: JournalPosition | None = None,
) -> Staged:
    """Keeps rows for a queue aside, up to 10,000 and 4 MiB a part; they are in no queue until they are published.

    part: counts from 1 in each stage; the same part again has one effect. A stage may have parts for several queues
    of one domain. ttl: how long the stage is kept from now on; None is an hour, a day at most. seen: as in
    `publish`.
    """
    link, name = client.links.at(queue)
    batch = EnqueueBatch(queue=name, messages=batch_of(rows))
    request = pb.StageRequest(stage_id=stage_id, part=part, batch=batch, seen=seen_of(seen))
    if ttl is not None:
        request.ttl.FromTimedelta(ttl)
    reply = await link.caller.call(STAGE_SERVICE + "Stage", request, pb.StageResponse, queue=name)
    expires_at = reply.expires_at.ToDatetime(UTC)
    return Staged(reply.rows, reply.payload_bytes, expires_at, reply.duplicate)


async def publish(
    client: Linked,
    writer: str,
    query_id: str,
    batch: int,
    stage_ids: Sequence[bytes],
    *,
    domain: str = "",
    min_copies: int = 0,
    seen: JournalPosition | None = None,
    previous_batch: int | None = None,
) -> Published:
    """Puts all rows of all stages into their queues, in this order, once for each (writer, batch), or refuses.

    Consumers see nothing of it before all of it is there. Batches rise; one that is not above the writer's last is
    a duplicate. Raises Refused with reason WRITER_TAKEN when the name belongs to another query, and NotFound with
    reason STAGE_NOT_FOUND when a stage is not there: then nothing was published by this call.

    seen: `Published.position` of the writer's last batch; previous_batch: one that it has published. A pair that
    does not know of them is another one, or went back: nothing is published, and Refused is raised with reason
    PAIR_CHANGED, EPOCH_DIVERGED or OUT_OF_RANGE. Without them a batch of an unknown writer is its first one.
    """
    request = pb.PublishRequest(
        writer=writer,
        query_id=query_id,
        batch=batch,
        stage_ids=stage_ids,
        domain=domain,
        min_copies=min_copies,
        seen=seen_of(seen),
        previous_batch=previous_batch,
    )
    reply = await client.links.own.caller.call(
        STAGE_SERVICE + "Publish", request, pb.PublishResponse, wait=PUBLISH_WAIT
    )  # fmt: skip
    queues = (PublishedRows(each.queue, each.first_index, each.last_index, each.rows) for each in reply.queues)
    return Published(reply.duplicate, tuple(queues), position_of(reply.position))


async def abort_stages(client: Linked, stage_ids: Sequence[bytes], *, domain: str = "") -> int:
    """Drops stages; how many were there. What was published stays."""
    request = pb.AbortRequest(stage_ids=stage_ids, domain=domain)
    return (await client.links.own.caller.call(STAGE_SERVICE + "Abort", request, pb.AbortResponse)).dropped


async def writer_state(client: Linked, writer: str, *, domain: str = "", digests: bool = False) -> WriterState | None:
    """The last batch that was published under a name; None: it is free."""
    request = pb.GetWriterRequest(writer=writer, domain=domain, digests=digests)
    reply = await client.links.own.caller.call(STAGE_SERVICE + "GetWriter", request, pb.GetWriterResponse)
    if not reply.known:
        return None
    published_at = reply.published_at.ToDatetime(UTC)
    known = dict(zip(reply.unit_numbers, reply.unit_digests, strict=True))
    return WriterState(reply.query_id, reply.batch, published_at, position_of(reply.position), known)


async def release_writer(client: Linked, writer: str, *, domain: str = "", seen: JournalPosition | None = None) -> bool:
    """Forgets a writer, so that another query may use its name; False: nobody of that name is known.

    A batch that the old query repeats afterwards would be published again: end that query first. seen: as in
    `publish`, so that a name is given free at the pair that was meant.
    """
    request = pb.ReleaseWriterRequest(writer=writer, domain=domain, seen=seen_of(seen))
    return (
        await client.links.own.caller.call(STAGE_SERVICE + "ReleaseWriter", request, pb.ReleaseWriterResponse)
    ).released

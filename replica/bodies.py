"""Finds the bodies of delivered messages and packs them: whole batches as they arrived where possible, slices and rows
where not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from storage.records import FLAG_VOLATILE_BODY, split
from tandemq.peer.v1.record_pb2 import RecordHeader
from tandemq.v1.message_pb2 import DeliveredMessage, Message, MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.machine import SegmentSlice
    from replica.shared import Shared
    from storage.store import Store
    from tandemq.v1.queue_service_pb2 import Deliveries

PERSISTENT = 2


class Stored(NamedTuple):
    """One record, taken apart."""

    epoch: int
    time_ms: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    accepted: int
    body: bytes


def read_stored(store: Store, shared: Shared, log_index: int) -> Stored | None:
    """A record from memory, else from the store. None: it is gone, or its volatile body is."""
    entry = shared.log.get(log_index)
    record = entry.record if entry is not None else store.read(shared.domain, log_index)
    if record is None:
        return None
    prefix, header_bytes, body_view = split(record)
    header = RecordHeader.FromString(bytes(header_bytes))
    body = bytes(body_view)
    if prefix.flags & FLAG_VOLATILE_BODY and not body:
        found = shared.volatile_bodies.get(log_index)
        if found is None:
            return None
        body = found
    op = header.enqueue
    return Stored(prefix.epoch, header.time_ms, op.count, op.count - len(op.refusals), body)


def message_id(domain: int, epoch: int, log_index: int, ordinal: int) -> bytes:
    """16 bytes: domain (u32), epoch (u32), log index (u48), ordinal (u16), big-endian (rulings.md 18)."""
    return (
        domain.to_bytes(4, "big")
        + (epoch & 0xFFFFFFFF).to_bytes(4, "big")
        + log_index.to_bytes(6, "big")
        + ordinal.to_bytes(2, "big")
    )


def fill_segments(store: Store, shared: Shared, slices: Sequence[SegmentSlice], into: Deliveries) -> int:
    """The fast form, filled in place: a message copied into another copies every body. Returns the batches' bytes."""
    size = 0
    for part in slices:
        stored = read_stored(store, shared, part.log_index)
        if stored is None:
            continue
        whole = part.ordinals is None and part.count == stored.count
        body = stored.body if whole else _cut(stored.body, _ordinals(part))
        size += len(body)
        segment = into.segments.add()
        segment.batch = body
        segment.first_index = part.first_index
        segment.epoch = stored.epoch
        segment.log_index = part.log_index
        segment.first_ordinal = part.first_ordinal
        segment.enqueue_time_ms = stored.time_ms
        if part.ordinals:
            segment.ordinals.extend(part.ordinals)
        if part.delivery_counts:
            segment.delivery_counts.extend(part.delivery_counts)
    return size


def rows(
    store: Store, shared: Shared, queue: str, lease_id: int, slices: Sequence[SegmentSlice], *, browsing: bool = False
) -> list[DeliveredMessage]:
    """One message each, for every language."""
    out: list[DeliveredMessage] = []
    for part in slices:
        stored = read_stored(store, shared, part.log_index)
        if stored is None:
            continue
        batch = EnqueueBatch.FromString(stored.body).messages
        time = Timestamp()
        time.FromMilliseconds(stored.time_ms)
        counts = part.delivery_counts
        for place, ordinal in enumerate(_ordinals(part)):
            out.append(
                DeliveredMessage(
                    queue=queue,
                    index=part.first_index + place,
                    id=message_id(shared.domain, stored.epoch, part.log_index, ordinal),
                    message=row_of(batch, ordinal),
                    delivery_count=counts[place] if counts else (0 if browsing else 1),
                    enqueue_time=time,
                    lease_id=lease_id,
                )
            )
    return out


def _ordinals(part: SegmentSlice) -> Sequence[int]:
    return part.ordinals or range(part.first_ordinal, part.first_ordinal + part.count)


def row_of(batch: MessageBatch, ordinal: int) -> Message:
    """One row of a batch of columns."""
    message = Message(payload=batch.payloads[ordinal])
    if batch.priorities:
        message.priority = _at(batch.priorities, ordinal)
    if batch.persistence and _at(batch.persistence, ordinal):
        message.persistent = _at(batch.persistence, ordinal) == PERSISTENT
    if batch.ttls_ms and _at(batch.ttls_ms, ordinal):
        message.ttl.FromMilliseconds(_at(batch.ttls_ms, ordinal))
    if batch.content_types:
        message.content_type = _at(batch.content_types, ordinal)
    if batch.correlation_ids:
        message.correlation_id = _at(batch.correlation_ids, ordinal)
    if batch.reply_tos:
        message.reply_to = _at(batch.reply_tos, ordinal)
    if batch.group_ids:
        message.group_id = _at(batch.group_ids, ordinal)
    if batch.properties:
        for name, value in _at(batch.properties, ordinal).entries.items():
            message.properties[name].CopyFrom(value)
    return message


def _at(column: Sequence[Any], ordinal: int) -> Any:
    return column[0] if len(column) == 1 else column[ordinal]


def _cut(body: bytes, ordinals: Sequence[int]) -> bytes:
    """The batch with some of its messages only."""
    batch = EnqueueBatch.FromString(body)
    source = batch.messages
    cut = MessageBatch(payloads=[source.payloads[ordinal] for ordinal in ordinals])
    for name in (
        "priorities",
        "persistence",
        "ttls_ms",
        "content_types",
        "correlation_ids",
        "reply_tos",
        "group_ids",
        "properties",
    ):
        column = getattr(source, name)
        if len(column) == 1:
            getattr(cut, name).extend(column)
        elif column:
            getattr(cut, name).extend([column[ordinal] for ordinal in ordinals])
    return EnqueueBatch(queue=batch.queue, first_sequence=batch.first_sequence, messages=cut).SerializeToString()


def batch_of(messages: Sequence[Message]) -> MessageBatch:
    """Rows as columns; a column that nobody uses stays empty."""
    batch = MessageBatch(payloads=[message.payload for message in messages])
    if any(message.HasField("priority") for message in messages):
        batch.priorities.extend(message.priority if message.HasField("priority") else 4 for message in messages)
    if any(message.HasField("persistent") for message in messages):
        batch.persistence.extend(
            (2 if message.persistent else 1) if message.HasField("persistent") else 0 for message in messages
        )
    if any(message.HasField("ttl") for message in messages):
        batch.ttls_ms.extend(max(0, message.ttl.ToMilliseconds()) for message in messages)
    for column, name in (
        (batch.content_types, "content_type"),
        (batch.correlation_ids, "correlation_id"),
        (batch.reply_tos, "reply_to"),
        (batch.group_ids, "group_id"),
    ):
        if any(getattr(message, name) for message in messages):
            column.extend(getattr(message, name) for message in messages)
    if any(message.properties for message in messages):
        for message in messages:
            entries = batch.properties.add().entries
            for key in message.properties:
                entries[key].CopyFrom(message.properties[key])
    return batch

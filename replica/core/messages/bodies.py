"""Finds the bodies of delivered messages and packs them: whole batches as they arrived where possible, slices and rows
where not.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from replica.machine.plan.columns import DURATION_MS_MAX, TIMESTAMP_MS_MAX
from storage.errors import CorruptRecord
from storage.records import FLAG_VOLATILE_BODY, PREFIX_SIZE, Prefix, split, split_stored
from storage.store import place_checked
from tandemq.peer.v1.record_pb2 import RecordHeader
from tandemq.v1.message_pb2 import DeliveredMessage, Message, MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    class Rows(Protocol):
        """A field of messages."""

        def add(self) -> DeliveredMessage: ...

    from replica.core.state.shared import Shared
    from replica.machine import SegmentSlice
    from storage.store import Store
    from tandemq.peer.v1.record_pb2 import ReplyOp
    from tandemq.v1.message_pb2 import Properties
    from tandemq.v1.queue_service_pb2 import Deliveries, DequeueResponse

PERSISTENT = 2
PAGE_BYTES = 1 << 20
"""Of one page of a browse: clients in other languages take 4 MiB by themselves."""
MANY = 4
"""Rows of one record for which it pays to read its columns off it once."""


class Stored(NamedTuple):
    """One record, taken apart."""

    epoch: int
    time_ms: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    accepted: int
    body: bytes
    replies: Sequence[ReplyOp] = ()
    """Of a unit of work: requests that it answers. The answers are in the body, behind what enters queues."""


def _parts(store: Store, shared: Shared, log_index: int) -> tuple[Prefix, memoryview, memoryview] | None:
    """A record from memory, which was checked when it came; else from the store, and checked now.

    Damage is reported here, for all who read bodies. Raises CorruptRecord.
    """
    entry = shared.log.get(log_index)
    if entry is not None:
        return split(entry.record)
    record = store.read(shared.domain, log_index)
    if record is None:
        return None
    try:
        parts = split_stored(record)
        place_checked(parts[0], shared.domain, log_index, "")
    except CorruptRecord as corrupt:
        shared.report_damage(log_index)
        where = f"record {log_index} of domain {shared.name}, at {shared.member}"
        raise CorruptRecord(corrupt.what, where) from corrupt
    return parts


def is_whole(store: Store, shared: Shared, log_index: int) -> bool:
    """Whether a record can be delivered, as far as its checksums say; one that is gone is not damaged."""
    try:
        _parts(store, shared, log_index)
    except CorruptRecord:
        return False
    return True


def read_stored(store: Store, shared: Shared, log_index: int) -> Stored | None:
    """A record from memory, else from the store. None: it is gone, or its volatile body is. Raises CorruptRecord.

    `count` is of all messages in its body, but for the answer of a REPLY.
    """
    entry = shared.log.get(log_index)
    if entry is not None:  # nearly all of them
        at, flags, epoch = entry.head_len, entry.flags, entry.epoch
        header, body = RecordHeader.FromString(entry.record[PREFIX_SIZE:at]), entry.record[at:]
    else:
        parts = _parts(store, shared, log_index)
        if parts is None:
            return None
        prefix, header_bytes, body_view = parts
        flags, epoch = prefix.flags, prefix.epoch
        header, body = RecordHeader.FromString(bytes(header_bytes)), bytes(body_view)
    if flags & FLAG_VOLATILE_BODY and not body:
        found = shared.volatile.bodies.get(log_index)
        if found is None:
            return None
        body = found
    if header.HasField("stage"):
        return Stored(epoch, header.time_ms, header.stage.count, header.stage.count, body)
    if header.HasField("enqueue"):  # nearly all of them
        op = header.enqueue
        stored = op.count - len(op.refusals) - len(op.duplicates)
        return Stored(epoch, header.time_ms, op.count, stored, body)
    ops, replies = header.txn.enqueues, header.txn.replies
    count = header.txn.deal.count or sum(op.count for op in ops)
    left_out = sum(len(op.refusals) + len(op.duplicates) for op in ops)
    return Stored(epoch, header.time_ms, count + len(replies), count - left_out, body, replies)


def read_answer(store: Store, shared: Shared, log_index: int, request: tuple[int, int] = (0, 0)) -> Message | None:
    """The answer that a record holds; None: it is gone. Raises CorruptRecord. `request`: see `answer_in`."""
    stored = read_stored(store, shared, log_index)
    return answer_in(stored, request) if stored is not None else None


def answer_in(stored: Stored, request: tuple[int, int]) -> Message:
    """The answer to a request, by queue and index, that this record has answered. A REPLY has answered one alone."""
    if not stored.replies:
        return Message.FromString(stored.body)
    (ordinal,) = (each.ordinal for each in stored.replies if (each.queue_id, each.index) == request)
    return row_of(EnqueueBatch.FromString(stored.body).messages, ordinal)


def message_id(domain: int, epoch: int, log_index: int, ordinal: int) -> bytes:
    """16 bytes: domain (u32), epoch (u32), log index (u48), ordinal (u16), big-endian (rulings.md 18)."""
    return (
        domain.to_bytes(4, "big")
        + (epoch & 0xFFFFFFFF).to_bytes(4, "big")
        + log_index.to_bytes(6, "big")
        + ordinal.to_bytes(2, "big")
    )


def fill_segments(
    store: Store, shared: Shared, slices: Sequence[SegmentSlice], into: Deliveries | DequeueResponse
) -> int:
    """The fast form, filled in place: a message copied into another copies every body. Returns the batches' bytes."""
    size = 0
    for part in slices:
        stored = read_stored(store, shared, part.log_index)
        if stored is None:
            continue
        whole = part.ordinals is None and part.count == stored.count
        body = stored.body if whole else cut(stored.body, _ordinals(part))
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


def fill_rows(
    store: Store, shared: Shared, queue: str, lease_id: int, slices: Sequence[SegmentSlice], into: Rows
) -> Iterator[int]:
    """One message each, for every language, filled in place; tells the properties of each. What is leased waits: others
    may be served between two of them.
    """
    for row in _rows(store, shared, queue, lease_id, slices, 1, into.add):
        yield len(row.message.properties)


def rows_of(
    store: Store, shared: Shared, queue: str, lease_id: int, slices: Sequence[SegmentSlice]
) -> Iterator[DeliveredMessage]:
    """One message each, made when it is asked for."""
    return _rows(store, shared, queue, lease_id, slices, 1, DeliveredMessage)


def page(
    store: Store, shared: Shared, queue: str, slices: Sequence[SegmentSlice], following: int
) -> tuple[list[DeliveredMessage], int]:
    """What is looked at and not delivered, as far as PAGE_BYTES go, one message whatever its size; and the index of the
    next page: `following`, if all of them are in this one.
    """
    out: list[DeliveredMessage] = []
    size = 0
    for row in _rows(store, shared, queue, 0, slices, 0, DeliveredMessage):
        size += row.ByteSize()
        if out and size > PAGE_BYTES:
            return out, row.index
        out.append(row)
    return out, following


def _rows(
    store: Store,
    shared: Shared,
    queue: str,
    lease_id: int,
    slices: Sequence[SegmentSlice],
    delivery_count: int,
    add: Callable[[], DeliveredMessage],
) -> Iterator[DeliveredMessage]:
    """`delivery_count`: of a slice that tells none. Neighbouring slices of one record read it once."""
    stored, at = None, 0
    batch: MessageBatch | _Columns = MessageBatch()
    time = Timestamp()
    for part in slices:
        if part.log_index != at:
            stored, at = read_stored(store, shared, part.log_index), part.log_index
            if stored is not None:
                read = EnqueueBatch.FromString(stored.body).messages
                batch = _Columns(read) if part.count >= MANY else read
                time.FromMilliseconds(stored.time_ms)
        if stored is None:
            continue
        counts = part.delivery_counts
        for place, ordinal in enumerate(_ordinals(part)):
            row = add()
            row.queue = queue
            row.index = part.first_index + place
            row.id = message_id(shared.domain, stored.epoch, part.log_index, ordinal)
            _fill(row.message, batch, ordinal)
            row.delivery_count = counts[place] if counts else delivery_count
            row.enqueue_time.CopyFrom(time)
            row.lease_id = lease_id
            yield row


def _ordinals(part: SegmentSlice) -> Sequence[int]:
    return part.ordinals or range(part.first_ordinal, part.first_ordinal + part.count)


class _Columns:
    """Those of a batch, each read off it once: a look at one that is empty costs as much as a value of it."""

    payloads: Sequence[bytes]
    priorities: Sequence[int]
    persistence: Sequence[int]
    ttls_ms: Sequence[int]
    delays_ms: Sequence[int]
    deliver_at_ms: Sequence[int]
    dedup_ids: Sequence[str]
    inerts: Sequence[bool]
    content_types: Sequence[str]
    correlation_ids: Sequence[str]
    reply_tos: Sequence[str]
    group_ids: Sequence[str]
    group_sequences: Sequence[int]
    lasts_in_group: Sequence[bool]
    properties: Sequence[Properties]

    def __init__(self, batch: MessageBatch) -> None:
        self.__dict__.update(_NONE)
        self.__dict__.update((field.name, column) for field, column in batch.ListFields())


_NONE: Mapping[str, tuple[()]] = MappingProxyType(dict.fromkeys(_Columns.__annotations__, ()))


def row_of(batch: MessageBatch, ordinal: int) -> Message:
    """One row of a batch of columns."""
    message = Message()
    _fill(message, batch, ordinal)
    return message


def _fill(message: Message, batch: MessageBatch | _Columns, ordinal: int) -> None:
    message.payload = batch.payloads[ordinal]
    if batch.priorities:
        message.priority = _at(batch.priorities, ordinal)
    if batch.persistence and _at(batch.persistence, ordinal):
        message.persistent = _at(batch.persistence, ordinal) == PERSISTENT
    if batch.ttls_ms and _at(batch.ttls_ms, ordinal):
        message.ttl.FromMilliseconds(min(_at(batch.ttls_ms, ordinal), DURATION_MS_MAX))
    if batch.delays_ms and _at(batch.delays_ms, ordinal):
        message.delay.FromMilliseconds(min(_at(batch.delays_ms, ordinal), DURATION_MS_MAX))
    if batch.deliver_at_ms and _at(batch.deliver_at_ms, ordinal):
        message.deliver_at.FromMilliseconds(min(_at(batch.deliver_at_ms, ordinal), TIMESTAMP_MS_MAX))
    if batch.dedup_ids:
        message.dedup_id = _at(batch.dedup_ids, ordinal)
    if batch.inerts:
        message.inert = _at(batch.inerts, ordinal)
    if batch.content_types:
        message.content_type = _at(batch.content_types, ordinal)
    if batch.correlation_ids:
        message.correlation_id = _at(batch.correlation_ids, ordinal)
    if batch.reply_tos:
        message.reply_to = _at(batch.reply_tos, ordinal)
    if batch.group_ids:
        _fill_group(message, batch, ordinal)
    if batch.properties:
        message.properties.MergeFrom(_at(batch.properties, ordinal).entries)


def _fill_group(message: Message, batch: MessageBatch | _Columns, ordinal: int) -> None:
    message.group_id = _at(batch.group_ids, ordinal)
    if batch.group_sequences:
        message.group_sequence = _at(batch.group_sequences, ordinal)
    if batch.lasts_in_group:
        message.last_in_group = _at(batch.lasts_in_group, ordinal)


def _at(column: Sequence[Any], ordinal: int) -> Any:
    return column[0] if len(column) == 1 else column[ordinal]


def messages_into(
    batch: MessageBatch, places: Sequence[int], add: Callable[[], DeliveredMessage]
) -> Iterator[tuple[int, DeliveredMessage]]:
    """These of a batch, with their places; what is of the queue and the lease is the caller's to fill."""
    read = _Columns(batch) if len(places) >= MANY else batch
    for place in places:
        row = add()
        _fill(row.message, read, place)
        yield place, row


def cut(body: bytes, ordinals: Sequence[int], queue: str = "") -> bytes:
    """The batch with some of its messages only. `queue`: that it names; empty: as before."""
    batch = EnqueueBatch.FromString(body)
    part = part_of(batch.messages, ordinals)
    made = EnqueueBatch(queue=queue or batch.queue, first_sequence=batch.first_sequence, messages=part)
    return made.SerializeToString()


def part_of(source: MessageBatch, ordinals: Sequence[int]) -> MessageBatch:
    """Some of the messages of a batch: neighbours, as a range of step 1, cost a copy and no look at each."""

    def chosen(column: Any) -> Any:
        if isinstance(ordinals, range):
            return column[ordinals.start : ordinals.stop]
        return [column[each] for each in ordinals]

    part = MessageBatch(payloads=chosen(source.payloads))
    for field, column in source.ListFields():
        if field.name != "payloads":
            getattr(part, field.name).extend(column if len(column) == 1 else chosen(column))
    return part


def batch_of(messages: Sequence[Message]) -> MessageBatch:
    """Rows as columns; a column that nobody uses stays empty."""
    batch = columns_without_properties(messages)
    if any(message.properties for message in messages):
        add_properties(batch, messages)
    return batch


def add_properties(batch: MessageBatch, messages: Iterable[Message]) -> None:
    """The column of properties, or a part of it: the costly one, which may be made piece by piece."""
    for message in messages:
        batch.properties.add().entries.MergeFrom(message.properties)


def columns_without_properties(messages: Sequence[Message]) -> MessageBatch:
    """All other columns."""
    batch = MessageBatch(payloads=[message.payload for message in messages])
    if any(message.HasField("priority") for message in messages):
        batch.priorities.extend(message.priority if message.HasField("priority") else 4 for message in messages)
    if any(message.HasField("persistent") for message in messages):
        batch.persistence.extend(
            (2 if message.persistent else 1) if message.HasField("persistent") else 0 for message in messages
        )
    if any(message.HasField("ttl") for message in messages):
        batch.ttls_ms.extend(max(0, message.ttl.ToMilliseconds()) for message in messages)
    if any(message.HasField("delay") for message in messages):
        batch.delays_ms.extend(max(0, message.delay.ToMilliseconds()) for message in messages)
    if any(message.HasField("deliver_at") for message in messages):
        batch.deliver_at_ms.extend(max(0, message.deliver_at.ToMilliseconds()) for message in messages)
    for column, name in (
        (batch.content_types, "content_type"),
        (batch.correlation_ids, "correlation_id"),
        (batch.reply_tos, "reply_to"),
        (batch.group_ids, "group_id"),
        (batch.dedup_ids, "dedup_id"),
    ):
        if any(getattr(message, name) for message in messages):
            column.extend(getattr(message, name) for message in messages)
    if any(message.inert for message in messages):
        batch.inerts.extend(message.inert for message in messages)
    if any(message.group_sequence or message.last_in_group for message in messages):
        if any(message.group_sequence for message in messages):
            batch.group_sequences.extend(message.group_sequence for message in messages)
        if any(message.last_in_group for message in messages):
            batch.lasts_in_group.extend(message.last_in_group for message in messages)
    return batch

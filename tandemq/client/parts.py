"""Decides how packed messages are read, whichever way the member packed them: stored batches, or rows.

It never settles anything. Columns are read when they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from tandemq.client.outgoing import PRIORITY_DEFAULT, Attributes, from_property
from tandemq.client.receipts import message_id
from tandemq.client.settling import Range, merge
from tandemq.v1 import message_pb2, queue_service_pb2

Column = TypeVar("Column")


class Part(Protocol):
    """Messages that came packed together; places count from 0."""

    payloads: list[bytes]

    def index(self, place: int) -> int: ...
    def ranges(self) -> list[Range]: ...
    def id(self, place: int) -> bytes: ...
    def delivery_count(self, place: int) -> int: ...
    def redelivered(self) -> int: ...
    def enqueue_time_ms(self, place: int) -> int: ...
    def attributes(self, place: int) -> Attributes: ...


class SegmentPart:
    """A stored batch, or a slice of one, as the member kept it."""

    __slots__ = ("_batch", "_domain", "_segment", "payloads")

    def __init__(self, segment: message_pb2.DeliveredSegment, domain: int) -> None:
        self._segment = segment
        self._batch = queue_service_pb2.EnqueueBatch.FromString(segment.batch).messages
        self._domain = domain
        self.payloads: list[bytes] = list(self._batch.payloads)

    def index(self, place: int) -> int:
        return self._segment.indexes[place] if self._segment.indexes else self._segment.first_index + place

    def ranges(self) -> list[Range]:
        if self._segment.indexes:
            return merge((index, 1) for index in self._segment.indexes)
        return [(self._segment.first_index, len(self.payloads))]

    def id(self, place: int) -> bytes:
        ordinals = self._segment.ordinals
        ordinal = ordinals[place] if ordinals else self._segment.first_ordinal + place
        domain = self._segment.id_domain or self._domain
        return message_id(domain, self._segment.epoch, self._segment.log_index, ordinal)

    def delivery_count(self, place: int) -> int:
        return _at(self._segment.delivery_counts, place, 1)

    def redelivered(self) -> int:
        counts = self._segment.delivery_counts
        again = sum(count > 1 for count in counts)
        return again if len(counts) != 1 else again * len(self.payloads)

    def enqueue_time_ms(self, place: int) -> int:  # noqa: ARG002 - the same for all
        return self._segment.enqueue_time_ms

    def attributes(self, place: int) -> Attributes:
        batch = self._batch
        found = Attributes()
        if batch.priorities:
            found["priority"] = _at(batch.priorities, place, PRIORITY_DEFAULT)
        if kept := _at(batch.persistence, place, 0):
            found["persistent"] = kept == 2  # see MessageBatch.persistence
        if ttl_ms := _at(batch.ttls_ms, place, 0):
            found["ttl"] = timedelta(milliseconds=ttl_ms)
        if delay_ms := _at(batch.delays_ms, place, 0):
            found["delay"] = timedelta(milliseconds=delay_ms)
        if moment_ms := _at(batch.deliver_at_ms, place, 0):
            found["deliver_at"] = datetime.fromtimestamp(moment_ms / 1000, UTC)
        if text := _at(batch.content_types, place, ""):
            found["content_type"] = text
        if text := _at(batch.correlation_ids, place, ""):
            found["correlation_id"] = text
        if text := _at(batch.reply_tos, place, ""):
            found["reply_to"] = text
        if text := _at(batch.group_ids, place, ""):
            found["group_id"] = text
        if sequence := _at(batch.group_sequences, place, 0):
            found["group_sequence"] = sequence
        if _at(batch.lasts_in_group, place, False):
            found["last_in_group"] = True
        if _at(batch.inerts, place, False):
            found["inert"] = True
        if batch.properties:
            entries = batch.properties[place if len(batch.properties) > 1 else 0].entries
            found["properties"] = {name: from_property(value) for name, value in entries.items()}
        return found


class RowsPart:
    """Messages one by one, as the unary calls give them."""

    __slots__ = ("_rows", "payloads")

    def __init__(self, rows: Sequence[message_pb2.DeliveredMessage]) -> None:
        self._rows = rows
        self.payloads: list[bytes] = [row.message.payload for row in rows]

    def index(self, place: int) -> int:
        return self._rows[place].index

    def ranges(self) -> list[Range]:
        return merge((row.index, 1) for row in self._rows)

    def id(self, place: int) -> bytes:
        return self._rows[place].id

    def delivery_count(self, place: int) -> int:
        return self._rows[place].delivery_count

    def redelivered(self) -> int:
        return sum(row.delivery_count > 1 for row in self._rows)

    def enqueue_time_ms(self, place: int) -> int:
        return self._rows[place].enqueue_time.ToMilliseconds()

    def attributes(self, place: int) -> Attributes:
        message = self._rows[place].message
        found = Attributes()
        if message.HasField("priority"):
            found["priority"] = message.priority
        if message.HasField("persistent"):
            found["persistent"] = message.persistent
        if message.HasField("ttl"):
            found["ttl"] = message.ttl.ToTimedelta()
        if message.HasField("delay"):
            found["delay"] = message.delay.ToTimedelta()
        if message.HasField("deliver_at"):
            found["deliver_at"] = datetime.fromtimestamp(message.deliver_at.ToMilliseconds() / 1000, UTC)
        if message.content_type:
            found["content_type"] = message.content_type
        if message.correlation_id:
            found["correlation_id"] = message.correlation_id
        if message.reply_to:
            found["reply_to"] = message.reply_to
        if message.group_id:
            found["group_id"] = message.group_id
        if message.group_sequence:
            found["group_sequence"] = message.group_sequence
        if message.last_in_group:
            found["last_in_group"] = True
        if message.inert:
            found["inert"] = True
        if message.properties:
            found["properties"] = {name: from_property(value) for name, value in message.properties.items()}
        return found


def _at(column: Sequence[Column], place: int, default: Column) -> Column:
    """A column is empty (default), has one entry for all, or one entry a message."""
    if not column:
        return default
    return column[place] if len(column) > 1 else column[0]

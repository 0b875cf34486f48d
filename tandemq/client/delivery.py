"""Decides how received messages look to the application, whichever way the member packed them.

It never talks to a member: settling is handed to whoever received them. Columns are read when they are asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar, overload

from tandemq.client.outgoing import PRIORITY_DEFAULT, Attributes, Value
from tandemq.client.receipts import message_id
from tandemq.client.settling import Act, Range, merge
from tandemq.v1 import message_pb2, queue_service_pb2

Column = TypeVar("Column")


class Settler(Protocol):
    """Carries out settlements for deliveries."""

    def settle_soon(self, act: Act, ranges: Sequence[Range]) -> None:
        """Returns at once; sends with the next frame."""

    async def settle_now(self, act: Act, ranges: Sequence[Range]) -> None:
        """Returns when a member confirmed; raises LeaseLost when it refused."""


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
        return message_id(self._domain, self._segment.epoch, self._segment.log_index, ordinal)

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
        if text := _at(batch.content_types, place, ""):
            found["content_type"] = text
        if text := _at(batch.correlation_ids, place, ""):
            found["correlation_id"] = text
        if text := _at(batch.reply_tos, place, ""):
            found["reply_to"] = text
        if text := _at(batch.group_ids, place, ""):
            found["group_id"] = text
        if batch.properties:
            entries = batch.properties[place if len(batch.properties) > 1 else 0].entries
            found["properties"] = {name: _value(value) for name, value in entries.items()}
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
        if message.content_type:
            found["content_type"] = message.content_type
        if message.correlation_id:
            found["correlation_id"] = message.correlation_id
        if message.reply_to:
            found["reply_to"] = message.reply_to
        if message.group_id:
            found["group_id"] = message.group_id
        if message.properties:
            found["properties"] = {name: _value(value) for name, value in message.properties.items()}
        return found


def _at(column: Sequence[Column], place: int, default: Column) -> Column:
    """A column is empty (default), has one entry for all, or one entry a message."""
    if not column:
        return default
    return column[place] if len(column) > 1 else column[0]


def _value(value: message_pb2.PropertyValue) -> Value:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind is not None else b""


class ReceivedMessage:
    """A message as a browser or consumer sees it. Reading attributes costs nothing until it is done."""

    __slots__ = ("_part", "_place", "payload", "queue")

    def __init__(self, queue: str, part: Part, place: int) -> None:
        self.queue = queue
        self._part = part
        self._place = place
        self.payload: bytes = part.payloads[place]

    @property
    def index(self) -> int:
        """Ordering index in its queue, from 1."""
        return self._part.index(self._place)

    @property
    def id(self) -> bytes:
        """16 bytes; empty when the member did not say enough to build it."""
        return self._part.id(self._place)

    @property
    def delivery_count(self) -> int:
        """1 on the first delivery; 0 when browsed before any."""
        return self._part.delivery_count(self._place)

    @property
    def redelivered(self) -> bool:
        """It was given to somebody before, who may have done the work."""
        return self.delivery_count > 1

    @property
    def enqueue_time(self) -> datetime:
        """The master's time at ordering."""
        return datetime.fromtimestamp(self._part.enqueue_time_ms(self._place) / 1000, UTC)

    @property
    def attributes(self) -> Attributes:
        """What the producer gave besides the payload; what it left to the queue is missing."""
        return self._part.attributes(self._place)

    @property
    def properties(self) -> dict[str, Value]:
        """Typed properties by name."""
        return dict(self.attributes.get("properties", {}))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(queue={self.queue!r}, index={self.index}, {len(self.payload)} bytes)"


class Delivery(ReceivedMessage):
    """A leased message. Settle it once: ack, release or reject; unsettled it returns when the lease ends.

    The verbs return at once and are sent together with others; `Consumer.settled` waits for all of them, the `_async`
    form for one. Messages of an IMMEDIATE consumer are removed already: for them the verbs do nothing.
    """

    __slots__ = ("_settler", "lease_id")

    def __init__(self, queue: str, part: Part, place: int, lease_id: int, settler: Settler) -> None:
        super().__init__(queue, part, place)
        self.lease_id = lease_id
        self._settler = settler

    def ack(self) -> None:
        """Done: remove it."""
        self._soon(Act(self.lease_id, queue_service_pb2.OUTCOME_ACK))

    def release(self) -> None:
        """Not done: give it to somebody, at its old place. Takes back the delivery count."""
        self._soon(Act(self.lease_id, queue_service_pb2.OUTCOME_RELEASE))

    def reject(self, reason: str = "") -> None:
        """Never: to the dead-letter queue, or removed if there is none."""
        self._soon(Act(self.lease_id, queue_service_pb2.OUTCOME_REJECT, reason=reason))

    def extend(self, lease: timedelta | None = None) -> None:
        """Still working: the lease lasts for `lease` from now on; None: the queue's duration."""
        self._soon(Act(self.lease_id, queue_service_pb2.OUTCOME_EXTEND, extension=lease))

    async def ack_async(self) -> None:
        """As ack; returns when a member confirmed. Raises LeaseLost when the message may be with somebody else."""
        if self.lease_id:
            await self._settler.settle_now(Act(self.lease_id, queue_service_pb2.OUTCOME_ACK), [(self.index, 1)])

    def _soon(self, act: Act) -> None:
        if self.lease_id:
            self._settler.settle_soon(act, ((self.index, 1),))


class MessageBatch(Sequence[ReceivedMessage]):
    """Messages that came together, in delivery order."""

    __slots__ = ("_parts", "_starts", "lease_id", "payloads", "queue")

    def __init__(self, queue: str, lease_id: int, parts: Sequence[Part]) -> None:
        self.queue = queue
        self.lease_id = lease_id  # 0 when they are not leased
        self._parts = parts
        self.payloads: list[bytes] = (
            parts[0].payloads if len(parts) == 1 else [payload for part in parts for payload in part.payloads]
        )
        self._starts: list[int] = []
        start = 0
        for part in parts:
            self._starts.append(start)
            start += len(part.payloads)

    def ranges(self) -> list[Range]:
        """Ordering indexes as (first, count), lowest first."""
        if len(self._parts) == 1:
            return self._parts[0].ranges()
        return merge(run for part in self._parts for run in part.ranges())

    def __len__(self) -> int:
        return len(self.payloads)

    def _make(self, part: Part, place: int) -> ReceivedMessage:
        return ReceivedMessage(self.queue, part, place)

    @overload
    def __getitem__(self, position: int) -> ReceivedMessage: ...
    @overload
    def __getitem__(self, position: slice) -> list[ReceivedMessage]: ...
    def __getitem__(self, position: int | slice) -> ReceivedMessage | list[ReceivedMessage]:
        if isinstance(position, slice):
            return [self[place] for place in range(*position.indices(len(self)))]
        place = position + len(self) if position < 0 else position
        if not 0 <= place < len(self):
            raise IndexError(position)
        part = bisect_right(self._starts, place) - 1
        return self._make(self._parts[part], place - self._starts[part])

    def __iter__(self) -> Iterator[ReceivedMessage]:
        for part in self._parts:
            for place in range(len(part.payloads)):
                yield self._make(part, place)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(queue={self.queue!r}, lease_id={self.lease_id}, {len(self)} messages)"


class DeliveryBatch(MessageBatch):
    """Messages under one lease. The verbs settle all of them and return at once, as those of Delivery do."""

    __slots__ = ("_settler",)

    def __init__(self, queue: str, lease_id: int, parts: Sequence[Part], settler: Settler) -> None:
        super().__init__(queue, lease_id, parts)
        self._settler = settler

    def _make(self, part: Part, place: int) -> Delivery:
        return Delivery(self.queue, part, place, self.lease_id, self._settler)

    def __iter__(self) -> Iterator[Delivery]:
        for part in self._parts:
            for place in range(len(part.payloads)):
                yield Delivery(self.queue, part, place, self.lease_id, self._settler)

    def ack(self) -> None:
        """Done: remove them."""
        self._soon(Act(self.lease_id, queue_service_pb2.OUTCOME_ACK))

    def release(self) -> None:
        """Not done: give them to somebody, at their old places. Takes back the delivery counts."""
        self._soon(Act(self.lease_id, queue_service_pb2.OUTCOME_RELEASE))

    def reject(self, reason: str = "") -> None:
        """Never: to the dead-letter queue, or removed if there is none."""
        self._soon(Act(self.lease_id, queue_service_pb2.OUTCOME_REJECT, reason=reason))

    def extend(self, lease: timedelta | None = None) -> None:
        """Still working: the lease lasts for `lease` from now on; None: the queue's duration."""
        self._soon(Act(self.lease_id, queue_service_pb2.OUTCOME_EXTEND, extension=lease))

    async def ack_async(self) -> None:
        """As ack; returns when a member confirmed. Raises LeaseLost when it refused some."""
        if self.lease_id:
            await self._settler.settle_now(Act(self.lease_id, queue_service_pb2.OUTCOME_ACK), self.ranges())

    @property
    def redelivered(self) -> int:
        """How many of them were given to somebody before."""
        return sum(part.redelivered() for part in self._parts)

    def _soon(self, act: Act) -> None:
        if self.lease_id:
            self._settler.settle_soon(act, self.ranges())


def delivered(deliveries: queue_service_pb2.Deliveries, domain: int, settler: Settler) -> DeliveryBatch | None:
    """The batch of one frame; None when it holds nothing."""
    parts: list[Part] = [SegmentPart(segment, domain) for segment in deliveries.segments]
    if deliveries.messages:
        parts.append(RowsPart(deliveries.messages))
    parts = [part for part in parts if part.payloads]
    return DeliveryBatch(deliveries.queue, deliveries.lease_id, parts, settler) if parts else None

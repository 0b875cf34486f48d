"""Decides how received messages look to the application, and which verbs settle them.

It never talks to a member: settling is handed to whoever received them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, Unpack, overload

from tandemq.client.outgoing import Attributes, Value
from tandemq.client.parts import Part, RowsPart, SegmentPart
from tandemq.client.settling import Act, Range, checked, merge
from tandemq.v1 import queue_service_pb2

RESERVED = "tq_"
"""Begins the names of properties that the manager sets, and that no client may."""


class Settler(Protocol):
    """Carries out settlements for deliveries."""

    def settle_soon(self, act: Act, ranges: Sequence[Range]) -> None:
        """Returns at once; sends with the next frame."""

    async def settle_now(self, act: Act, ranges: Sequence[Range]) -> None:
        """Returns when a member confirmed; raises LeaseLost when it refused."""

    def reply_soon(self, lease_id: int, index: int, payload: bytes, attributes: Attributes) -> None:
        """Returns at once; sends with the next frame."""


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
        """What the producer gave besides the payload; what it left to the queue is missing, and so is what the manager
        added to its properties: fit to send the message on.
        """
        found = self._part.attributes(self._place)
        if "properties" in found:
            given = {name: value for name, value in found["properties"].items() if not name.startswith(RESERVED)}
            found["properties"] = given
        return found

    @property
    def properties(self) -> dict[str, Value]:
        """Typed properties by name, those of the manager (`tq_...`) too."""
        return dict(self._part.attributes(self._place).get("properties", {}))

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

    def release(self, delay: timedelta | None = None) -> None:
        """Not done: give it to somebody, at its old place, after `delay`. Takes back the delivery count."""
        self._soon(checked(Act(self.lease_id, queue_service_pb2.OUTCOME_RELEASE, delay=delay)))

    def reject(self, reason: str = "") -> None:
        """Never: to the dead-letter queue, or removed if there is none."""
        self._soon(checked(Act(self.lease_id, queue_service_pb2.OUTCOME_REJECT, reason=reason)))

    def extend(self, lease: timedelta | None = None) -> None:
        """Still working: the lease lasts for `lease` from now on; None: the queue's duration."""
        self._soon(checked(Act(self.lease_id, queue_service_pb2.OUTCOME_EXTEND, extension=lease)))

    async def ack_async(self) -> None:
        """As ack; returns when a member confirmed. Raises LeaseLost when the message may be with somebody else."""
        if self.lease_id:
            await self._settler.settle_now(Act(self.lease_id, queue_service_pb2.OUTCOME_ACK), [(self.index, 1)])

    def reply(self, payload: bytes, **attributes: Unpack[Attributes]) -> None:
        """TWO_WAY: done, and this is the answer. Returns at once; `Consumer.reply` waits for the confirmation."""
        self._settler.reply_soon(self.lease_id, self.index, payload, attributes)

    def _soon(self, act: Act) -> None:
        if self.lease_id:
            self._settler.settle_soon(act, ((self.index, 1),))


class MessageBatch(Sequence[ReceivedMessage]):
    """Messages that came together, in delivery order."""

    __slots__ = ("_starts", "lease_id", "parts", "payloads", "queue")

    def __init__(self, queue: str, lease_id: int, parts: Sequence[Part]) -> None:
        self.queue = queue
        self.lease_id = lease_id  # 0 when they are not leased
        self.parts = parts
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
        if len(self.parts) == 1:
            return self.parts[0].ranges()
        return merge(run for part in self.parts for run in part.ranges())

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
        return self._make(self.parts[part], place - self._starts[part])

    def __iter__(self) -> Iterator[ReceivedMessage]:
        for part in self.parts:
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

    def settled_by(self, settler: Settler) -> DeliveryBatch:
        """The same messages, settled by somebody else."""
        return DeliveryBatch(self.queue, self.lease_id, self.parts, settler)

    def _make(self, part: Part, place: int) -> Delivery:
        return Delivery(self.queue, part, place, self.lease_id, self._settler)

    def __iter__(self) -> Iterator[Delivery]:
        for part in self.parts:
            for place in range(len(part.payloads)):
                yield Delivery(self.queue, part, place, self.lease_id, self._settler)

    def ack(self) -> None:
        """Done: remove them."""
        self._soon(Act(self.lease_id, queue_service_pb2.OUTCOME_ACK))

    def release(self, delay: timedelta | None = None) -> None:
        """Not done: give them to somebody, at their old places, after `delay`. Takes back the delivery counts."""
        self._soon(checked(Act(self.lease_id, queue_service_pb2.OUTCOME_RELEASE, delay=delay)))

    def reject(self, reason: str = "") -> None:
        """Never: to the dead-letter queue, or removed if there is none."""
        self._soon(checked(Act(self.lease_id, queue_service_pb2.OUTCOME_REJECT, reason=reason)))

    def extend(self, lease: timedelta | None = None) -> None:
        """Still working: the lease lasts for `lease` from now on; None: the queue's duration."""
        self._soon(checked(Act(self.lease_id, queue_service_pb2.OUTCOME_EXTEND, extension=lease)))

    async def ack_async(self) -> None:
        """As ack; returns when a member confirmed. Raises LeaseLost when it refused some."""
        if self.lease_id:
            await self._settler.settle_now(Act(self.lease_id, queue_service_pb2.OUTCOME_ACK), self.ranges())

    @property
    def redelivered(self) -> int:
        """How many of them were given to somebody before."""
        return sum(part.redelivered() for part in self.parts)

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

"""Makes of stored messages what another queue gets: their bodies, and in properties where they came from. Orders
nothing, and reads nothing but what it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from replica.core.messages.bodies import batch_of, message_id, row_of
from replica.machine import Refused, columns_of, milliseconds
from replica.machine.state.gathering import UNGATHERED
from storage.errors import CorruptRecord
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from replica.core.messages.bodies import Stored
    from replica.machine import SegmentSlice
    from tandemq.v1.reaction_service_pb2 import ReactionUpdate

Row = TypeVar("Row")

ORIGIN_QUEUE, ORIGIN_ID = "tq_origin_queue", "tq_origin_id"
REASON, REJECT_REASON = "tq_dead_letter_reason", "tq_reject_reason"
DELIVERIES, HOPS = "tq_deliveries", "tq_hops"
ADDED = (ORIGIN_QUEUE, ORIGIN_ID, REASON, REJECT_REASON, DELIVERIES, HOPS)
"""What the manager adds to a dead letter, and takes away when it goes back."""

FIRST_ID, VERSION = "tq_first_id", "tq_version"
"""What the manager adds to a message that a reaction has changed: the id of its first version, and which one it is."""

TO, SOURCE_ID, SOURCE = "tq_to", "tq_source_id", "tq_source"
"""What a message says that goes to another manager: the full name of its queue; and once it has left the first manager,
the id of its first put, and where that was (X2).
"""
REACTION = "tq_reaction"
"""On its way to another manager: it is none for a consumer, but a reaction that acts there (V17)."""

MAX_DELIVERIES, REJECTED, GROUP_TIMEOUT = "MAX_DELIVERIES", "REJECTED", "GROUP_TIMEOUT"

_LIMITED = ("ttl", "delay", "deliver_at", "priority")
"""Fields of a message of which not every value is one that a batch may hold, but for its dedup id."""


class FoundMessage(NamedTuple):
    """A stored message of a queue."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    id: bytes
    deliveries: int
    """That ended without a settlement."""
    message: Message | None
    """None: its body is not here."""


def stored_messages(
    domain: int, slices: Iterable[SegmentSlice], read: Callable[[int], Stored | None]
) -> Iterator[FoundMessage]:
    """In the order of the slices, which give the deliveries that each has behind it. Neighbouring slices of one record
    read it once.
    """
    stored, batch, at = None, None, 0
    for part in slices:
        if part.log_index != at:
            stored, at = read(part.log_index), part.log_index
            batch = EnqueueBatch.FromString(stored.body).messages if stored is not None else None
        for place in range(part.count):
            ordinal = part.ordinals[place] if part.ordinals else part.first_ordinal + place
            yield FoundMessage(
                part.first_index + place,
                message_id(domain, stored.epoch, part.log_index, ordinal) if stored is not None else b"",
                part.delivery_counts[place] if part.delivery_counts else 0,
                row_of(batch, ordinal) if batch is not None else None,
            )


def careful(read: Callable[[int], Row | None]) -> Callable[[int], Row | None]:
    """The same, but what is damaged on disk is not here: one message that cannot be read is no reason to stop."""

    def read_whole(log_index: int) -> Row | None:
        try:
            return read(log_index)
        except CorruptRecord:
            return None

    return read_whole


def check(message: Message) -> None:
    """Refused, when no batch could hold it."""
    if not message.dedup_id and not any(map(message.HasField, _LIMITED)):
        return
    try:
        batch = batch_of((message,))
    except ValueError:  # of the columns, which hold milliseconds
        text = "its ttl, delay or deliver_at is more than any clock can tell"
        raise Refused(Reason.REASON_BAD_ATTRIBUTE, text) from None
    columns_of(EnqueueBatch(messages=batch))


def hops_of(message: Message) -> int:
    """Moves by managers that it has behind it: as a dead letter, and from one manager to another."""
    return message.properties[HOPS].integer if HOPS in message.properties else 0


def origin_of(message: Message) -> str:
    """The queue that a dead letter came from; empty: it is none."""
    return message.properties[ORIGIN_QUEUE].text if ORIGIN_QUEUE in message.properties else ""


class Asked(NamedTuple):
    """Where the answers to the requests of one record go: a column is empty, or has one entry for all, or one each."""

    log_index: int
    reply_tos: Sequence[str]
    correlation_ids: Sequence[str]

    def reply_to(self, ordinal: int) -> str:
        return self.reply_tos[ordinal if len(self.reply_tos) > 1 else 0] if self.reply_tos else ""

    def correlation_id(self, ordinal: int) -> str:
        return self.correlation_ids[ordinal if len(self.correlation_ids) > 1 else 0] if self.correlation_ids else ""


def asked_by(log_index: int, stored: Stored) -> Asked:
    """Without the payloads: it may be kept."""
    batch = EnqueueBatch.FromString(stored.body).messages
    return Asked(log_index, list(batch.reply_tos), list(batch.correlation_ids))


def copy_of(message: Message, *, volatile: bool) -> Message:
    """As it is, but for what was said of its first delivery and its identity: both are over."""
    copy = Message()
    copy.CopyFrom(message)
    for name in ("delay", "deliver_at", "dedup_id"):
        copy.ClearField(name)
    copy.persistent = not volatile
    return copy


def dead_letter(found: FoundMessage, queue: str, reason: str | None, *, volatile: bool) -> Message:
    """The copy for the dead-letter queue. `reason`: of the consumer that rejected it, or UNGATHERED; None: of too many
    deliveries.
    """
    assert found.message is not None, "a copy of what is not here"
    copy = copy_of(found.message, volatile=volatile)
    hops = hops_of(copy) + 1
    copy.ClearField("ttl")  # its time was for the work that nobody could do
    for name in ADDED:
        copy.properties.pop(name, None)
    copy.properties[ORIGIN_QUEUE].text = queue
    copy.properties[ORIGIN_ID].data = found.id
    copy.properties[REASON].text = MAX_DELIVERIES if reason is None else REJECTED
    if reason == UNGATHERED:
        copy.properties[REASON].text = GROUP_TIMEOUT
    elif reason:
        copy.properties[REJECT_REASON].text = reason
    copy.properties[DELIVERIES].integer = found.deliveries
    copy.properties[HOPS].integer = hops
    return copy


def redriven(message: Message, *, volatile: bool) -> Message:
    """As it was sent: its life begins anew."""
    copy = copy_of(message, volatile=volatile)
    for name in ADDED:
        copy.properties.pop(name, None)
    return copy


def changed(found: FoundMessage, change: ReactionUpdate, *, volatile: bool) -> Message:
    """As a reaction wants it to be; what it says nothing of stays (V8)."""
    assert found.message is not None, "a copy of what is not here"
    copy = copy_of(found.message, volatile=volatile)
    properties = copy.properties
    first_id = properties[FIRST_ID].data if FIRST_ID in properties else found.id
    version = properties[VERSION].integer if VERSION in properties else 1
    for name in change.remove_properties:
        properties.pop(name, None)
    for name, value in change.set_properties.items():
        properties[name].CopyFrom(value)
    properties[FIRST_ID].data = first_id
    properties[VERSION].integer = version + 1
    for name in ("payload", "content_type", "priority"):
        if change.HasField(name):
            setattr(copy, name, getattr(change, name))
    for name in ("ttl", "delay"):
        if change.HasField(name):
            copy.ClearField(name)
            if milliseconds(getattr(change, name)):
                getattr(copy, name).CopyFrom(getattr(change, name))
    return copy


def body_of(queue: str, copies: Sequence[Message]) -> bytes:
    """The body of the record that puts them there."""
    return EnqueueBatch(queue=queue, messages=batch_of(copies)).SerializeToString(deterministic=True)

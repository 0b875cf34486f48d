"""Makes of what stands in a transmission queue what its target gets; decides which refusals are for ever (X5). Sends
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from replica.core.messages.copies import (
    FIRST_ID,
    ORIGIN_QUEUE,
    REACTION,
    REASON,
    REJECT_REASON,
    SOURCE,
    SOURCE_ID,
    TO,
    VERSION,
    hops_of,
)
from replica.core.ordering.kept_looks import KEPT_BY, KEPT_IN
from replica.core.ordering.reaction_reports import OUTCOME, REPORT
from replica.machine.state.segments import PRIORITY_DEFAULT
from replica.machine.state.system_names import DEAD, is_dead
from replica.services.elsewhere import DEDUP_ID, next_hop
from tandemq.finding.names import is_full, parse_queue
from tandemq.over_quota import QUOTA
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.message_pb2 import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from replica.machine.state.system_names import Destination
    from tandemq.errors import TandemqError
    from tandemq.v1.message_pb2 import DeliveredMessage

FOR_EVER = frozenset(
    {
        *("QUEUE_NOT_FOUND", "MESSAGE_TOO_LARGE", "BAD_ATTRIBUTE", "BAD_NAME", "BAD_REQUEST", "CROSS_DOMAIN"),
        *("REMOTE_NOT_ALLOWED", "NOT_TWO_WAY", "REPLY_REQUIRED", "GROUP_MISMATCH"),
    }
)
"""Refusals that no time and no consumer at the target takes away; all others are waited out."""
OF_REACTIONS = frozenset({"REACTION_DISABLED", "TXN_TOO_LARGE", "BAD_SELECTOR", "LOOP_LIMIT"})
"""More of them, of a reaction."""
SAID_BYTES_MAX = 250
"""Of what the target said of a dead letter: managers add 1 KiB to a message at most."""
VALUE_BYTES_MAX = 140
"""Of a name in a refusal that is whole for certain; longer ones are cut there."""


def is_of_one_of_many(rows: Sequence[Bound], refusal: TandemqError) -> bool:
    """Refused for ever, and it is not said which message it is: BAD_REQUEST names a queue even where the fault is what
    else is in the unit, an alias of it for one; it may be one of the dead letters; and the queue that is named may have
    no name in this batch: one behind an alias, or a transmission queue, where names are full.
    """
    is_of_all = QUOTA in refusal.metadata  # there may be room for one of them
    if is_of_all or has_no_place_there(rows, refusal):
        return True
    if not _is_for_ever(refusal):
        return False
    named = refusal.metadata.get("queue", "")
    if not any(_is(row.queue, named) for row in rows):
        return True
    return refusal.reason == "BAD_REQUEST" and not refusal.metadata.get("entry")


def has_no_place_there(rows: Sequence[Bound], refusal: TandemqError) -> bool:
    """What is larger than a call to the target may be cannot be a dead letter there either; nor can what its dead
    letters refuse for ever.
    """
    if refusal.reason == "TXN_TOO_LARGE":
        return True
    return refusal.reason in FOR_EVER and is_dead(refusal.metadata.get("queue", rows[0].queue))


def _is_for_ever(refusal: TandemqError) -> bool:
    """More than the owner of the queue may store at all is, and has no RetryInfo."""
    never_fits = QUOTA in refusal.metadata and refusal.retry_after is None
    return refusal.reason in FOR_EVER or never_fits


class Bound(NamedTuple):
    """A message on its way, and its queue at whoever gets it: full names are sent on."""

    queue: str
    message: Message


def leaving_of(row: DeliveredMessage, now_ms: int, source: str, *, sent_on: bool = False, way: str = "") -> Bound:
    """What time it has left to live is what it gets there; what delayed it is over. `source`: what this manager is
    called by those who get messages of it; `sent_on`: who gets it now is not its target, and needs the full name;
    `way`: the full name of the queue that everything goes to which does not say it itself. The row is the caller's to
    give away: its message is changed in place.
    """
    message = row.message
    full_name = message.properties[TO].text or way
    del message.properties[TO]
    if VERSION in message.properties:
        _leave_versions(message, row)
    if SOURCE_ID not in message.properties:
        message.properties[SOURCE_ID].data = row.id
    if SOURCE not in message.properties:
        message.properties[SOURCE].text = source
    if REACTION in message.properties:
        try:
            message.payload = _aged(message.payload, max(0, now_ms - row.enqueue_time.ToMilliseconds()))
        except DecodeError:
            del message.properties[REACTION]  # it only says so: a message as any other
    if DEDUP_ID in message.properties:
        message.dedup_id = message.properties[DEDUP_ID].text
        del message.properties[DEDUP_ID]
    next_hop(message)
    message.ClearField("delay")
    message.ClearField("deliver_at")
    if message.HasField("ttl") and message.ttl.ToMilliseconds() > 0:
        left_ms = row.enqueue_time.ToMilliseconds() + message.ttl.ToMilliseconds() - now_ms
        message.ttl.FromMilliseconds(max(1, left_ms))
    return Bound(full_name if sent_on or not full_name else parse_queue(full_name).queue, message)


def _leave_versions(message: Message, row: DeliveredMessage) -> None:
    """What has changed it was here: elsewhere it is known by the id of its first version."""
    if SOURCE_ID not in message.properties:
        message.properties[SOURCE_ID].data = message.properties[FIRST_ID].data or row.id
    for name in (FIRST_ID, KEPT_BY, KEPT_IN):
        message.properties.pop(name, None)


def _aged(body: bytes, waited_ms: int) -> bytes:
    """A reaction that has waited here so long: it is kept for what is left of its time."""
    reaction = pb.Reaction.FromString(body)
    if reaction.HasField("ttl") and reaction.ttl.ToMilliseconds() > 0:
        reaction.ttl.FromMilliseconds(max(1, reaction.ttl.ToMilliseconds() - waited_ms))
    return reaction.SerializeToString(deterministic=True)


def is_reaction(row: Bound) -> bool:
    """It is done at its target by a step of its own (V17)."""
    return REACTION in row.message.properties and row.queue != DEAD


def reaction_step(row: Bound) -> pb.ReactRequest:
    """What its target is asked for, but for whose step it is."""
    reaction, properties = pb.Reaction.FromString(row.message.payload), row.message.properties
    return pb.ReactRequest(
        queue=row.queue, reaction=reaction, source=properties[SOURCE].text, hops=hops_of(row.message)
    )


def is_final(refusal: TandemqError) -> bool:
    """Of a reaction: it is refused for ever, or for longer than messages behind it wait."""
    if refusal.reason == "QUOTA_EXCEEDED" and "queue" in refusal.metadata:  # of reactions that are kept for it
        return True
    return refusal.reason in OF_REACTIONS or _is_for_ever(refusal)


def dead_reaction(row: Bound, refusal: TandemqError) -> Bound:
    """Among the dead letters of the target."""
    row.message.priority = PRIORITY_DEFAULT
    row.message.inert = False
    return _dead(row, refusal)


def report_of_refusal(row: Bound, reason: str) -> Bound | None:
    """For who asked for the reaction, where he asked for a report."""
    asked = pb.Reaction.FromString(row.message.payload)
    if not asked.report_to:
        return None
    message = Message(correlation_id=asked.correlation_id, persistent=True)
    message.properties[REPORT].text = "reaction"
    message.properties[OUTCOME].text = "REFUSED"
    message.properties[ORIGIN_QUEUE].text = row.queue
    message.properties[REASON].text = reason
    return Bound(asked.report_to, message)


def by_queue(rows: Iterable[Bound]) -> dict[str, list[Message]]:
    """In their order."""
    found: dict[str, list[Message]] = {}
    for queue, message in rows:
        found.setdefault(queue, []).append(message)
    return found


def without_place(rows: Sequence[Bound], refusal: TandemqError) -> list[Bound] | None:
    """The same, with those that are refused for ever among the target's dead letters. None: nothing is, or it is not
    said what.
    """
    if not _is_for_ever(refusal):
        return None
    named, entry = refusal.metadata.get("queue", ""), refusal.metadata.get("entry", "")
    queues = {row.queue for row in rows if row.queue != DEAD}
    if len(queues) == 1 and (not named or len(rows) == 1):
        (named,) = queues  # by whichever name the target calls it
    place, found, any_found = 0, list[Bound](), False
    for row in rows:
        if row.queue == DEAD or not _is(row.queue, named):
            found.append(row)
            continue
        hit = not entry or str(place) == entry
        place += 1
        found.append(_dead(row, refusal) if hit else row)
        any_found = any_found or hit
    return found if any_found else None


def _is(queue: str, named: str) -> bool:
    cut = named.split("... (", maxsplit=1)[0]
    return queue == named or (len(queue.encode()) > VALUE_BYTES_MAX and queue.startswith(cut))


def _stay_on_disk(message: Message) -> None:
    """X7: what says nothing of its durability is on disk on its way, and so among dead letters."""
    if not message.HasField("persistent"):
        message.persistent = True


def _dead(row: Bound, refusal: TandemqError) -> Bound:
    said = refusal.message.encode(errors="replace")[:SAID_BYTES_MAX].decode(errors="ignore")
    _stay_on_disk(row.message)
    row.message.properties[REASON].text = refusal.reason
    row.message.properties[REJECT_REASON].text = said
    row.message.properties[ORIGIN_QUEUE].text = row.queue
    return Bound(DEAD, row.message)


def dead_here(row: Bound, target: Destination, reason: str) -> Message:
    """As a dead letter of the manager that it cannot leave."""
    found = Message()
    found.CopyFrom(row.message)
    _stay_on_disk(found)
    if row.queue != DEAD:  # else it was refused before, and says why
        found.properties[REASON].text = reason
        found.properties[ORIGIN_QUEUE].text = row.queue if is_full(row.queue) else f"//{target.place}/{row.queue}"
    return found

"""Acts on messages that were sent before and that nobody has taken yet; see docs/REACTIVE.md. It decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import NamedTuple

from tandemq.client.calls import REACTION_SERVICE
from tandemq.client.filtering import Where, to_filter
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.client.outgoing import Value, to_property
from tandemq.v1 import reaction_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class Cancel:
    """They leave the queue; their handles end as REACTED."""


@dataclass(frozen=True, slots=True)
class MoveTo:
    """They go to another queue of the same domain, and keep priority, properties, delay and expiry. Their handles end
    as REACTED.
    """

    queue: str


@dataclass(frozen=True, slots=True)
class Change:
    """They enter the queue anew as they are now to be, behind all that is there; what is None stays.

    Their handles go on, and so do their ids in `where`. Properties tq_first_id and tq_version say what they come from.
    """

    payload: bytes | None = None
    content_type: str | None = None
    properties: Mapping[str, Value] = field(default_factory=dict)
    """Set; those that are not named stay."""
    without: Sequence[str] = ()
    """Properties that are taken away."""
    priority: int | None = None
    ttl: timedelta | None = None
    """From now on; 0: as the queue has it."""
    delay: timedelta | None = None
    """From now on; 0: delivered at once."""


class Exceptions(IntEnum):
    """What is reported to the senders of cancelled messages, in the queue of their reply_to. Values of
    tandemq.v1.ExceptionReport.
    """

    NONE = 1
    HEADERS = 2  # properties, correlation id, and tq_report "reacted"
    FULL = 3  # the body too


class Outcome(IntEnum):
    """What a reaction came to. Values of tandemq.v1.ReactionOutcome."""

    UNKNOWN = 0
    APPLIED = 1  # it acted on one message at least
    STORED = 2  # on none, and is kept for what comes later (`sticky`), or goes on to another manager (`forward`)
    LOCKED = 3  # on none, and a consumer has one that fits
    DISCARDED = 4  # on none, and no consumer has one
    HELD = 50  # in a unit of work: messages are locked for it, and its commit acts on them


class Reacted(NamedTuple):
    """What a reaction came to, in numbers of messages that fit."""

    outcome: Outcome
    applied: int
    """It acted on them."""
    locked: int
    """A consumer has them."""
    inert: int
    """Their senders have excluded them (`inert`)."""
    dying: int
    """They are on their way to the dead-letter queue."""
    refused: int
    """They cannot be read, or are too large for the other queue."""
    kept: bool
    """For what comes later (`sticky`)."""
    duplicate: bool
    """The call was a repetition; this is the first answer."""
    unreported: int = 0
    """Exception reports that found no queue, or no room in it."""
    held: int = 0
    """In a unit of work: they are locked for it, and its commit acts on them."""
    forwarded: str = ""
    """Not empty: it goes on by this transmission queue, and acts at another manager as well; all counts are of here."""


async def react(
    client: Linked,
    queue: str,
    where: str | Where,
    action: Cancel | MoveTo | Change,
    *,
    everything: bool = False,
    sticky: timedelta | None = None,
    report_to: str = "",
    correlation_id: str = "",
    exceptions: Exceptions = Exceptions.NONE,
    min_copies: int = 0,
    request_id: bytes | None = None,
    timeout: float = 0.0,
    forward: bool = False,
) -> Reacted:
    """Cancels, moves or changes messages that are ready, delayed or blocked; what consumers have is left alone.

    where: a text is a selector. Acts on the one that would be delivered first, delayed ones after all others; with
    `everything` on all that fit, up to 10,000, at one moment. A call that is repeated, as this one does by itself
    until it is answered, has one effect.
    sticky: kept for so long, up to an hour (timedelta(0): as long as it may be), for what arrives later and what
    consumers give back: nobody is given a message that it fits. It is kept where nothing was found to act on, which
    is STORED, and its first message uses it up; with `everything` always, and until its time is over.
    report_to: another queue, which gets a message about the outcome by the same record, with that correlation id;
    another one each time that a kept one acts.
    timeout: seconds more than the client's own that one attempt may take: a selector looks at each message of a
    deep queue.
    exceptions: with Cancel; what the queue in reply_to of each cancelled message gets.
    forward: a reaction for `//manager/queue` is given to this client's own manager, as messages for that queue are.
    It acts on what waits there to be sent; where that was nothing, or with `everything`, it goes on behind it and
    acts at the target, once (`forwarded`), and `report_to` hears what it came to. Ids are those of this manager.
    Without, another manager is connected to.

    Nothing was done when it raises: Refused (REACTION_DISABLED) while the queue has no reactions_enabled,
    InvalidRequest (TXN_TOO_LARGE) when more fit than one record holds, ResourceExhausted (QUEUE_FULL) when the
    other queue has no room for all of them, ResourceExhausted (QUOTA_EXCEEDED) when 100,000 are kept for the queue,
    1,000 of them with nothing but a selector, NotFound, Refused (CROSS_DOMAIN). All of it was done when
    NOT_ENOUGH_COPIES says that it is stored. TimedOut and InDoubt say that it is not known: repeat it then with the
    same `request_id` (16 bytes; None: a new one).
    """
    link, name = (client.links.own, queue) if forward else client.links.at(queue)
    reaction = to_reaction(
        where,
        action,
        everything=everything,
        sticky=sticky,
        report_to=report_to,
        correlation_id=correlation_id,
        exceptions=exceptions,
    )
    request = pb.ReactRequest(
        request_id=request_id or new_request_id(),
        queue=name,
        reaction=reaction,
        min_copies=min_copies,
        epoch=client.links.epoch_of(queue),
    )
    wait = timedelta(seconds=timeout)
    there = "" if forward else name
    reply = await link.caller.call(REACTION_SERVICE + "React", request, pb.ReactResponse, queue=there, wait=wait)
    return reacted_of(reply)


def to_reaction(
    where: str | Where,
    action: Cancel | MoveTo | Change,
    *,
    everything: bool,
    sticky: timedelta | None,
    report_to: str,
    correlation_id: str,
    exceptions: Exceptions,
) -> pb.Reaction:
    """As the manager takes it; see `react`."""
    reaction = pb.Reaction(
        target=to_filter(where),
        scope=pb.REACTION_SCOPE_ALL if everything else pb.REACTION_SCOPE_FIRST,
        report_to=report_to,
        correlation_id=correlation_id,
        exception_report=pb.ExceptionReport.Name(exceptions),
    )
    _put(reaction, action, sticky)
    return reaction


def _put(reaction: pb.Reaction, action: Cancel | MoveTo | Change, sticky: timedelta | None) -> None:
    """What it does, and for how long it is kept."""
    if sticky is not None:
        reaction.ttl.FromTimedelta(sticky)
    match action:
        case Cancel():
            reaction.delete.SetInParent()
        case MoveTo(to):
            reaction.move.queue = to
        case Change():
            reaction.update.CopyFrom(_to_update(action))


def reacted_of(reply: pb.ReactResponse) -> Reacted:
    """Of the manager's answer."""
    return Reacted(
        Outcome(reply.outcome) if reply.outcome in Outcome._value2member_map_ else Outcome.UNKNOWN,
        reply.applied,
        reply.locked,
        reply.inert,
        reply.dying,
        reply.refused,
        reply.kept,
        reply.duplicate,
        reply.unreported,
        reply.held,
        reply.forwarded,
    )


def _to_update(change: Change) -> pb.ReactionUpdate:
    update = pb.ReactionUpdate(
        payload=change.payload,
        content_type=change.content_type,
        remove_properties=change.without,
        priority=change.priority,
    )
    for name, value in change.properties.items():
        update.set_properties[name].CopyFrom(to_property(value))
    if change.ttl is not None:
        update.ttl.FromTimedelta(change.ttl)
    if change.delay is not None:
        update.delay.FromTimedelta(change.delay)
    return update

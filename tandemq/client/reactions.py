"""Acts on messages that were sent before and that nobody has taken yet; see docs/REACTIVE.md. It decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from tandemq.client.calls import REACTION_SERVICE
from tandemq.client.filtering import Where, to_filter
from tandemq.client.identity import new_request_id
from tandemq.client.links import Link, Linked
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


@dataclass(frozen=True, slots=True)
class Custom:
    """A plug-in or a command of the master says of each of them whether it is left, cancelled, moved or changed: see
    `tandemq.reacting`, and docs/REACTIVE.md. Where it gives no such answer the message is left as it is, and counted as
    failed.
    """

    name: str
    """As the members' configuration has it ([custom])."""
    payload: bytes = b""
    """For the one that is asked; with content type and properties 1 MiB at most."""
    content_type: str = ""
    properties: Mapping[str, Value] = field(default_factory=dict)


Action: TypeAlias = Cancel | MoveTo | Change | Custom
"""What is done with the messages that are found."""


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
    FAILED = 5  # on none, and who was asked (`Custom`) gave no answer that could be carried out
    DENIED = 140  # in reports alone: whoever sent a kept one had not the right any more


class HomeReacted(NamedTuple):
    """What a reaction to several queues came to at one of them; see Reacted."""

    queue: str
    outcome: Outcome
    applied: int
    locked: int
    inert: int
    dying: int
    refused: int
    kept: bool
    left: int
    failed: int


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
    left: int = 0
    """Who was asked (`Custom`) wants them to be left alone."""
    failed: int = 0
    """Who was asked (`Custom`) gave no answer about them, or none that could be carried out."""
    homes: tuple[HomeReacted, ...] = ()
    """At each queue, in the order of the call, where it named several; the numbers above are their sums."""


async def react(
    client: Linked,
    queue: str | Sequence[str],
    where: str | Where,
    action: Cancel | MoveTo | Change | Custom,
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
    domain: str = "",
) -> Reacted:
    """Cancels, moves or changes messages that are ready, delayed or blocked; what consumers have is left alone.

    where: a text is a selector. Acts on the one that would be delivered first, delayed ones after all others; with
    `everything` on all that fit, up to 10,000, at one moment. A call that is repeated, as this one does by itself
    until it is answered, has one effect.
    queue: several of one domain, up to 100, are acted on by one record, each as if it were alone: on the first
    message of each, or on all (R216). `homes` says what it came to at each.
    sticky: kept for so long, up to the queue's max_sticky_ttl (1 h; timedelta(0): as long as it may be), for what
    arrives later and what consumers give back: nobody is given a message that it fits. It is kept where nothing was
    found to act on, which is STORED, and its first message uses it up; with `everything` always, and until its time
    is over.
    report_to: another queue, which gets a message about the outcome by the same record, with that correlation id;
    another one each time that a kept one acts.
    timeout: seconds more than the client's own that one attempt may take: a selector looks at each message of a
    deep queue.
    exceptions: with Cancel; what the queue in reply_to of each cancelled message gets.
    forward: a reaction for `//manager/queue` is given to this client's own manager, as messages for that queue are.
    It acts on what waits there to be sent; where that was nothing, or with `everything`, it goes on behind it and
    acts at the target, once (`forwarded`), and `report_to` hears what it came to. Ids are those of this manager.
    Without, another manager is connected to.
    domain: of the queue; with `forward` the one here that has sent what is meant, empty: main.

    Nothing was done when it raises: Refused (REACTION_DISABLED) while the queue has no reactions_enabled, or the
    master nobody of the name of a Custom, InvalidRequest (TXN_TOO_LARGE) when more fit than one record holds,
    ResourceExhausted (QUEUE_FULL) when the other queue has no room for all of them, ResourceExhausted
    (QUOTA_EXCEEDED) when 100,000 are kept for the queue, 1,000 of them with nothing but a selector, NotFound,
    Refused (CROSS_DOMAIN). All of it was done when NOT_ENOUGH_COPIES says that it is stored. TimedOut and InDoubt
    say that it is not known: repeat it then with the same `request_id` (16 bytes; None: a new one).
    """
    queues = [queue] if isinstance(queue, str) else list(queue)
    link, (name, *others) = _route(client, queues, forward=forward)
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
        epoch=client.links.epoch_of(queues[0]),
        more_queues=others,
        domain=domain,
    )
    wait, there, path = timedelta(seconds=timeout), "" if forward else name, REACTION_SERVICE + "React"
    return reacted_of(await link.caller.call(path, request, pb.ReactResponse, queue=there, wait=wait, domain=domain))


def _route(client: Linked, queues: list[str], *, forward: bool) -> tuple[Link, list[str]]:
    """Who takes the call, and the queues as that manager names them. Raises ValueError."""
    if not queues:
        raise ValueError("no queue is named; name one, or several of one domain")
    if forward:
        return client.links.own, queues
    found = [client.links.at(each) for each in queues]
    link = found[0][0]
    if any(other is not link for other, _ in found):
        raise ValueError("the queues are at different managers; call each manager with its own")
    return link, [name for _, name in found]


def to_reaction(
    where: str | Where,
    action: Action,
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


def _put(reaction: pb.Reaction, action: Action, sticky: timedelta | None) -> None:
    """What it does, and for how long it is kept."""
    if sticky is not None:
        reaction.ttl.FromTimedelta(sticky)
    match action:
        case Cancel():
            reaction.delete.SetInParent()
        case MoveTo(to):
            reaction.move.queue = to
        case Change():
            reaction.update.CopyFrom(to_update(action))
        case Custom():
            custom = reaction.custom
            custom.name, custom.payload, custom.content_type = action.name, action.payload, action.content_type
            for name, value in action.properties.items():
                custom.properties[name].CopyFrom(to_property(value))


def reacted_of(reply: pb.ReactResponse) -> Reacted:
    """Of the manager's answer."""
    homes = [
        HomeReacted(
            home.queue,
            _outcome(home.outcome),
            home.applied,
            home.locked,
            home.inert,
            home.dying,
            home.refused,
            home.kept,
            home.left,
            home.failed,
        )
        for home in reply.homes
    ]
    return Reacted(
        _outcome(reply.outcome),
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
        reply.left,
        reply.failed,
        tuple(homes),
    )


def _outcome(number: int) -> Outcome:
    return Outcome(number) if number in Outcome._value2member_map_ else Outcome.UNKNOWN


def to_update(change: Change) -> pb.ReactionUpdate:
    """As it is on the wire. Raises TypeError or ValueError for what no field holds."""
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

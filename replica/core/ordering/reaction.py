"""A reaction under way: what was asked, what has been looked at, and which messages fit. Values; orders nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from replica.machine.sets.ranges import RangeSet
from tandemq.peer.v1.record_pb2 import ReactionCounts
from tandemq.v1 import reaction_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from replica.core.messages.copies import FoundMessage
    from replica.core.ordering.travelling import GoesOn, SourceIds
    from replica.core.selection.filters import Filter
    from replica.machine import UnitIdentity
    from replica.machine.sets.ranges import Run


class Effect(NamedTuple):
    """What is done with one message."""

    to: str = ""
    """Where it goes; empty: it is removed, or changed."""
    update: pb.ReactionUpdate | None = None
    """What it becomes; None: it is removed, or moved."""


@dataclass(slots=True, eq=False)
class Advice:
    """What somebody else says of each message (V10): he is asked between two turns, and none of it is ordered before
    all that is to be acted on was asked about.
    """

    name: str
    """Whom to ask."""
    questions: list[FoundMessage] = field(default_factory=list)
    """To be asked before the next turn."""
    effects: dict[int, Effect | None] = field(default_factory=dict)
    """By index, what he said; None: it is left as it is."""
    bytes: int = 0
    """Of all changes that he said."""
    failed: dict[int, str] = field(default_factory=dict)
    """By index, why he said nothing that can be done."""

    def knows(self, index: int) -> bool:
        """Whether he was asked about that message."""
        return index in self.effects or index in self.failed


class ToKeep(NamedTuple):
    """That a reaction is kept where it finds nothing to act on, or the scope is ALL (V11)."""

    ttl_ms: int
    """0: as long as it may."""
    body: bytes
    """The reaction as it was asked for, serialized."""
    principal: str = ""
    """Who asked for it; empty: nobody is asked about his rights."""


class Used(NamedTuple):
    """Where a kept reaction that acts now is kept."""

    store_id: int
    at: int


@dataclass(slots=True, eq=False)
class Reaction:
    """One call. Belongs to the serving master; what it came to is in the state."""

    queue: str
    asked: Filter
    first: bool
    """Of those that fit it acts on the one that would be delivered first, and on no other (V5)."""
    request_id: bytes
    request_hash: int
    to: str = ""
    """Where they go; empty: they are removed, or changed."""
    update: pb.ReactionUpdate | None = None
    """What they become; None: they are removed, or moved."""
    asking: Advice | None = None
    """Not None: what is done with each of them is asked."""
    report_to: str = ""
    correlation_id: str = ""
    """Of that report."""
    exceptions: pb.ExceptionReport = pb.EXCEPTION_REPORT_NONE
    """What is reported to the senders of what is removed."""
    min_copies: int = 0
    keep: ToKeep | None = None
    """None: what comes later is left alone."""
    used: Used | None = None
    """Not None: it was kept; nobody waits for an answer."""
    principal: str = ""
    """Of one that was kept: who had asked for it; empty: nobody is asked about his rights."""
    others: Sequence[Reaction] = ()
    """The same at other queues of the domain, by the same record (V18). What one call says once is said here."""
    unit: bytes = b""
    """Not empty: it is a part of this open unit of work, whose commit carries it out (V15)."""
    goes_on: GoesOn | None = None
    """Not None: it acts on what waits here for a queue of another manager, and goes on behind it (V17)."""
    named: SourceIds | None = None
    """Not None: it came from another manager, and these are the messages that it means by their ids."""
    identity: UnitIdentity | None = None
    """Of a step of the link that it came by."""
    report_as: str = ""
    """The full name of the queue for its report, where that goes to another manager."""

    epoch: int = 0
    """In which it began here; 0: not yet."""
    queue_id: int = 0
    bound: int = 0
    """Highest index that it looks at: what was ordered when it began."""
    unseen: list[Run] | None = None
    """What it has to look at, rising; None: that is not known yet."""
    fits: RangeSet = field(default_factory=RangeSet)
    """Looked at, asked for, and not inert. What a message says never changes, where it is does."""
    inert: RangeSet = field(default_factory=RangeSet)
    """Asked for as well; no reaction acts on them."""
    unread: RangeSet = field(default_factory=RangeSet)
    """Named by their ids, and not to be read."""

    @property
    def homes(self) -> list[Reaction]:
        """At each queue, this one first."""
        return [self, *self.others]

    def effect_on(self, index: int) -> Effect:
        """On a message that is acted on."""
        if self.asking is None:
            return Effect(self.to, self.update)
        found = self.asking.effects[index]
        assert found is not None, "it is left as it is"
        return found

    def begin(self, queue_id: int, bound: int, epoch: int) -> None:
        """It looks at that queue, from the start."""
        self.queue_id, self.bound, self.epoch, self.unseen = queue_id, bound, epoch, None
        self.fits, self.inert, self.unread = RangeSet(), RangeSet(), RangeSet()
        if self.asking is not None:
            self.asking = Advice(self.asking.name)


def total_of(counts: Iterable[ReactionCounts]) -> ReactionCounts:
    """Of several queues."""
    total = ReactionCounts()
    for each in counts:
        for known, value in each.ListFields():
            setattr(total, known.name, True if isinstance(value, bool) else getattr(total, known.name) + value)
    return total


def outcome_of(counts: ReactionCounts) -> pb.ReactionOutcome:
    """V14: APPLIED, else DENIED, else FAILED, else STORED, else LOCKED, else DISCARDED."""
    if counts.applied:
        return pb.REACTION_OUTCOME_APPLIED
    if counts.denied:
        return pb.REACTION_OUTCOME_DENIED
    if counts.failed:
        return pb.REACTION_OUTCOME_FAILED
    if counts.kept or counts.forwarded:
        return pb.REACTION_OUTCOME_STORED
    return pb.REACTION_OUTCOME_LOCKED if counts.locked else pb.REACTION_OUTCOME_DISCARDED

"""A reaction that an open unit of work has: what it has locked, and what becomes of that at the commit. Values; orders
nothing.

Bodies are read when it is asked for, not at the commit: so what cannot be acted on is known at once, and a commit waits
for no disk. Times and reports are those of the commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from replica.core.ordering.reaction import Reaction
    from replica.machine import QueueState
    from replica.machine.plan.dropping import Departing
    from replica.machine.plan.react import ReactCall
    from tandemq.peer.v1.record_pb2 import ReactionCounts
    from tandemq.v1.message_pb2 import Message
    from tandemq.v1.reaction_service_pb2 import ReactionUpdate


class Addressed(NamedTuple):
    """A report, and the queue that its receiver has named."""

    queue: str
    message: Message


@dataclass(slots=True)
class Replacing:
    """What enters one queue in the place of messages."""

    targets: list[int] = field(default_factory=list)
    rows: list[Message] = field(default_factory=list)
    """In their places, one each."""
    marks: list[bool] = field(default_factory=list)
    """One a row: the message that it is made of was marked as persistent by its producer."""
    updates: list[ReactionUpdate | None] = field(default_factory=list)
    """What they are changed by; None: they are moved."""
    ends: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """Of the rows: when each expires, and when it is delivered; 0: never, and at once."""


@dataclass(slots=True)
class Making:
    """What a reaction does."""

    targets: list[int]
    entering: dict[str, Replacing] = field(default_factory=dict)
    """By the queue, in the place of some of them."""
    exceptions: list[Addressed] = field(default_factory=list)

    def put(self, to: str, index: int, row: Message, update: ReactionUpdate | None, *, marked: bool) -> None:
        """It enters that queue in the place of that message; `marked`: which is marked as persistent."""
        entering = self.entering.setdefault(to, Replacing())
        entering.targets.append(index)
        entering.rows.append(row)
        entering.marks.append(marked)
        entering.updates.append(update)

    @property
    def rows(self) -> list[Message]:
        """All, in the order of the record's body."""
        return [row for entering in self.entering.values() for row in entering.rows]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(row.ByteSize() for row in self.rows) + sum(each.message.ByteSize() for each in self.exceptions)


class AtQueue(NamedTuple):
    """What a reaction does at one of its queues."""

    reaction: Reaction
    queue: QueueState
    making: Making
    counts: ReactionCounts


def by_destination(parts: Sequence[AtQueue]) -> dict[str, list[tuple[QueueState, Replacing]]]:
    """What enters each queue, by the queue that it leaves: a record has one entry for a queue."""
    found: dict[str, list[tuple[QueueState, Replacing]]] = {}
    for part in parts:
        for to, entering in part.making.entering.items():
            found.setdefault(to, []).append((part.queue, entering))
    return found


class Beside(NamedTuple):
    """What else happens to queues by the record of a reaction, and what they are like meanwhile. Queues by numbers."""

    lines: Collection[int]
    """For whose room others wait."""
    taken: Collection[int] = ()
    """That the record has an entry for already."""
    leaving: Mapping[int, Departing] = MappingProxyType({})
    """What leaves them by the same record before."""


@dataclass(slots=True, eq=False)
class HeldReaction:
    """One of an open unit."""

    reaction: Reaction
    making: Making
    counts: ReactionCounts
    """What it found, and what its commit acts on."""
    enters: frozenset[int]
    """Queues that it puts something into."""
    call_of: Callable[[HeldReaction, Sequence[Addressed], Beside], tuple[ReactCall, list[Message]]]
    """At the commit: what it does, and the rows of the record. Takes the reports to senders that enter by it. Raises
    Refused.
    """
    lease_id: int = 0
    """0: it has locked nothing."""
    kept_bytes: int = 0
    """That it was counted with."""

    @property
    def does_nothing(self) -> bool:
        """Its commit does not ask whether it may be done, then: its queues may be gone."""
        return not self.making.targets and not self.counts.kept and not self.reaction.report_to

    @property
    def entries(self) -> int:
        """Of the record's body, at most."""
        reaction = self.reaction
        beside = bool(reaction.report_to) + (reaction.keep is not None)
        return len(self.making.rows) + len(self.making.exceptions) + beside

    @property
    def size(self) -> int:
        """Bytes of those, as far as they are known."""
        keep = self.reaction.keep
        return self.making.size + (len(keep.body) if keep is not None else 0)

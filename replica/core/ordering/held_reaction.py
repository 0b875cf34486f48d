"""A reaction that an open unit of work has: what it has locked, and what becomes of that at the commit. Values; orders
nothing.

Bodies are read when it is asked for, not at the commit: so what cannot be acted on is known at once, and a commit waits
for no disk. Times and reports are those of the commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from replica.core.ordering.reaction import Reaction
    from replica.core.ordering.reaction_reports import Addressed
    from replica.machine.plan.react import ReactCall
    from tandemq.peer.v1.record_pb2 import ReactionCounts
    from tandemq.v1.message_pb2 import Message


@dataclass(slots=True)
class Making:
    """What a reaction does."""

    targets: list[int]
    rows: list[Message] = field(default_factory=list)
    """In their places, one each, or none."""
    marks: list[bool] = field(default_factory=list)
    """One a row: the message that it is made of was marked as persistent by its producer."""
    ends: Sequence[int] = ()
    begins: Sequence[int] = ()
    """Of the rows: when each expires, and when it is delivered; 0: never, and at once."""
    exceptions: list[Addressed] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(row.ByteSize() for row in self.rows) + sum(each.message.ByteSize() for each in self.exceptions)


@dataclass(slots=True, eq=False)
class HeldReaction:
    """One of an open unit."""

    reaction: Reaction
    making: Making
    counts: ReactionCounts
    """What it found, and what its commit acts on."""
    enters: frozenset[int]
    """Queues that it puts something into."""
    call_of: Callable[
        [HeldReaction, Sequence[Addressed], Collection[int], Collection[int]], tuple[ReactCall, list[Message]]
    ]
    """At the commit: what it does, and the rows of the record. Takes the reports to senders that enter by it; the
    queues for whose room others wait; those that the record has an entry for already. Raises Refused.
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

"""An open unit of work: what it got, and what it is to settle, answer, put and react to. Values; orders nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica.core.ordering.held_reaction import HeldReaction
    from replica.core.state.calls import ReplyInUnit
    from replica.machine.sets.ranges import RangeSet
    from tandemq.v1.queue_service_pb2 import Settlement


@dataclass(slots=True, eq=False)
class Got:
    """What one get gave."""

    queue_id: int
    ranges: RangeSet


@dataclass(slots=True, eq=False)
class Put:
    """What one call puts into its queue."""

    count: int
    request: bytes
    """Serialized EnqueueRequest."""


@dataclass(slots=True, eq=False)
class OpenUnit:
    """One unit."""

    unit_id: bytes
    number: int
    client_id: bytes
    begun_ms: int
    ends_ms: int
    """Domain time."""
    who: str = ""
    """The principal whose it is."""
    rights: set[tuple[int, str]] = field(default_factory=set)
    """What its calls needed, by right and queue; for whoever looks at them."""
    got: dict[int, Got] = field(default_factory=dict)
    """By lease id."""
    settles: dict[int, list[Settlement]] = field(default_factory=dict)
    """By queue id: of what it got, and of what leases outside of it hold."""
    puts: dict[int, list[Put]] = field(default_factory=dict)
    """By queue id, in the order of the first put into each."""
    replies: dict[int, list[ReplyInUnit]] = field(default_factory=dict)
    """By queue id: to requests that it got, or that leases outside of it hold."""
    reactions: dict[bytes, HeldReaction] = field(default_factory=dict)
    """By request id, in the order of the calls."""
    asked: dict[bytes, int] = field(default_factory=dict)
    """Request ids of its puts, answers, settlements and reactions, and what each asked for: a repetition does nothing
    more.
    """
    digest: int = 0
    """Of the puts that came with its last Commit that had any; see CommitUnit."""
    changes: int = 0
    messages: int = 0
    bytes: int = 0
    ranges: int = 0
    """Of its settlements, and one for each message that it got: it may be acknowledged in as many. One for each that a
    reaction has locked, too.
    """

    @property
    def queue_ids(self) -> set[int]:
        """Of all that it has."""
        asked = self.settles.keys() | self.replies.keys() | self.puts.keys() | self.reacting
        return {got.queue_id for got in self.got.values()} | asked

    @property
    def reacting(self) -> set[int]:
        """Queues of its reactions, and those that they put something into."""
        return {number for each in self.reactions.values() for number in (each.reaction.queue_id, *each.enters)}

    @property
    def lease_ids(self) -> list[int]:
        """Of what it got and of what its reactions have locked."""
        return [*self.got, *(each.lease_id for each in self.reactions.values() if each.lease_id)]

    @property
    def locked(self) -> int:
        """Messages that nobody else is given before its end."""
        targets = sum(len(each.making.targets) for each in self.reactions.values())
        return sum(got.ranges.size for got in self.got.values()) + targets

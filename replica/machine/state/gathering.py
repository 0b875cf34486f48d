"""Keeps the groups of a queue with group_mode COMPLETE (V19): which members each has, and whether it is whole.

It never knows whether a member is blocked, delayed or leased. A group gathers until its members 1 to the last are all
there. Then it is whole: a line, by sequence. It gathers again if one leaves before a consumer was given its first one;
from then on it is whole until all of them have left. One that gathers has no first member.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from replica.machine.sets.pages import PagedSet
from replica.machine.state.segments import PRIORITIES

GroupRow = tuple[int, int, bool, list[tuple[int, int, int, bool]]]
"""Hash, since, begun; of each member index, sequence, bytes, last."""


UNGATHERED = "\0group timeout"
"""As reason of a dying message: its group was not whole in time. No consumer's reason begins like this."""
Standings = dict[int, tuple[int, bool]]
"""By hash: since when a group gathers, and whether it has begun."""


class GroupMember(NamedTuple):
    """Of one message."""

    sequence: int
    payload_bytes: int
    is_last: bool


class Left(NamedTuple):
    """What follows when a member leaves its group."""

    first: int = 0  # index of who is first in its place; 0: nobody
    waits: int = 0  # index of who was first until now, and waits again; 0: nobody


@dataclass(slots=True)
class Gathering:
    """One group."""

    since_ms: int  # domain time since which it gathers
    begun: bool = False  # a consumer was given its first member
    members: dict[int, GroupMember] = field(default_factory=dict)  # by index
    indexes: dict[int, int] = field(default_factory=dict)  # by sequence
    order: list[int] = field(default_factory=list)  # sequences, rising
    last: int = 0  # sequence of the last one; 0: it is not there
    payload_bytes: int = 0

    def add(self, index: int, member: GroupMember) -> None:
        assert member.sequence not in self.indexes, "a group has two members of one sequence"
        self.members[index] = member
        self.indexes[member.sequence] = index
        insort(self.order, member.sequence)
        self.payload_bytes += member.payload_bytes
        if member.is_last:
            self.last = member.sequence

    def remove(self, index: int) -> None:
        member = self.members.pop(index)
        del self.indexes[member.sequence]
        del self.order[bisect_left(self.order, member.sequence)]
        self.payload_bytes -= member.payload_bytes
        if member.is_last:
            self.last = 0

    @property
    def is_whole(self) -> bool:
        """None is beyond the last, so that as many are all."""
        return self.begun or 0 < self.last == len(self.order)

    @property
    def first(self) -> int:
        """Index of the first of its line; 0: it gathers, or has no member."""
        return self.indexes[self.order[0]] if self.order and self.is_whole else 0


class WholeGroups:
    """Of one queue with group_mode COMPLETE. It is asked what `Groups` is, once a message is in."""

    __slots__ = ("blocked", "by_hash", "gathering", "reopened")

    def __init__(self) -> None:
        # By priority: of no whole group, or not its first one, and not delayed by their producers.
        self.blocked = [PagedSet() for _ in range(PRIORITIES)]
        self.by_hash: dict[int, Gathering] = {}
        self.gathering = 0  # those that are not whole
        # Hashes of groups that gather again since this record; empty between two records.
        self.reopened: list[int] = []

    def standings(self, groups: Iterable[int]) -> Standings:
        """Of those of these that are there: what a group keeps whose members leave and enter again at once."""
        found = {group: self.by_hash[group] for group in groups if group in self.by_hash}
        return {group: (each.since_ms, each.begun) for group, each in found.items()}

    def gather(
        self, group: int, index: int, member: GroupMember, since_ms: int, *, begun: bool = False
    ) -> tuple[int, int]:
        """A member enters; its group is opened by it, since then, unless it is there. Index of the first of the line
        before and after; 0: there was none, or is none.
        """
        found = self.by_hash.get(group)
        if found is None:
            found = self.by_hash[group] = Gathering(since_ms, begun)
            self.gathering += not begun
        was_whole, before = found.is_whole, found.first
        found.add(index, member)
        if found.is_whole and not was_whole:
            self.gathering -= 1
        return before, found.first

    def begin(self, group: int, index: int) -> None:
        """A consumer is given it: if it is the first of its group, the others follow whatever happens."""
        found = self.by_hash[group]
        found.begun = found.begun or found.first == index

    def not_begun(self, group: int) -> Collection[int]:
        """Indexes of the members of a group of which nobody was given any; none where it has begun, or is not there."""
        found = self.by_hash.get(group)
        return () if found is None or found.begun else found.members

    def leave(self, group: int, index: int) -> Left:
        """It is not delivered any more. Says what follows for the others of its group."""
        found = self.by_hash.get(group)
        if found is None or index not in found.members:
            return Left()
        was_whole, first = found.is_whole, found.first
        found.remove(index)
        if was_whole and not found.is_whole:
            self.gathering += 1
            self.reopened.append(group)
        if not found.members:
            self.gathering -= not found.is_whole
            del self.by_hash[group]
            return Left()
        if found.is_whole:
            return Left(first=found.first if first == index else 0)
        return Left(waits=first if first != index else 0)

    @property
    def blocked_count(self) -> int:
        return sum(level.size for level in self.blocked)

    def is_first(self, group: int, index: int) -> bool:
        return self.by_hash[group].first == index

    def rows(self) -> list[GroupRow]:
        """For a snapshot, equal for equal states."""
        return [
            (
                group,
                found.since_ms,
                found.begun,
                [
                    (index, each.sequence, each.payload_bytes, each.is_last)
                    for index, each in sorted(found.members.items())
                ],
            )
            for group, found in sorted(self.by_hash.items())
        ]

    def read(self, rows: list[GroupRow]) -> None:
        """From a snapshot."""
        for group, since_ms, begun, members in rows:
            found = self.by_hash[group] = Gathering(since_ms, begun)
            for index, sequence, payload_bytes, is_last in members:
                found.add(index, GroupMember(sequence, payload_bytes, is_last))
            self.gathering += not found.is_whole

    def open_groups(self) -> Iterator[tuple[int, Gathering]]:
        """Those that gather."""
        return ((group, found) for group, found in self.by_hash.items() if not found.is_whole)

    def __len__(self) -> int:
        return len(self.by_hash)

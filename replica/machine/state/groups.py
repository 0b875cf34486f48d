"""Keeps the lines of a queue's groups: which message is the first of its group, and which wait behind it; never knows
whether a first one is ready, delayed or leased.

A group is known by the hash of its id. Its line holds those of its messages that can still be delivered, by rising
index: what has left the queue or is dying is in none. Only the first of a line is ever ready or leased, so whoever
selects among the ready ones looks at no group at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from replica.machine.sets.pages import PagedSet
from replica.machine.sets.ranges import RangeSet
from replica.machine.state.segments import PRIORITIES


class Groups:
    """Of one queue with group_mode ORDERED."""

    __slots__ = ("_lines", "blocked")

    def __init__(self) -> None:
        # One message alone is its index: a million groups of one message must not cost a million sets.
        self._lines: dict[int, int | RangeSet] = {}
        # By priority: neither first of their lines nor delayed by their producers.
        self.blocked = [PagedSet() for _ in range(PRIORITIES)]

    def enter(self, group: int, index: int) -> bool:
        """Says whether it is the first of its line now."""
        line = self._lines.get(group)
        if line is None:
            self._lines[group] = index
            return True
        if isinstance(line, int):
            line = self._lines[group] = RangeSet(((line, line + 1),))
        line.add(index, index + 1)
        return line.first == index

    def leave(self, group: int, index: int) -> int:
        """It is not delivered any more. Says which message is first in its place; 0: none, or it was not first."""
        line = self._lines.get(group)
        if line is None or isinstance(line, int):
            if line == index:
                del self._lines[group]
            return 0
        was_first = line.first == index
        if not line.discard(index, index + 1):
            return 0
        first = line.first
        if line.size == 1:
            self._lines[group] = first
        return first if was_first else 0

    def is_first(self, group: int, index: int) -> bool:
        line = self._lines[group]
        return (line if isinstance(line, int) else line.first) == index

    @property
    def blocked_count(self) -> int:
        return sum(level.size for level in self.blocked)

    def __len__(self) -> int:
        """Groups that have messages."""
        return len(self._lines)


def hashes_of(group_ids: Sequence[str], count: int) -> list[int]:
    """As a record carries them, one a message; 0: no group. Empty when none of them has one.

    Groups whose ids share a hash are one group to the queue: in order too, and not in parallel.
    """
    known = {"": 0}
    for name in group_ids:
        if name not in known:
            known[name] = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") or 1
    if len(known) == 1:
        return []
    return [known[name] for name in group_ids] if len(group_ids) > 1 else [known[group_ids[0]]] * count

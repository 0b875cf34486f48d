"""A unit of work that is open: what is asked of it is noted here, and nobody else sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.listed.model import Entry, Lease, Queue, Settled, Within


@dataclass(eq=False)
class Unit:
    """What it got, and what it is to do. Nobody else sees the rest."""

    unit_id: bytes
    """Empty: a unit that is one call."""
    ends: Within
    got: list[tuple[Queue, Lease, list[int]]] = field(default_factory=list)
    settles: dict[Queue, list[Settled]] = field(default_factory=dict)
    replies: list[tuple[Queue, int, int, bytes]] = field(default_factory=list)
    """Under which lease, to which message, and the answer."""
    puts: dict[Queue, list[Entry]] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """In which it was begun."""
        return int.from_bytes(self.unit_id[8:12], "big")

    @property
    def locked(self) -> int:
        """Messages that it has got."""
        return sum(len(indexes) for _, _, indexes in self.got)

    def named(self, queue: Queue) -> set[tuple[int, int]]:
        """Lease and index of what it settles or answers there."""
        settled = {(said.lease_id, index) for said in self.settles.get(queue, ()) for index in said.indexes}
        return settled | {(lease_id, index) for of, lease_id, index, _ in self.replies if of is queue}

    def free(self) -> list[tuple[Queue, Lease, list[int]]]:
        """What it got, and says nothing of yet."""
        found = []
        for queue, lease, indexes in self.got:
            named = self.named(queue)
            left = [index for index in indexes if (lease.lease_id, index) not in named]
            found += [(queue, lease, left)] if left else []
        return found

"""A unit of work that is open: what is asked of it is noted here, and nobody else sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.listed.model import Entry, Lease, Queue, Refusal, Settled, Within
from tests.support.listed.reaction import Counts, Reaction


@dataclass(eq=False)
class Held:
    """A reaction of a unit: what it has locked, and what it does at the commit (V15)."""

    queue: Queue
    reaction: Reaction
    lease: Lease
    targets: list[int]
    counts: Counts
    enters: set[Queue]


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
    reactions: list[Held] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        """In which it was begun."""
        return int.from_bytes(self.unit_id[8:12], "big")

    @property
    def locked(self) -> int:
        """Messages that it has got, and those of its reactions."""
        return sum(len(indexes) for _, _, indexes in self.got) + sum(len(held.targets) for held in self.reactions)

    @property
    def leases(self) -> list[tuple[Queue, Lease]]:
        """All of its own."""
        return [(queue, lease) for queue, lease, _ in self.got] + [(held.queue, held.lease) for held in self.reactions]

    def check_enters(self, queues: set[Queue], *, puts: bool = False) -> None:
        """What a reaction puts something into no other call of the unit does; `puts`: but for puts and puts."""
        taken = {queue for held in self.reactions for queue in held.enters}
        if queues & (taken if puts else taken | self.puts.keys()):
            raise Refusal("BAD_REQUEST")

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

"""Follows the reactions that are kept, by the log alone: nobody is given a message that one fits, each FIRST acts once,
and none acts on what it was not kept for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.sim.judges.shelves import name_of
from tandemq.v1 import reaction_service_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chaos.sim.judges.invariants import Name
    from chaos.sim.judges.shelves import Copy, Shelf
    from tandemq.peer.v1 import record_pb2 as pb
    from tandemq.v1.common_pb2 import IndexRange
    from tandemq.v1.message_pb2 import Properties

PREFIX = "SYSTEM.REACTIVE/"
WAITS = "nobody is given what a kept reaction fits"
ONCE = "a kept reaction acts on what it was kept for, the first one once"


@dataclass(slots=True)
class KeptOne:
    """One that is kept."""

    copy: Copy
    """The message that it is."""
    shelf: Shelf
    """Whose messages it acts on."""
    asked: api.Reaction

    @property
    def first(self) -> bool:
        return self.asked.scope != api.REACTION_SCOPE_ALL

    def fits(self, copy: Copy, time_ms: int) -> bool:
        """Whether it is to act on it."""
        return (
            not self.copy.final
            and time_ms < self.copy.expires_ms
            and copy.shelf is self.shelf
            and copy.group == self.asked.target.group_id
            and not copy.inert
            and not (copy.changed_by[0] == self.copy.shelf.queue_id and copy.changed_by[1] >= self.copy.index)
        )


class KeptOnes:
    """Of one domain."""

    def __init__(self) -> None:
        self.all: list[KeptOne] = []
        self.hits = 0
        """Messages that one has acted on and that nobody had had before."""
        self.hits_on_return = 0
        """And those that somebody had had, and had not settled."""

    def add(self, copy: Copy, shelf: Shelf) -> None:
        """A reaction enters its queue."""
        self.all.append(KeptOne(copy, shelf, api.Reaction.FromString(copy.payload)))

    def on_lease(self, name: Name, copy: Copy, time_ms: int) -> Iterator[tuple[str, str]]:
        """Rule, and what broke it."""
        copy.was_held = True
        for one in self.all:
            if one.fits(copy, time_ms):
                yield WAITS, f"{name}: {name_of(copy)} is given away, and one at {one.copy.index} is kept for it"

    def on_record(
        self, name: Name, header: pb.RecordHeader, removed: pb.RemoveOp, shelves: dict[int, Shelf]
    ) -> Iterator[tuple[str, str]]:
        """A kept one acts on what leaves the queue of `removed`; nothing of it has happened yet."""
        verb, targets = "delete", _copies(shelves, removed.queue_id, removed.ranges)
        for op in header.txn.enqueues:
            if op.moved_from.queue_id == removed.queue_id:
                verb = "update" if op.updated else "move"
                targets += _copies(shelves, removed.queue_id, op.moved_from.ranges)
        kept = [each for each in header.txn.removes if shelves[each.queue_id].name.startswith(PREFIX)]
        used = [copy for each in kept for copy in _copies(shelves, each.queue_id, each.ranges)]
        for copy in targets:
            known = [one for one in self.all if one.asked.WhichOneof("action") == verb]
            known = [one for one in known if one.fits(copy, header.time_ms)]
            if not any(one.copy in used if used else not one.first for one in known):
                yield ONCE, f"{name}: {name_of(copy)} is reacted to ({verb}), and nothing is kept that would"
            self.hits += not copy.was_held
            self.hits_on_return += copy.was_held
        if used and len(targets) != 1:
            yield ONCE, f"{name}: {len(targets)} messages use up one reaction"


def changed_by(said: Properties) -> tuple[int, int]:
    """The kept reaction that a message says it was changed by: id of the queue that keeps it, and index; or zeros."""
    return said.entries["tq_kept_queue"].integer, said.entries["tq_kept_reaction"].integer


def _copies(shelves: dict[int, Shelf], queue_id: int, ranges: Iterable[IndexRange]) -> list[Copy]:
    """Those that were ever stored; what was not is a problem of its own."""
    known = shelves[queue_id].copies
    found = [known.get(index) for part in ranges for index in range(part.first, part.first + part.count)]
    return [copy for copy in found if copy is not None]

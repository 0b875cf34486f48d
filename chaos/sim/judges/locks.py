"""Follows what reactions in units of work lock, by the log alone.

Nobody is given it, a commit acts on all of it and on nothing else, and every other end leaves it where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.sim.judges.shelves import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chaos.sim.judges.invariants import Name
    from chaos.sim.judges.shelves import Copy
    from tandemq.peer.v1 import record_pb2 as pb
    from tandemq.v1.common_pb2 import IndexRange

UNDONE = "a reaction in a unit acts by its commit, or not at all"


def on_lock(name: Name, taken: Iterable[Copy], lease_id: int) -> Iterator[tuple[str, str]]:
    """Rule, and what broke it. Delayed and blocked ones too."""
    for copy in taken:
        if copy.lease_id or copy.died is not None or copy.inert:
            yield UNDONE, f"{name}: {name_of(copy)} is locked for a reaction, and held, dead or inert"
        copy.lease_id, copy.is_locked = lease_id, True


def on_unlock(name: Name, copy: Copy) -> Iterator[tuple[str, str]]:
    """It is where it was, and waits for what it waited for."""
    if not copy.is_locked:
        yield UNDONE, f"{name}: {name_of(copy)} is unlocked, and no reaction has it"
    copy.lease_id, copy.is_locked = 0, False


def on_end(name: Name, header: pb.RecordHeader) -> Iterator[tuple[str, str]]:
    """Of a unit: its commit, which has a request id, or any other end."""
    acted = [(each.queue_id, part) for each in header.txn.removes for part in each.ranges]
    for op in header.txn.enqueues:
        acted += [(left.queue_id, part) for left in (op.moved_from, *op.more_moved_from) for part in left.ranges]
    unlocked = [
        (settle.queue_id, part)
        for settle in header.txn.settles
        for effect in settle.effects
        if effect.unlock
        for part in effect.ranges
    ]
    done, wanted = _places(acted), _places(unlocked) if header.request_id else set()
    if done != wanted:
        yield UNDONE, f"{name} acts on {sorted(done)} for a unit, not on {sorted(wanted)}"


def _places(parts: Iterable[tuple[int, IndexRange]]) -> set[tuple[int, int]]:
    """Queue and index."""
    return {(queue_id, index) for queue_id, part in parts for index in range(part.first, part.first + part.count)}

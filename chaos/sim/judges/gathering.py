"""Follows the groups of queues with group_mode COMPLETE, by the log alone (V19).

Nobody is given a part of one, nothing enters one that it does not fit, and none is given up before its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.sim.judges.shelves import Gathered, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chaos.sim.judges.invariants import Name
    from chaos.sim.judges.shelves import Copy, Shelf
    from tandemq.peer.v1 import record_pb2 as pb

WHOLE = "a group is delivered when it is whole, and in its order"


def on_entry(name: Name, copy: Copy, op: pb.EnqueueOp, ordinal: int, time_ms: int) -> Iterator[tuple[str, str]]:
    """Rule, and what broke it: it has come, perhaps into a group."""
    sequence = op.group_sequences[ordinal] if op.group_sequences else 0
    if not sequence:
        return
    known = copy.shelf.gathering
    there = known.get(copy.group)
    if there is None or not there.here():
        there = known[copy.group] = Gathered(time_ms)
    here, is_last = there.here(), op.lasts_in_group[ordinal]
    last = next((each.sequence for each in here if each.is_last), 0)
    if there.is_whole:
        yield WHOLE, f"{name}: {name_of(copy)} comes into a group that is whole"
    if sequence in {each.sequence for each in here}:
        yield WHOLE, f"{name}: {name_of(copy)} is another {sequence} of its group"
    if last and (sequence > last or is_last):
        yield WHOLE, f"{name}: {name_of(copy)} comes after the last of its group, {last}"
    copy.gathered, copy.sequence, copy.is_last = there, sequence, is_last
    there.copies.append(copy)


def on_lease(name: Name, copy: Copy) -> Iterator[tuple[str, str]]:
    """Somebody is given it."""
    if copy.gathered is not None:
        if not copy.gathered.is_whole:
            yield WHOLE, f"{name}: {name_of(copy)} is delivered, and its group is not whole"
        copy.gathered.begun = True


def on_late(
    name: Name, groups: Iterable[pb.QueueRanges], shelves: dict[int, Shelf], time_ms: int
) -> Iterator[tuple[str, str]]:
    """They were not whole in time; what was never stored is a problem of its own."""
    for group in groups:
        shelf = shelves[group.queue_id]
        indexes = (index for part in group.ranges for index in range(part.first, part.first + part.count))
        copies = [shelf.copies[index] for index in indexes if index in shelf.copies]
        for copy in copies:
            if copy.gathered is None:
                yield WHOLE, f"{name}: {name_of(copy)} is given up, and is of no group"
            elif (
                copy.gathered.is_whole or time_ms < copy.gathered.since_ms + shelf.config.group_timeout.ToMilliseconds()
            ):
                yield WHOLE, f"{name}: {name_of(copy)} is given up at {time_ms}: its group is whole, or has time"
        for copy in copies:
            copy.died, copy.is_ungathered, copy.not_before_ms, copy.waits = name, True, 0, False

"""Decides which volatile messages become persistent next, and whether a change of the persistence asks for it; changes
nothing and reads no body itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica.machine.plan.columns import PERSISTENCE_PERSISTENT
from replica.machine.sets.ranges import RangeSet
from replica.machine.state.queue import QueueState
from replica.machine.state.segments import Part
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

PERSISTENT, CONDITIONAL = admin_pb2.PERSISTENCE_PERSISTENT, admin_pb2.PERSISTENCE_CONDITIONAL
VOLATILE = admin_pb2.PERSISTENCE_VOLATILE


class SaveLimits(NamedTuple):
    """Of one record: it shares its group commit, and the loop, with everything else."""

    records: int
    body_bytes: int
    pieces: int = 4_000  # neighbours in one record; where a record has marks of its own, its messages one by one


@dataclass(frozen=True, slots=True)
class Bodies:
    """What the plan may ask about a record, by log index."""

    size_of: Callable[[int], int | None]  # of a body that is in memory alone; None: it is elsewhere
    is_stored: Callable[[int], bool]  # of one that is elsewhere: it is on disk
    marks_of: Callable[[int], Sequence[int]]  # its column of persistence, as MessageBatch has it


@dataclass(slots=True)
class SavePlan:
    header: record_pb2.RecordHeader
    log_indexes: list[int]  # whose bodies are written
    body_bytes: int
    lost: list[int]  # log indexes of records whose bodies are nowhere: not part of the header


def mark_change(queue: QueueState, made: admin_pb2.QueueConfig, op: record_pb2.QueueOp) -> None:
    """Whether messages that are there become persistent by this change (R153)."""
    old, new = queue.config.persistence, made.persistence
    if not queue.volatile.size or new == old:
        return
    # What is volatile in a CONDITIONAL queue was marked so; of a VOLATILE one nobody knows but its bodies.
    if new == PERSISTENT or (old == VOLATILE and new == CONDITIONAL):
        op.save_below = queue.next_index
        op.save_marked = new == CONDITIONAL


def plan_save(state: State, queue_id: int, now_ms: int, bodies: Bodies, limits: SaveLimits) -> SavePlan | None:
    """The next part, as long as one is left. None: nothing of that queue is to be saved."""
    queue = state.queues.get(queue_id)
    if queue is None or queue.unsaved is None:
        return None
    work = _Work(bodies, limits, marked=queue.unsaved.marked)
    next_index = work.look(queue)
    op = record_pb2.SaveOp(
        queue_id=queue_id, ranges=_ranges(work.kept), bodies=_ranges(work.written), next_index=next_index
    )
    header = record_pb2.RecordHeader(time_ms=state.at(now_ms), save=op)
    return SavePlan(header, work.log_indexes, work.body_bytes, work.lost)


class _Work:
    def __init__(self, bodies: Bodies, limits: SaveLimits, *, marked: bool) -> None:
        self.bodies = bodies
        self.limits = limits
        self.marked = marked
        self.kept = RangeSet()  # messages
        self.written = RangeSet()  # log indexes
        self.log_indexes: list[int] = []
        self.lost: list[int] = []
        self.body_bytes = 0
        self.read_bytes = 0  # of bodies that are elsewhere, about
        self.records = 0
        self.pieces = 0
        self.last = 0  # log index of the record looked at last
        self.known = False  # whether that record's body is anywhere
        self.marks: Sequence[int] = ()  # of that record

    def look(self, queue: QueueState) -> int:
        """Index up to which it has looked: at least one piece, and perhaps into the middle of a record."""
        assert queue.unsaved is not None
        start, end, _ = queue.unsaved
        for low, high in queue.volatile.runs(start, end):
            for part in queue.segments.parts(low, high):
                if self.pieces >= self.limits.pieces or (part.log_index != self.last and not self._take(part)):
                    return part.start
                if not self.known:
                    self.pieces += 1
                elif (reached := self._keep(part)) < part.end:
                    return reached
        return end

    def _take(self, part: Part) -> bool:
        """Whether there is room for one more record. At least one finds it."""
        log_index = part.log_index
        size = self.bodies.size_of(log_index)
        known = size is not None or self.bodies.is_stored(log_index)
        # What is read for its marks takes time too; of the body as it was sent nobody knows the size without reading.
        read = part.payload_bytes * part.segment_count // part.live if self.marked and known and size is None else 0
        full = self.body_bytes + self.read_bytes + (size or read) > self.limits.body_bytes
        if self.records and (full or self.records >= self.limits.records):
            return False
        self.records += 1
        self.last, self.known = log_index, known
        self.marks = self.bodies.marks_of(log_index) if self.marked and known else ()
        self.read_bytes += read
        if not known:
            self.lost.append(log_index)
        elif size is not None:
            self.body_bytes += size  # also where nothing of it is kept: it was looked at
        return True

    def _keep(self, part: Part) -> int:
        """Index up to which it has looked."""
        marks = self.marks
        if len(marks) > 1:
            return self._keep_marked(part)
        self.pieces += 1
        if not self.marked or (marks and marks[0] == PERSISTENCE_PERSISTENT):
            self._write(part.log_index)
            self.kept.add(part.start, part.end)
        return part.end

    def _keep_marked(self, part: Part) -> int:
        end = min(part.end, part.start + self.limits.pieces - self.pieces)
        self.pieces += end - part.start
        marks, ordinals = self.marks, part.extra.ordinals
        for index in range(part.start, end):
            place = part.offset + index - part.start
            if marks[ordinals[place] if ordinals else place] == PERSISTENCE_PERSISTENT:
                self._write(part.log_index)
                self.kept.add(index, index + 1)
        return end

    def _write(self, log_index: int) -> None:
        if self.bodies.size_of(log_index) is not None and (not self.log_indexes or self.log_indexes[-1] != log_index):
            self.log_indexes.append(log_index)
            self.written.add(log_index, log_index + 1)


def _ranges(found: RangeSet) -> list[common_pb2.IndexRange]:
    return [common_pb2.IndexRange(first=start, count=end - start) for start, end in found]

"""Knows which messages of a queue the kept reactions have not been asked about, and keeps them from consumers. Asks
nobody, and orders nothing.

What enters counts, and what comes back from a consumer, for it was away while reactions may have been kept (V13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine import deliverable
from replica.machine.sets.ranges import RangeSet
from replica.machine.state.gathering import WholeGroups
from tandemq.v1.queue_service_pb2 import OUTCOME_EXTEND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replica.machine import Narrower, Part, QueueState
    from tandemq.peer.v1.record_pb2 import RecordHeader, SettleOp
    from tandemq.v1.common_pb2 import IndexRange

QUIET = frozenset(("enqueue", "stage", "publish", "unstage", "save", "reply", "alias", "reader", "weights", "rights"))
"""Records by which nothing comes back."""


class QueueWatch:
    """Of one queue that something is kept for, at the serving master."""

    def __init__(self, queue: QueueState) -> None:
        """What is in the queue has been looked at, but for what consumers have."""
        self.unseen = RangeSet()
        """Nobody is given any of it. Some may have left the queue."""
        self._next_index = queue.next_index
        self._away = RangeSet()
        """What consumers have, and perhaps what has ended since."""
        self._look_for_leases(queue)

    def note(self, queue: QueueState, header: RecordHeader) -> None:
        """A record about the queue was ordered."""
        if queue.next_index > self._next_index:
            self.unseen.add(self._next_index, queue.next_index)
            self._next_index = queue.next_index
        kind = header.WhichOneof("op")
        if kind == "lease":
            if not header.lease.immediate:
                for part in header.lease.ranges:
                    put(self._away, part.first, part.first + part.count)
        elif kind == "settle":
            self._settled(queue, header.settle)
        elif kind == "txn":
            for settle in header.txn.settles:
                if settle.queue_id == queue.queue_id:
                    self._settled(queue, settle)
        elif kind not in QUIET and self._away:
            for low, high in self._away:
                self._came_back(queue, low, high)
            self._look_for_leases(queue)

    def look_again(self, queue: QueueState, start: int, end: int) -> None:
        """At what waits of a run."""
        for low, high in list(queue.waiting_in(start, end)):
            put(self.unseen, low, high)

    def _look_for_leases(self, queue: QueueState) -> None:
        self._away = RangeSet()
        for lease in queue.leases.values():
            for low, high in lease.ranges:
                put(self._away, low, high)

    def _settled(self, queue: QueueState, settle: SettleOp) -> None:
        for effect in settle.effects:
            if effect.outcome == OUTCOME_EXTEND:
                continue
            for low, high in map(_run, effect.ranges):
                self._came_back(queue, low, high)
                self._away.discard(low, high)

    def _came_back(self, queue: QueueState, start: int, end: int) -> None:
        self.look_again(queue, start, end)


def put(into: RangeSet, start: int, end: int) -> None:
    """Whether or not some of it is there."""
    for low, high in list(into.gaps(start, end)):
        into.add(low, high)


def _run(part: IndexRange) -> tuple[int, int]:
    return part.first, part.first + part.count


class OnlyAsked:
    """A Narrower: of what another one finds, or of everything, what comes before the first message that the kept
    reactions have not been asked about (R205). What is behind it waits, for the order of delivery holds.
    """

    def __init__(self, unseen: RangeSet, wanted: Narrower | None, number: int) -> None:
        """`number`: never the same. The other one may remember what it found at a record, and more of that is seen
        later without any record.
        """
        self._unseen = unseen
        self._wanted = wanted
        self._number = number

    def narrow(self, queue: QueueState, applied_index: int) -> Iterator[Part]:
        """In the same order."""
        del applied_index
        found = deliverable(queue) if self._wanted is None else self._wanted.narrow(queue, -self._number)
        for part in found:
            end = self._asked_until(queue, part)
            if end == part.end:
                yield part
                continue
            if end > part.start:
                yield part._replace(end=end)
            return

    def _asked_until(self, queue: QueueState, part: Part) -> int:
        unseen = next(self._unseen.runs(part.start, part.end), None)
        end = part.end if unseen is None else unseen[0]
        if isinstance(queue.groups, WholeGroups) and part.extra.groups:
            # A group is not whole by a member that may go before anybody sees it (V12, V19).
            for index in range(part.start, end):
                if any(member in self._unseen for member in queue.groups.not_begun(part.group(index))):
                    return index
        return end

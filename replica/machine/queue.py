"""Holds one queue: what it has, what is ready, what is leased; never decides whether a change is allowed.

Every message that it holds is either ready at one priority or in one lease. Its methods are called by `apply` alone.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields

from replica.machine.ranges import RangeSet, Run
from replica.machine.segments import PLAIN, PRIORITY_DEFAULT, Part, Segments
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

PRIORITIES = 10


@dataclass(slots=True)
class Lease:
    lease_id: int
    queue_id: int
    ranges: RangeSet  # messages that it still holds, never empty
    client_id: bytes
    expires_at_ms: int
    duration_ms: int  # to restart it in full at a takeover


@dataclass(slots=True)
class Totals:
    """Ever rising, but for `highest_length`, which is a maximum."""

    enqueued: int = 0
    acked: int = 0
    rejected: int = 0
    expired: int = 0
    volatile_lost: int = 0
    highest_length: int = 0

    def row(self) -> list[int]:
        return [getattr(self, field.name) for field in fields(self)]


class QueueState:
    """Read by everybody, written by `apply`."""

    __slots__ = (
        "bytes",
        "closed_members",
        "config",
        "created_ms",
        "deliveries",
        "last_activity_ms",
        "leases",
        "length",
        "members",
        "name",
        "next_index",
        "open_members",
        "queue_id",
        "ready",
        "segments",
        "settled",
        "settled_order",
        "timed",
        "totals",
        "version",
        "visible_index",
        "volatile",
    )

    def __init__(self, queue_id: int, name: str, config: admin_pb2.QueueConfig, time_ms: int) -> None:
        self.queue_id = queue_id
        self.name = name
        self.config = config
        self.version = 1
        self.members: set[str] = set()  # hold an instance
        self.open_members: set[str] = set()  # of those
        self.closed_members: set[str] = set()  # of those: were open once
        self.created_ms = self.last_activity_ms = time_ms
        self.next_index = 1
        # Highest index whose record is committed, never above next_index - 1. Not part of the state: a member that
        # knows of fewer commits has the same state.
        self.visible_index = 0
        self.length = 0  # ready and leased
        self.bytes = 0  # payload bytes of those
        self.segments = Segments()
        self.ready: list[RangeSet] = [RangeSet() for _ in range(PRIORITIES)]
        self.leases: dict[int, Lease] = {}
        # Deliveries that ended without a settlement, by index; what is not here was never delivered before.
        self.deliveries: dict[int, int] = {}
        self.volatile = RangeSet()  # live messages whose bodies may be lost
        self.timed = 0  # live messages that came with an expiry, at least; 0 spares looking for it
        # Boundaries of what was acked (key = 2 x lease id) or rejected (+ 1), for a repetition.
        self.settled: dict[int, tuple[int, ...]] = {}
        self.settled_order: deque[int] = deque()
        self.totals = Totals()

    @property
    def ready_count(self) -> int:
        return sum(level.size for level in self.ready)

    def has_ready(self) -> bool:
        """Visible and ready; it may have expired."""
        below = self.visible_index + 1
        return any(level.size and level.first < below for level in self.ready)

    def ready_in(self, start: int, end: int) -> Iterator[Run]:
        """Ready messages of a run, by priority and not by index."""
        for level in self.ready:
            if level.size:
                yield from level.runs(start, end)

    def timed_runs(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Expiry, start and end of what can expire in a run of indexes."""
        if not self.timed:
            return
        for part in self.segments.parts(start, end):
            if part.expires_at_ms:
                yield part.expires_at_ms, part.start, part.end
            elif part.extra.expires_at_ms:
                for expiry, low, high in _equal_runs(part, part.extra.expires_at_ms):
                    if expiry:
                        yield expiry, low, high

    def make_ready(self, start: int, end: int) -> None:
        """Back at the old place: the index is the place."""
        for part in self.segments.parts(start, end):
            if part.extra is PLAIN or not part.extra.priorities:
                self.ready[PRIORITY_DEFAULT].add(part.start, part.end)
            else:
                for priority, low, high in _equal_runs(part, part.extra.priorities):
                    self.ready[priority].add(low, high)

    def take_ready(self, start: int, end: int) -> int:
        """Out of the ready ones, whatever their priority; says how many."""
        taken = 0
        for level in self.ready:
            if level.size:
                taken += level.discard(start, end)
                if taken == end - start:
                    break
        return taken

    def forget(self, start: int, end: int, freed: list[int]) -> None:
        """Messages leave the queue; they are neither ready nor leased any more."""
        if self.timed:
            self.timed -= sum(high - low for _, low, high in self.timed_runs(start, end))
        self.bytes -= self.segments.take(start, end, freed)
        self.length -= end - start
        if self.volatile.size:
            self.volatile.discard(start, end)
        if self.deliveries:
            drop_keys(self.deliveries, start, end)

    def remember_settled(self, key: int, start: int, end: int, kept: int) -> None:
        known = self.settled.get(key)
        if known is None:
            self.settled_order.append(key)
            self.settled[key] = (start, end)
            if len(self.settled_order) > kept:
                del self.settled[self.settled_order.popleft()]
        elif known[-1] == start:
            self.settled[key] = (*known[:-1], end)
        elif known[-1] < start:
            self.settled[key] = (*known, start, end)
        else:
            ranges = RangeSet(zip(known[::2], known[1::2], strict=True))
            ranges.add(start, end)
            self.settled[key] = tuple(edge for run in ranges for edge in run)

    def was_settled(self, key: int) -> RangeSet:
        known = self.settled.get(key, ())
        return RangeSet(zip(known[::2], known[1::2], strict=True))


def drop_keys(counts: dict[int, int], start: int, end: int) -> None:
    """Walks over whichever is shorter."""
    if end - start <= len(counts):
        for index in range(start, end):
            counts.pop(index, None)
    else:
        for index in [index for index in counts if start <= index < end]:
            del counts[index]


def _equal_runs(part: Part, column: bytes | array[int]) -> Iterator[tuple[int, int, int]]:
    """Value, start and end of neighbours that share a value."""
    if len(column) == 1:
        yield column[0], part.start, part.end
        return
    start, shift = part.start, part.offset - part.start
    for index in range(part.start + 1, part.end + 1):
        if index == part.end or column[index + shift] != column[start + shift]:
            yield column[start + shift], start, index
            start = index

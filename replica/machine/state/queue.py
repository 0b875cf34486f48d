"""Holds one queue: what it has, what is ready, what is leased; never decides whether a change is allowed.

Every message that it holds is either ready at one priority, blocked behind another of its group, delayed, dying, or in
one lease. Its methods are called by `apply` alone.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from heapq import merge
from operator import attrgetter
from typing import NamedTuple

from replica.machine.sets.pages import Level
from replica.machine.sets.ranges import RangeSet, Run
from replica.machine.sets.spans import Spans
from replica.machine.state.completions import Completions
from replica.machine.state.dedup_ids import DedupIds
from replica.machine.state.gathering import Left, WholeGroups
from replica.machine.state.groups import Groups
from replica.machine.state.kept import KeptIndex
from replica.machine.state.lockstep import SideLoss, SideOf
from replica.machine.state.owned import Owned
from replica.machine.state.segments import PLAIN, PRIORITIES, PRIORITY_DEFAULT, Part, Segments
from replica.machine.state.selection import SideOrder
from replica.machine.state.versions import Versions
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2


@dataclass(slots=True)
class Lease:
    lease_id: int
    queue_id: int
    ranges: RangeSet  # messages that it still holds, never empty
    client_id: bytes
    expires_at_ms: int
    duration_ms: int  # to restart it in full at a takeover; 0: it does not end by time
    since_ms: int = 0  # when its messages were delivered
    unit: bytes = b""  # the open unit of work that has locked them
    # Not None: a reaction of that unit has. They were delivered to nobody; those that were delayed, each with the time
    # of its next delivery.
    locked: Spans | None = None
    macro_id: int = 0  # not 0: a consumer of this macro queue holds it


@dataclass(slots=True)
class Totals:
    """Ever rising, but for `highest_length`, which is a maximum."""

    enqueued: int = 0
    acked: int = 0
    rejected: int = 0
    expired: int = 0
    volatile_lost: int = 0
    highest_length: int = 0
    replied: int = 0
    reply_timeouts: int = 0
    refused_full: int = 0  # batches of which the queue's limits kept something out
    dropped: int = 0
    delivered: int = 0  # again and again too
    redelivered: int = 0  # deliveries whose lease ended by time
    processed: int = 0  # acked or answered under a lease,
    process_ms: int = 0  # which took so long together
    dead_lettered: int = 0
    purged: int = 0  # removed or moved by an administrator
    released: int = 0
    duplicates: int = 0  # not stored again: their dedup id was known
    reacted: int = 0  # removed, moved or changed by a reaction

    def row(self) -> list[int]:
        return list(_totals_of(self))

    def add(self, *others: Totals) -> None:
        """Sums, of which the highest length is the highest."""
        rows = [_totals_of(each) for each in (self, *others)]
        for name, column in zip(_TOTALS, zip(*rows, strict=True), strict=True):
            setattr(self, name, sum(column) if name != "highest_length" else max(column))

    def note_processed(self, count: int, taken_ms: int) -> None:
        self.processed += count
        self.process_ms += count * taken_ms


_TOTALS = tuple(field.name for field in fields(Totals))
_totals_of: attrgetter[tuple[int, ...]] = attrgetter(*_TOTALS)


class Unsaved(NamedTuple):
    """Of a queue's volatile messages: those that are on their way to become persistent."""

    start: int  # nothing below it is left to look at
    end: int  # what came later is not meant
    marked: bool  # only those whose producer marked them persistent


class QueueState:
    """Read by everybody, written by `apply`."""

    __slots__ = (
        "aliases",
        "behind",
        "bytes",
        "closed_members",
        "completions",
        "config",
        "configuring",
        "created_ms",
        "dedup_ids",
        "delayed",
        "deliveries",
        "dying",
        "groups",
        "idle_ms",
        "idle_since_ms",
        "kept",
        "last_activity_ms",
        "leases",
        "length",
        "lost",
        "members",
        "name",
        "next_index",
        "open_members",
        "owned",
        "passed",
        "queue_id",
        "ready",
        "reasons",
        "restarted_ms",
        "row",
        "segments",
        "selection",
        "settled",
        "settled_order",
        "side",
        "timed",
        "totals",
        "unsaved",
        "version",
        "versions",
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
        self.aliases: tuple[str, ...] = ()  # by name
        self.configuring = False  # what freezes at CONFIGURE can still be changed; open nowhere
        self.created_ms = self.last_activity_ms = time_ms
        self.idle_ms = 0  # the attribute; 0: it may be idle for ever
        self.idle_since_ms = time_ms  # last record that left it empty; kept where that attribute is set
        self.next_index = 1
        # Highest index whose record is committed, never above next_index - 1. Not part of the state: a member that
        # knows of fewer commits has the same state.
        self.visible_index = 0
        self.length = 0  # ready, blocked, delayed, leased and dying
        self.bytes = 0  # payload bytes of those; `weigh` changes it
        self.owned: Owned | None = None  # all that its owner keeps; None: nobody owns it
        self.segments = Segments()
        # By priority. Of a queue with groups in pages, for there messages become ready in any order.
        self.ready: Sequence[Level] = [RangeSet() for _ in range(PRIORITIES)]
        self.delayed = Spans()  # each with the domain time of its next delivery
        # On their way to the dead-letter queue, never delivered again; each with the place of its reason, from 1, or 0
        # for too many deliveries.
        self.dying = Spans()
        self.reasons: list[str] = []
        self.groups: Groups | WholeGroups | None = None  # None: group_mode is neither ORDERED nor COMPLETE
        self.leases: dict[int, Lease] = {}
        # Deliveries that ended without a settlement, by index; what is not here was never delivered before.
        self.deliveries: dict[int, int] = {}
        self.volatile = RangeSet()  # live messages whose bodies may be lost
        self.unsaved: Unsaved | None = None  # its persistence was changed, and that is not carried out yet
        self.timed = 0  # live messages that came with an expiry, at least; 0 spares looking for it
        # Boundaries of what was acked (key = 2 x lease id) or rejected (+ 1), for a repetition.
        self.settled: dict[int, tuple[int, ...]] = {}
        self.settled_order: deque[int] = deque()
        self.dedup_ids: DedupIds | None = None  # None: nobody has used one yet
        self.versions: Versions | None = None  # None: no reaction has changed a message of it yet
        self.kept: KeptIndex | None = None  # None: its messages are no reactions that are kept for another queue
        # PRODUCER replication: by member, up to where its side has settled; None: it has no sides.
        self.passed: dict[str, int] | None = None
        # Since when a side there has not moved while another one is ahead of it; and sides that have lost their place.
        self.behind: dict[str, int] = {}
        self.lost: dict[str, SideLoss] = {}
        self.restarted_ms: dict[str, int] = {}  # when one has begun anew last
        self.selection: SideOrder | None = None  # lockstep SELECTED: which message its sides are given as the k-th
        self.side: SideOf | None = None  # the pair's queue that this one is a side of; None: it is none
        self.totals = Totals()
        self.row = b""  # in the last snapshot; empty: touched since
        self.completions: Completions | None = None  # of the types whose senders may ask for more than STORED

    @property
    def visible_end(self) -> int:
        """Of a queue with sides: up to there they may be given messages (K2)."""
        return self.visible_index if self.selection is None else self.selection.visible

    @property
    def given_end(self) -> int:
        """Of a queue with sides: what they are given next, once it is committed, and there."""
        return self.next_index if self.selection is None else self.selection.following

    @property
    def ready_count(self) -> int:
        return sum(level.size for level in self.ready)

    @property
    def blocked_count(self) -> int:
        return self.groups.blocked_count if self.groups is not None else 0

    @property
    def droppable_count(self) -> int:
        """What a DROP_HEAD queue can make room of."""
        return self.ready_count + self.blocked_count

    def droppable(self) -> Iterator[Run]:
        """The lowest priority first, of those the oldest."""
        for priority, level in enumerate(self.ready):
            yield from level if self.groups is None else merge(level, self.groups.blocked[priority])

    def has_ready(self) -> bool:
        """Visible and ready; it may have expired."""
        below = self.visible_index + 1
        return any(level.size and level.first < below for level in self.ready)

    def visible_ready_count(self) -> int:
        """Ready ones that are committed."""
        ready, unseen = self.ready_count, self.visible_index + 1
        if unseen == self.next_index:
            return ready
        return ready - sum(high - low for low, high in self.ready_in(unseen, self.next_index))

    def ready_in(self, start: int, end: int) -> Iterator[Run]:
        """Ready messages of a run, by priority and not by index."""
        for level in self.ready:
            if level.size:
                yield from level.runs(start, end)

    def waiting_in(self, start: int, end: int) -> Iterator[Run]:
        """Messages of a run that no lease holds, ready, blocked or delayed, and not by index."""
        yield from self.ready_in(start, end)
        if self.groups is not None:
            for level in self.groups.blocked:
                if level.size:
                    yield from level.runs(start, end)
        if self.delayed.size:
            yield from self.delayed.runs(start, end)

    def unleased_in(self, start: int, end: int) -> Iterator[Run]:
        """Messages of a run that no lease holds, dying ones too, and not by index."""
        yield from self.waiting_in(start, end)
        if self.dying.size:
            yield from self.dying.runs(start, end)

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
        self._put(self.ready, start, end)

    def block(self, start: int, end: int) -> None:
        """They wait behind others of their groups."""
        assert self.groups is not None, "blocked where there are no groups"
        self._put(self.groups.blocked, start, end)

    def _put(self, levels: Sequence[Level], start: int, end: int) -> None:
        for part in self.segments.parts(start, end):
            if part.extra is PLAIN or not part.extra.priorities:
                levels[PRIORITY_DEFAULT].add(part.start, part.end)
            else:
                for priority, low, high in _equal_runs(part, part.extra.priorities):
                    levels[priority].add(low, high)

    def take_ready(self, start: int, end: int) -> int:
        """Out of the ready ones, whatever their priority; says how many."""
        taken = 0
        for level in self.ready:
            if level.size:
                taken += level.discard(start, end)
                if taken == end - start:
                    break
        return taken

    def take_chosen(self, runs: Iterable[Run]) -> None:
        """Out of the ready ones; all of them must be ready. Each is looked for at the priority of the one before it
        first, then below it: in the order of delivery all are found without a search.
        """
        levels = [level for level in reversed(self.ready) if level.size]
        at = 0
        for start, end in runs:
            left = end - start
            for _ in levels:
                left -= levels[at].discard(start, end)
                if not left:
                    break
                at = (at + 1) % len(levels)
            assert not left, "chosen what is not ready"

    def take_blocked(self, start: int, end: int) -> int:
        """Out of those that wait behind others of their groups; says how many."""
        return sum(level.discard(start, end) for level in self.groups.blocked) if self.groups is not None else 0

    def unblock(self, index: int) -> None:
        """It is the first of its group now: ready, unless it is delayed."""
        assert self.groups is not None, "there are no lines"
        for level, ready in zip(self.groups.blocked, self.ready, strict=True):
            if level.size and level.discard(index, index + 1):
                ready.add(index, index + 1)
                return

    def leave_lines(self, start: int, end: int) -> None:
        """They are not delivered any more: of each group whose first one is among them, the next is ready.

        Unless it is delayed, or was taken out as well and leaves its line next.
        """
        groups = self.groups
        assert groups is not None, "there are no lines to leave"
        for part in self.segments.parts(start, end):
            column, shift = part.extra.groups, part.offset - part.start
            for index in range(part.start, part.end) if column else ():
                if isinstance(groups, WholeGroups):
                    self._leave_whole(groups.leave(column[index + shift], index))
                elif following := groups.leave(column[index + shift], index):
                    self.unblock(following)

    def _leave_whole(self, left: Left) -> None:
        """V19."""
        if left.first:
            self.unblock(left.first)
        if left.waits and self.take_ready(left.waits, left.waits + 1):
            self.block(left.waits, left.waits + 1)

    def forget(self, start: int, end: int, freed: list[int], final: service_pb2.FinalState) -> None:
        """Messages leave the queue in this way; they are neither ready, delayed, dying nor leased any more."""
        if self.groups is not None:
            self.leave_lines(start, end)
        if self.completions is not None:
            self.completions.end(start, end, final)
        if self.timed:
            self.timed -= sum(high - low for _, low, high in self.timed_runs(start, end))
        self.weigh(-self.segments.take(start, end, freed))
        self.length -= end - start
        if self.volatile.size:
            self.volatile.discard(start, end)
        if self.deliveries:
            drop_keys(self.deliveries, start, end)
        if self.versions:
            self.versions.forget(start, end)
        if self.kept:
            self.kept.forget(start, end)

    def weigh(self, more: int) -> None:
        """Payload bytes that enter, or leave."""
        self.bytes += more
        if self.owned is not None:
            self.owned.bytes += more

    def copy_is_volatile(self, index: int, *, marked: bool) -> bool:
        """Of a message that goes elsewhere, as far as this queue can say: what is on its way to become persistent
        takes that along (R153). `marked`: by its producer, as persistent.
        """
        due = self.unsaved
        if due is not None and due.start <= index < due.end and (marked or not due.marked):
            return False
        return index in self.volatile

    def is_live(self, log_index: int) -> bool:
        """The record's body is still wanted."""
        if self.segments.live_of(log_index):
            return True
        return self.completions is not None and self.completions.is_answer(log_index)

    def log_indexes(self) -> Iterator[int]:
        """Of the records whose bodies are still wanted, rising."""
        if self.completions is None:
            return self.segments.log_indexes()
        return merge(self.segments.log_indexes(), self.completions.log_indexes())

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

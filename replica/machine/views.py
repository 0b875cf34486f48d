"""Answers what readers of bodies, browsers and administrators ask about a queue; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from replica.machine.sets.pages import Level
from replica.machine.sets.ranges import RangeSet, Run
from replica.machine.sets.spans import Spans
from replica.machine.state.gathering import WholeGroups
from replica.machine.state.queue import QueueState
from replica.machine.state.segments import Part
from replica.machine.state.selection import SelectedRun
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2


class SegmentSlice(NamedTuple):
    """Neighbouring messages of one record."""

    log_index: int
    first_index: int
    first_ordinal: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    ordinals: list[int] | None  # None: dense from first_ordinal
    delivery_counts: list[int] | None  # None: 1 for all


def segments_of(queue: QueueState, runs: Iterable[Run], *, delivered: bool) -> list[SegmentSlice]:
    """In the order of the runs. Messages whose whole segment is gone are left out.

    `delivered`: the runs are a lease's, so each message's count includes that delivery; else a browser asks.
    """
    slices = []
    locked = RangeSet() if delivered else _locked(queue)
    for start, end in runs:
        for part in queue.segments.parts(start, end):
            count = part.end - part.start
            ordinals = None
            first_ordinal = part.offset
            if part.extra.ordinals:
                first_ordinal, ordinals = _ordinals(part)
            counts = _delivery_counts(queue, part, locked, delivered=delivered)
            slices.append(SegmentSlice(part.log_index, part.start, first_ordinal, count, ordinals, counts))
    return slices


def side_segments(queue: QueueState, given: SegmentSlice, runs: Iterable[SelectedRun]) -> list[SegmentSlice]:
    """Where the bodies are of neighbours that a side of the queue hands out, by the side's numbers and with its counts.
    `runs`: what these are in the queue. Messages whose whole segment is gone are left out.
    """
    slices, counts, at = [], given.delivery_counts, given.first_index
    for number, start, end in runs:
        ahead = number - start
        for part in queue.segments.parts(start, end):
            first_ordinal, count, ordinals = part.offset, part.end - part.start, None
            if part.extra.ordinals:
                first_ordinal, ordinals = _ordinals(part)
            first = part.start + ahead
            mine = counts[first - at : first - at + count] if counts else None
            slices.append(SegmentSlice(part.log_index, first, first_ordinal, count, ordinals, mine))
    return slices


def _ordinals(part: Part) -> tuple[int, list[int] | None]:
    """The first one, and all of them where they are not dense."""
    count = part.end - part.start
    kept = part.extra.ordinals[part.offset : part.offset + count].tolist()
    return kept[0], kept if kept[-1] - kept[0] >= count else None


def counted(
    slices: Iterable[SegmentSlice], ranges: Iterable[common_pb2.IndexRange], counts: Iterable[int]
) -> list[SegmentSlice]:
    """The slices with the counts of these messages, which are in the order of the ranges."""
    indexes = (part.first + at for part in ranges for at in range(part.count))
    known = dict(zip(indexes, counts, strict=True))
    return [
        each._replace(delivery_counts=[known[each.first_index + at] for at in range(each.count)]) for each in slices
    ]


def _delivery_counts(
    queue: QueueState, part: Part, locked: RangeSet, *, delivered: bool
) -> list[int] | None:  # fmt: skip
    """`locked`: what is leased, and delivered to nobody."""
    if delivered:
        if not queue.deliveries:
            return None
        counts = [queue.deliveries.get(index, 0) + 1 for index in range(part.start, part.end)]
        return counts if max(counts) > 1 else None
    counts = [queue.deliveries.get(index, 0) + 1 for index in range(part.start, part.end)]
    waiting = queue.unleased_in(part.start, part.end)
    for start, end in chain(waiting, locked.runs(part.start, part.end)):
        for index in range(start, end):
            counts[index - part.start] -= 1  # it waits: the delivery that the others are in has not begun
    return counts


def _locked(queue: QueueState) -> RangeSet:
    """Made once a call: asked lock by lock for each record, a page beside thousands of them takes seconds."""
    found = [lease.ranges for lease in queue.leases.values() if lease.locked is not None]
    return RangeSet(sorted(chain.from_iterable(found)))


def left_of(queue: QueueState, ranges: Iterable[common_pb2.IndexRange]) -> list[common_pb2.IndexRange]:
    """What of some ranges the queue still holds, ready or leased, in the order of the ranges."""
    found = []
    for part in ranges:
        end = part.first + part.count
        runs = list(queue.ready_in(part.first, end))
        for lease in queue.leases.values():
            runs += lease.ranges.runs(part.first, end)
        found += [common_pb2.IndexRange(first=low, count=high - low) for low, high in sorted(runs)]
    return found


def browse(queue: QueueState, from_index: int, limit: int) -> list[common_pb2.IndexRange]:
    """Visible messages, wherever in the queue they are, by rising index; limit 0: all."""
    below = queue.visible_index + 1
    start = max(from_index, 1)
    found: list[Run] = []
    sources: list[Level | Spans] = [level for level in queue.ready if level.size]
    sources += queue.groups.blocked if queue.groups is not None else ()
    sources += [queue.delayed, queue.dying]
    sources += [lease.ranges for lease in queue.leases.values()]
    for source in sources:
        room = limit or below
        for low, high in source.runs(start, below):
            found.append((low, min(high, low + room)))
            room -= high - low
            if room <= 0:
                break
    found.sort()
    merged: list[common_pb2.IndexRange] = []
    room = limit or below
    for low, high in found:
        count = min(high - low, room)
        room -= count
        if merged and merged[-1].first + merged[-1].count == low:
            merged[-1].count += count
        elif count:
            merged.append(common_pb2.IndexRange(first=low, count=count))
        if room <= 0:
            break
    return merged


def queue_info(queue: QueueState, member: str, coming: int = 0) -> admin_pb2.QueueInfo:
    """`coming`: messages of its length that a publication has promised it and that are not in it yet."""
    if queue.configuring:
        state = admin_pb2.QUEUE_STATE_CONFIGURING
    elif member in queue.open_members:
        state = admin_pb2.QUEUE_STATE_OPEN
    elif member in queue.closed_members:
        state = admin_pb2.QUEUE_STATE_CLOSED
    else:
        state = admin_pb2.QUEUE_STATE_CONFIGURED if member in queue.members else admin_pb2.QUEUE_STATE_UNSPECIFIED
    ready, delayed, dying, blocked = queue.ready_count, queue.delayed.size, queue.dying.size, queue.blocked_count
    info = admin_pb2.QueueInfo(
        name=queue.name,
        config=queue.config,
        version=queue.version,
        state=state,
        length=queue.length,
        ready=ready,
        leased=queue.length - ready - delayed - dying - blocked - coming,
        delayed=delayed,
        dying=dying,
        blocked=blocked,
        groups_gathering=queue.groups.gathering if isinstance(queue.groups, WholeGroups) else 0,
        dead_lettered_total=queue.totals.dead_lettered,
        purged_total=queue.totals.purged,
        bytes=queue.bytes,
        last_index=queue.next_index - 1,
        enqueued_total=queue.totals.enqueued,
        acked_total=queue.totals.acked,
        expired_total=queue.totals.expired,
        replied_total=queue.totals.replied,
        volatile_lost_total=queue.totals.volatile_lost,
        highest_length=queue.totals.highest_length,
        open_members=sorted(queue.open_members),
        aliases=queue.aliases,
        ready_by_priority=[level.size for level in queue.ready],
        refused_full_total=queue.totals.refused_full,
        dropped_total=queue.totals.dropped,
        volatile_length=queue.volatile.size,
        saving=queue.unsaved is not None,
    )
    info.locked = sum(lease.ranges.size for lease in queue.leases.values() if lease.unit)
    totals = queue.totals
    info.rejected_total, info.delivered_total = totals.rejected, totals.delivered
    info.redelivered_total, info.released_total = totals.redelivered, totals.released
    info.duplicates_total, info.reply_timeouts_total = totals.duplicates, totals.reply_timeouts
    info.reacted_total = totals.reacted
    if queue.completions is not None and queue.completions.owed:
        info.copies_owed = sum(map(len, queue.completions.owed.values()))
    for member_name, index in sorted((queue.passed or {}).items()):
        info.sides.add(member=member_name, passed=index)
    for member_name, loss in sorted(queue.lost.items()):
        info.sides.add(member=member_name, passed=loss.after, lost=True, lost_until=loss.until, because=loss.because)
    if queue.selection is not None:
        info.last_selected = queue.selection.following - 1
    if totals.processed:
        info.mean_process_time.FromMicroseconds(totals.process_ms * 1_000 // totals.processed)
    info.created_at.FromMilliseconds(queue.created_ms)
    info.last_activity_at.FromMilliseconds(queue.last_activity_ms)
    return info

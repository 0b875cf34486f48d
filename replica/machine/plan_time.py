"""Decides what has ended by itself: messages, leases, lost volatile bodies; changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from replica.machine.ranges import RangeSet
from replica.machine.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2


def next_due_ms(state: State) -> int | None:
    ends = [end for end in (state.lease_ends.next_ms(), state.message_ends.next_ms()) if end is not None]
    return min(ends, default=None)


def plan_expire(state: State, now_ms: int) -> record_pb2.RecordHeader | None:
    """At most `expire_max` of them: a storm of expiries shares the log with everything else."""
    due_ms = next_due_ms(state)
    time_ms = state.at(now_ms)
    if due_ms is None or due_ms > time_ms:
        return None
    room = state.limits.expire_max
    lease_ids: list[int] = []
    for due in state.lease_ends.due(time_ms):
        if len(lease_ids) >= room:
            break
        lease_ids.append(due.ident)
    room -= len(lease_ids)
    messages: dict[int, RangeSet] = {}
    for due in state.message_ends.due(time_ms):
        if room <= 0:
            break
        found = messages.setdefault(due.queue_id, RangeSet())
        for start, end in state.expired_runs(due):
            for low, high in list(found.gaps(start, min(end, start + room))):
                found.add(low, high)
                room -= high - low
            if room <= 0:
                break
    op = record_pb2.ExpireOp(messages=_queue_ranges(messages), lease_ids=sorted(set(lease_ids)))
    return record_pb2.RecordHeader(time_ms=time_ms, expire=op)


def plan_volatile_lost(state: State, now_ms: int, has_body: Callable[[int], bool]) -> record_pb2.RecordHeader | None:
    """Live volatile messages of records whose volatile bodies no member holds any more (by log index)."""
    lost: dict[int, RangeSet] = {}
    for queue_id, queue in state.queues.items():
        for start, end in queue.volatile:
            for part in queue.segments.parts(start, end):
                if not has_body(part.log_index):
                    lost.setdefault(queue_id, RangeSet()).add(part.start, part.end)
    if not lost:
        return None
    op = record_pb2.ExpireOp(volatile_lost=_queue_ranges(lost))
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), expire=op)


def _queue_ranges(by_queue: dict[int, RangeSet]) -> list[record_pb2.QueueRanges]:
    return [
        record_pb2.QueueRanges(
            queue_id=queue_id,
            ranges=[common_pb2.IndexRange(first=start, count=end - start) for start, end in ranges],
        )
        for queue_id, ranges in sorted(by_queue.items())
        if ranges
    ]

"""Decides what has ended by itself: messages, leases, lost volatile bodies; changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from replica.machine.sets.ranges import RangeSet
from replica.machine.state.completions import BUCKET_MS
from replica.machine.state.config import dead_letter_name
from replica.machine.state.gathering import WholeGroups
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2

GRACE_MS = 1
"""Whole milliseconds are counted: a lease or a delay may have begun up to one after its time says, and must not end
early.
"""


def next_due_ms(state: State) -> int | None:
    """Domain time at which `plan_expire` will have something; None while nothing can end."""
    early = [schedule.next_ms() for schedule in state.early_ends]
    whole = [*(schedule.next_ms() for schedule in state.other_ends), _reader_expiry_ms(state)]
    ends = [end + GRACE_MS for end in early if end is not None] + [end for end in whole if end is not None]
    return min(ends, default=None)


def _expired_readers(state: State, time_ms: int) -> list[str]:
    return sorted(reader.name for reader in state.readers.values() if reader.expires_ms <= time_ms)


def _reader_expiry_ms(state: State) -> int | None:
    return min((reader.expires_ms for reader in state.readers.values()), default=None)


def _may_be_due(state: State, time_ms: int) -> bool:
    """False: nothing is due. Without a look at which entries are live: their heads are enough to say no."""
    for schedule in state.early_ends:
        if schedule.may_be_due(time_ms):
            return True
    for other in state.other_ends:
        if other.may_be_due(time_ms):
            return True
    return bool(state.readers)


def plan_expire(state: State, now_ms: int) -> record_pb2.RecordHeader | None:
    """None: nothing is due. Call it again as long as it returns something: a record ends `expire_max` at most, as a
    storm of expiries shares the log with everything else.
    """
    time_ms = state.at(now_ms)
    if not _may_be_due(state, time_ms):
        return None  # as at nearly every tick
    due_ms = next_due_ms(state)
    if due_ms is None or due_ms > time_ms:
        return None
    room = state.limits.expire_max
    lease_ids: list[int] = []
    for due in state.lease_ends.due(time_ms - GRACE_MS):
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
    ungathered = _ungathered(state, time_ms, room, messages)
    room -= sum(ranges.size for ranges in ungathered.values())
    ended = sorted(set(lease_ids))
    op = record_pb2.ExpireOp(messages=_queue_ranges(messages), lease_ids=ended, lease_rules=bool(ended))
    op.ungathered.extend(_queue_ranges(ungathered))
    late: dict[int, RangeSet] = {}
    if room > 0:
        late = _late_requests(state, time_ms, room, messages)
        sided = {queue_id for queue_id in late if queue_id in state.sided}
        op.reply_timeouts.extend(_queue_ranges({at: found for at, found in late.items() if at not in sided}))
        op.unanswered.extend(_queue_ranges({at: late[at] for at in sorted(sided)}))
        room -= sum(ranges.size for ranges in late.values())
    if room > 0:
        op.matured.extend(_queue_ranges(_matured(state, time_ms, room, messages, late, ungathered)))
    op.forgotten.extend(_forgotten(state, time_ms))
    op.enabled_queue_ids.extend(sorted({due.queue_id for due in state.enabling.due(time_ms)}))
    op.idle_queue_ids.extend(_idle(state, time_ms))
    op.readers.extend(_expired_readers(state, time_ms))
    op.stage_ids.extend(sorted({state.stages.numbers[due.ident] for due in state.stage_ends.due(time_ms)}))
    if not op.ByteSize():
        return None  # all that was due is spared
    return record_pb2.RecordHeader(time_ms=time_ms, expire=op)


def _ungathered(state: State, time_ms: int, room: int, messages: dict[int, RangeSet]) -> dict[int, RangeSet]:
    """Members of groups that are not whole in time, all of a group at once. Where there is no dead-letter queue they
    are added to what expires.
    """
    found: dict[int, RangeSet] = {}
    for due in state.group_ends.due(time_ms):
        if room <= 0:
            break
        queue = state.queues[due.queue_id]
        assert isinstance(queue.groups, WholeGroups), "a live entry stands for a group"
        expired = messages.setdefault(due.queue_id, RangeSet())
        into = found.setdefault(due.queue_id, RangeSet()) if dead_letter_name(queue.name, queue.config) else expired
        for index in queue.groups.by_hash[due.ident].members:
            # A group may be scheduled twice for one time; what a unit of work has locked is given up when it is back.
            known = expired.covers(index, index + 1) or into.covers(index, index + 1)
            if not known and any(queue.waiting_in(index, index + 1)):
                into.add(index, index + 1)
                room -= 1
    return found


def _late_requests(state: State, time_ms: int, room: int, expired: dict[int, RangeSet]) -> dict[int, RangeSet]:
    """Requests that nobody answered in time, leased or not; what expires in the same record does so first."""
    late: dict[int, RangeSet] = {}
    for due in state.reply_ends.due(time_ms):
        found = late.setdefault(due.queue_id, RangeSet())
        gone = expired.get(due.queue_id, RangeSet())
        for start, end in state.late_requests(due):
            for low, high in list(gone.gaps(start, end)):
                for first, until in list(found.gaps(low, min(high, low + room))):
                    found.add(first, until)
                    room -= until - first
            if room <= 0:
                return late
    return late


def _matured(state: State, time_ms: int, room: int, *gone: dict[int, RangeSet]) -> dict[int, RangeSet]:
    """Delayed messages whose time has come; what has ended in the same record is gone before it can be delivered."""
    matured: dict[int, RangeSet] = {}
    for due in state.delay_ends.due(time_ms - GRACE_MS):
        run = state.matured_run(due)
        assert run is not None, "a live entry stands for messages"
        found = matured.setdefault(due.queue_id, RangeSet())
        runs = [run]
        for ended in (*gone, matured):
            without = ended.get(due.queue_id)
            runs = [gap for low, high in runs for gap in without.gaps(low, high)] if without else runs
        for low, high in runs:
            end = min(high, low + room)
            found.add(low, end)
            room -= end - low
            if room <= 0:
                return matured
    return matured


def _idle(state: State, time_ms: int) -> list[int]:
    """Queues to delete. One that a living queue sends its dead letters to stays: it is empty as long as all is well."""
    due = state.idle.due(time_ms, state.limits.idle_max)
    wanted = {dead_letter_name(queue.name, queue.config) for queue in state.queues.values()} if due else set()
    staged_for = set(state.stages.records.values()) if due else set()
    gone = []
    for queue in due:
        asked_for = queue.completions is not None and queue.completions.buckets  # ends and answers in their retention
        if queue.queue_id in staged_for:
            state.idle.spare(queue, time_ms)
        elif wanted.isdisjoint((queue.name, *queue.aliases)) and not asked_for:
            gone.append(queue.queue_id)
        else:
            state.idle.spare(queue, time_ms)
    return sorted(gone)


def _forgotten(state: State, time_ms: int) -> list[record_pb2.QueueTime]:
    before: dict[int, int] = {}
    for due in state.completion_ends.due(time_ms):
        before[due.queue_id] = max(before.get(due.queue_id, 0), (due.ident + 1) * BUCKET_MS)
    return [record_pb2.QueueTime(queue_id=number, time_ms=when_ms) for number, when_ms in sorted(before.items())]


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

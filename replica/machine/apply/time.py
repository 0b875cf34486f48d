"""Does what an EXPIRE record says, and what else takes messages from leases; never decides what has ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replica.machine.apply.groups import line_up, place_in_groups
from replica.machine.apply.lives import delete, enable
from replica.machine.apply.locks import forget_locked, unlock
from replica.machine.apply.stage import drop_stages
from replica.machine.features.readers import forget_readers
from replica.machine.plan.dead_letters import deliveries_max
from replica.machine.plan.delays import RetryDelay
from replica.machine.sets.ranges import RangeSet, Run
from replica.machine.state.changes import Applied
from replica.machine.state.gathering import UNGATHERED
from replica.machine.state.queue import Lease, QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_EXPIRED, FINAL_STATE_LOST, FINAL_STATE_REPLY_TIMEOUT


def return_messages(state: State, queue: QueueState, start: int, end: int, when_ms: int = 0) -> None:
    """Out of a lease: to their places, or to wait for their time first."""
    if when_ms:
        state.delay(queue, start, end, when_ms)
    else:
        queue.make_ready(start, end)
    state.schedule_messages(queue, start, end, again=True)


def place(
    state: State, queue: QueueState, start: int, end: int, times_ms: Sequence[int], groups: Sequence[int]
) -> None:
    """New messages: ready, or delayed until their time. None, one for all, or one each; 0: ready."""
    if groups:
        place_in_groups(state, queue, start, end, groups, times_ms)
    elif not times_ms or not max(times_ms):
        queue.make_ready(start, end)
    elif len(times_ms) == 1:
        state.delay(queue, start, end, times_ms[0])
    else:
        low = start
        for index in range(start + 1, end + 1):
            when_ms = times_ms[low - start]
            if index == end or times_ms[index - start] != when_ms:
                if when_ms:
                    state.delay(queue, low, index, when_ms)
                else:
                    queue.make_ready(low, index)
                low = index


def end_lease(state: State, lease: Lease) -> None:
    del state.leases[lease.lease_id], state.queues[lease.queue_id].leases[lease.lease_id]


def apply_expire(state: State, time_ms: int, op: record_pb2.ExpireOp) -> Applied:
    touched: dict[int, None] = {}
    freed: list[int] = []
    for gone in op.messages:
        queue = state.queues[gone.queue_id]
        touched[gone.queue_id] = None
        for part in gone.ranges:
            start, end = part.first, part.first + part.count
            assert state.take_waiting(queue, start, end) == end - start, "expired what somebody holds"
            queue.forget(start, end, freed, FINAL_STATE_EXPIRED)
            queue.totals.expired += end - start
    for lease_id in op.lease_ids:
        touched[_end_by_time(state, state.leases[lease_id], time_ms, rules=op.lease_rules)] = None
    for ripe in op.matured:
        queue = state.queues[ripe.queue_id]
        touched[ripe.queue_id] = None
        for part in ripe.ranges:
            _mature(state, queue, part.first, part.first + part.count)
    for lost in op.volatile_lost:
        touched[lost.queue_id] = None
        lose_volatile(state, state.queues[lost.queue_id], lost.ranges, freed)
    for late in op.ungathered:
        touched[late.queue_id] = None
        queue = state.queues[late.queue_id]
        for part in late.ranges:
            start, end = part.first, part.first + part.count
            assert state.take_waiting(queue, start, end) == end - start, "a member of a group that gathers was taken"
            state.kill(queue, start, end, UNGATHERED)
    for late in op.reply_timeouts:
        touched[late.queue_id] = None
        queue = state.queues[late.queue_id]
        end_anywhere(state, queue, late.ranges, freed, FINAL_STATE_REPLY_TIMEOUT)
        queue.totals.reply_timeouts += sum(part.count for part in late.ranges)
    touched |= dict.fromkeys(_end_for_senders(state, op.unanswered))
    for told in op.forgotten:
        completions = state.queues[told.queue_id].completions
        assert completions is not None, "forgot what is not remembered"
        completions.forget(told.time_ms, freed)
        state.touch((told.queue_id,))
        if not completions.owed:
            state.owing.pop(told.queue_id, None)
    for queue_id in op.enabled_queue_ids:
        touched[queue_id] = None
        enable(state.queues[queue_id], time_ms)
    forget_readers(state, op.readers)
    for queue_id in op.idle_queue_ids:
        queue = state.queues[queue_id]
        assert not queue.length, "a queue that holds messages is not idle"
        delete(state, queue, freed)
    freed += drop_stages(state, op.stage_ids, "expired")
    return Applied(tuple(touched), freed)


def _end_by_time(state: State, lease: Lease, time_ms: int, *, rules: bool) -> int:
    """Nobody settled it. Says of which queue it was."""
    queue = state.queues[lease.queue_id]
    if lease.locked is not None:
        for start, end in lease.ranges:
            unlock(state, queue, lease, start, end)
        end_lease(state, lease)
        return queue.queue_id
    queue.totals.redelivered += lease.ranges.size
    return_undone(state, queue, lease.ranges, time_ms, rules=rules)
    end_lease(state, lease)
    return queue.queue_id


def return_undone(state: State, queue: QueueState, runs: Iterable[Run], time_ms: int, *, rules: bool) -> None:
    """Out of a lease that ended without a settlement: they were delivered once more, and return, wait or die."""
    retry, limit = (RetryDelay.of(queue.config), deliveries_max(queue)) if rules else (None, 0)
    for start, end in runs:
        for index in range(start, end):
            queue.deliveries[index] = queue.deliveries.get(index, 0) + 1
        for low, high, deliveries in equal_counts(queue, start, end) if retry or limit else ((start, end, 0),):
            if limit and deliveries >= limit:
                state.kill(queue, low, high, None)
            else:
                return_messages(state, queue, low, high, retry.next_ms(time_ms, deliveries) if retry else 0)


def _mature(state: State, queue: QueueState, start: int, end: int) -> None:
    """They have been scheduled for their expiry since they came, whatever else they waited for."""
    begun: list[tuple[int, int, int]] = []
    assert queue.delayed.take(start, end, begun) == end - start, "matured what is not delayed"
    for low, _, when_ms in begun:
        state.delay_ends.push(when_ms, queue.queue_id, low)
    if queue.groups is not None:
        line_up(queue, start, end)
    else:
        queue.make_ready(start, end)


def equal_counts(queue: QueueState, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Neighbours that were delivered equally often."""
    low, counts = start, queue.deliveries
    for index in range(start + 1, end + 1):
        if index == end or counts[index] != counts[low]:
            yield low, index, counts[low]
            low = index


def lose_volatile(state: State, queue: QueueState, ranges: Sequence[common_pb2.IndexRange], freed: list[int]) -> None:
    for part in ranges:
        assert queue.volatile.covers(part.first, part.first + part.count), "only volatile messages are lost"
        queue.totals.volatile_lost += part.count
    end_anywhere(state, queue, ranges, freed, FINAL_STATE_LOST)


def _end_for_senders(state: State, unanswered: Iterable[record_pb2.QueueRanges]) -> Iterable[int]:
    """Nobody waits for an answer any more. The requests stay: each side passes them in its turn (K1, K11)."""
    for late in unanswered:
        queue = state.queues[late.queue_id]
        completions = queue.completions
        assert completions is not None, "a queue of another type has no requests"
        for part in late.ranges:
            completions.end(part.first, part.first + part.count, FINAL_STATE_REPLY_TIMEOUT)
        queue.totals.reply_timeouts += sum(part.count for part in late.ranges)
        yield late.queue_id


def end_anywhere(
    state: State,
    queue: QueueState,
    ranges: Iterable[common_pb2.IndexRange],
    freed: list[int],
    final: service_pb2.FinalState,
) -> None:
    """They leave the queue, wherever in it they are."""
    left = RangeSet()
    for part in ranges:
        start, end = part.first, part.first + part.count
        if state.take_unleased(queue, start, end) < end - start:
            left.add(start, end)
        queue.forget(start, end, freed, final)
    if left:
        for lease in list(queue.leases.values()):
            for start, end in left:
                lease.ranges.discard(start, end)
                forget_locked(lease, start, end)
            if not lease.ranges:
                end_lease(state, lease)

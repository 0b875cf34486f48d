"""Does what records say of the sides of queues with PRODUCER replication; never decides.

Of a side itself in its member's own domain, and of what all sides have passed in the pair's.
"""

from __future__ import annotations

from collections.abc import Collection

from replica.machine.apply.completion import track
from replica.machine.apply.lives import delete
from replica.machine.apply.time import end_lease
from replica.machine.sets.ranges import RangeSet
from replica.machine.state.changes import Applied
from replica.machine.state.lockstep import SideLoss, SideOf
from replica.machine.state.queue import Lease, QueueState
from replica.machine.state.segments import PRIORITY_DEFAULT
from replica.machine.state.selection import SideOrder
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_CONSUMED, FINAL_STATE_REJECTED


def apply_side(state: State, log_index: int, time_ms: int, op: record_pb2.SideOp) -> Applied:
    """The side begins, or is given messages. They are committed in the pair, so they are ready there at once: a crash
    that takes this record back takes nothing back of what they are, and they are given anew.
    """
    if op.begins:
        return _begin(state, time_ms, op)
    side = state.queues[op.side_id]
    assert side.side is not None, "messages by their indexes are for sides alone"
    assert op.first == side.next_index, "a side is given each message once, in order"
    start, end = op.first, op.first + op.count
    side.segments.append(start, log_index, op.count, op.payload_bytes)
    side.ready[PRIORITY_DEFAULT].add(start, end)
    side.next_index = end
    side.length += op.count
    side.weigh(op.payload_bytes)
    side.last_activity_ms = time_ms
    side.totals.enqueued += op.count
    side.totals.highest_length = max(side.totals.highest_length, side.length)
    side.visible_index = end - 1
    return Applied((op.side_id,), [])


def _begin(state: State, time_ms: int, op: record_pb2.SideOp) -> Applied:
    freed: list[int] = []
    if op.name in state.ids:  # of a queue that was deleted, or of a place behind which the other side may not wait
        delete(state, state.queues[state.ids[op.name]], freed)
    config = admin_pb2.QueueConfig()
    config.CopyFrom(op.config)
    side = QueueState(op.side_id, op.name, config, time_ms)
    side.side = SideOf(op.domain, op.history_id, op.queue_id, op.restarted_ms)
    side.next_index, side.visible_index = op.first, op.first - 1
    track(state, side, [])
    side.members.add(op.member)
    side.open_members.add(op.member)
    state.queues[op.side_id] = state.own_sides[op.side_id] = side
    state.ids[op.name] = op.side_id
    state.next_queue_id = op.side_id + 1
    state.schedule_queue(side)
    return Applied((op.side_id,), freed)


def apply_passed(state: State, log_index: int, time_ms: int, op: record_pb2.PassedOp) -> Applied:
    """Messages leave the pair's queue, which holds them for the sides alone."""
    queue = state.queues[op.queue_id]
    assert queue.passed is not None, "only a queue with PRODUCER replication has sides"
    freed: list[int] = []
    for mark in op.marks:
        assert mark.index > queue.passed[mark.member], "a side never goes back"
        queue.passed[mark.member] = mark.index
    _note_behind(queue, time_ms, {mark.member for mark in op.marks})
    furthest = max(queue.passed.values(), default=0)
    for loss in op.lost:
        after = queue.passed.pop(loss.member)
        del queue.behind[loss.member]
        queue.lost[loss.member] = SideLoss(log_index, after, furthest, loss.because)
    forget_passed(state, queue, op, freed)
    return Applied((op.queue_id,), freed)


def _note_behind(queue: QueueState, time_ms: int, moved: Collection[str]) -> None:
    """Since when which side stands while another one is ahead of it."""
    passed = queue.passed or {}
    furthest = max(passed.values(), default=0)
    for member, index in passed.items():
        if index == furthest:
            queue.behind.pop(member, None)
        elif member in moved or member not in queue.behind:
            queue.behind[member] = time_ms


def apply_select(state: State, log_index: int, lease_id: int, header: record_pb2.RecordHeader) -> Applied:
    """The next messages for all sides, under one lease that no time ends."""
    op = header.select
    queue = state.queues[op.queue_id]
    selection = queue.selection
    assert selection is not None, "messages are selected for sides alone"
    assert op.first == selection.following, "each number is selected once"
    runs = [(part.first, part.first + part.count) for part in op.ranges]
    queue.take_chosen(runs)
    if not selection.lease_id:
        lease = Lease(lease_id, op.queue_id, RangeSet(), b"", 0, 0, header.time_ms)
        queue.leases[lease_id] = state.leases[lease_id] = lease
        selection.lease_id = lease_id
    held = queue.leases[selection.lease_id].ranges
    for start, end in runs:
        held.add(start, end)
    selection.add(log_index, runs)
    queue.last_activity_ms = header.time_ms
    if log_index <= state.commit_index:
        selection.visible = selection.following - 1
    else:
        state.selecting.append((log_index, op.queue_id, selection.following - 1))
    return Applied((op.queue_id,), [])


def forget_passed(
    state: State, queue: QueueState, op: record_pb2.PassedOp | record_pb2.QueueOp, freed: list[int]
) -> None:
    """Messages that all sides have passed."""
    if queue.selection is not None:
        _forget_selected(state, queue, queue.selection, op, freed)
        return
    gone = op.gone
    is_unanswered = queue.config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY  # where its end is not known before
    final = FINAL_STATE_REJECTED if is_unanswered else FINAL_STATE_CONSUMED
    for low, high in list(queue.ready_in(gone.first, gone.first + gone.count)):
        queue.take_ready(low, high)
        queue.forget(low, high, freed, final)
        queue.totals.acked += high - low


def _forget_selected(
    state: State,
    queue: QueueState,
    selection: SideOrder,
    op: record_pb2.PassedOp | record_pb2.QueueOp,
    freed: list[int],
) -> None:
    for part in op.gone_selected:
        lease = queue.leases[selection.lease_id]
        lease.ranges.remove(part.first, part.first + part.count)
        queue.forget(part.first, part.first + part.count, freed, FINAL_STATE_CONSUMED)
        queue.totals.acked += part.count
    selection.forget(selection.first - 1 + sum(part.count for part in op.gone_selected))
    if selection.lease_id and not queue.leases[selection.lease_id].ranges:
        end_lease(state, queue.leases[selection.lease_id])
        selection.lease_id = 0


def end_side(state: State, queue: QueueState, time_ms: int, op: record_pb2.QueueOp, freed: list[int]) -> None:
    """Its instance is destroyed: it holds back nothing any more."""
    if queue.passed is not None:
        for of_side in (queue.passed, queue.behind, queue.lost):
            of_side.pop(op.member, None)
        _note_behind(queue, time_ms, ())
        forget_passed(state, queue, op, freed)


def restart_side(queue: QueueState, time_ms: int, op: record_pb2.QueueOp) -> None:
    """It has lost its place, and holds back again what comes after that one."""
    assert queue.passed is not None, "only a queue with PRODUCER replication has sides"
    del queue.lost[op.member]
    queue.passed[op.member] = op.side_after
    queue.restarted_ms[op.member] = time_ms
    _note_behind(queue, time_ms, ())

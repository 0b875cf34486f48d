"""Does what records say of the sides of queues with PRODUCER replication; never decides.

Of a side itself in its member's own domain, and of what all sides have passed in the pair's.
"""

from __future__ import annotations

from collections.abc import Collection

from replica.machine.apply.completion import track
from replica.machine.apply.lives import delete
from replica.machine.state.changes import Applied
from replica.machine.state.lockstep import SideLoss, SideOf
from replica.machine.state.queue import QueueState
from replica.machine.state.segments import PRIORITY_DEFAULT
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_CONSUMED, FINAL_STATE_REJECTED


def apply_side(state: State, log_index: int, time_ms: int, op: record_pb2.SideOp) -> Applied:
    """The side begins, or is given messages: they are ready there once this record is committed."""
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
    side.bytes += op.payload_bytes
    side.last_activity_ms = time_ms
    side.totals.enqueued += op.count
    side.totals.highest_length = max(side.totals.highest_length, side.length)
    if log_index <= state.commit_index:
        side.visible_index = end - 1
    else:
        state.pending.append((log_index, op.side_id, end - 1))
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
    forget_passed(queue, op.gone, freed)
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


def forget_passed(queue: QueueState, gone: common_pb2.IndexRange, freed: list[int]) -> None:
    """Messages that all sides have passed."""
    is_unanswered = queue.config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY  # where its end is not known before
    final = FINAL_STATE_REJECTED if is_unanswered else FINAL_STATE_CONSUMED
    for low, high in list(queue.ready_in(gone.first, gone.first + gone.count)):
        queue.take_ready(low, high)
        queue.forget(low, high, freed, final)
        queue.totals.acked += high - low


def end_side(queue: QueueState, time_ms: int, op: record_pb2.QueueOp, freed: list[int]) -> None:
    """Its instance is destroyed: it holds back nothing any more."""
    if queue.passed is not None:
        for of_side in (queue.passed, queue.behind, queue.lost):
            of_side.pop(op.member, None)
        _note_behind(queue, time_ms, ())
        forget_passed(queue, op.gone, freed)


def restart_side(queue: QueueState, time_ms: int, op: record_pb2.QueueOp) -> None:
    """It has lost its place, and holds back again what comes after that one."""
    assert queue.passed is not None, "only a queue with PRODUCER replication has sides"
    del queue.lost[op.member]
    queue.passed[op.member] = op.side_after
    queue.restarted_ms[op.member] = time_ms
    _note_behind(queue, time_ms, ())

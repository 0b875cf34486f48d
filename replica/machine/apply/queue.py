"""Does what a QUEUE record says: a queue comes, changes, opens, closes or goes; never decides whether it may."""

from __future__ import annotations

from replica.machine.apply.completion import track
from replica.machine.apply.groups import keep_lines
from replica.machine.apply.lives import delete
from replica.machine.apply.save import begin_saving
from replica.machine.apply.sides import end_side, restart_side
from replica.machine.apply.time import lose_volatile
from replica.machine.state.changes import Applied
from replica.machine.state.queue import QueueState
from replica.machine.state.selection import SideOrder
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_PURGED


def apply_queue(state: State, time_ms: int, op: record_pb2.QueueOp) -> Applied:
    freed: list[int] = []
    if op.action == record_pb2.QUEUE_ACTION_CREATE:
        _create(state, time_ms, op)
        return Applied((op.queue_id,), freed)
    queue = state.queues[op.queue_id]
    match op.action:
        case record_pb2.QUEUE_ACTION_UPDATE:
            _update(state, queue, op, freed)
        case record_pb2.QUEUE_ACTION_CONFIGURE:
            queue.configuring = False
        case record_pb2.QUEUE_ACTION_DELETE:
            delete(state, queue, freed)
        case record_pb2.QUEUE_ACTION_PURGE:
            _purge(state, queue, freed)
        case record_pb2.QUEUE_ACTION_OPEN:
            if op.HasField("config"):
                _update(state, queue, op, freed)
            for member in _members(queue, op):
                queue.open_members.add(member)
                queue.closed_members.discard(member)
        case record_pb2.QUEUE_ACTION_CLOSE:
            for member in _members(queue, op) & queue.open_members:
                queue.closed_members.add(member)
                _close(state, queue, member, freed)
        case record_pb2.QUEUE_ACTION_RESTART_SIDE:
            restart_side(queue, time_ms, op)
        case _:
            assert op.action == record_pb2.QUEUE_ACTION_DESTROY, f"no action {op.action}"
            queue.members.remove(op.member)
            queue.closed_members.discard(op.member)
            end_side(state, queue, time_ms, op, freed)
            if queue.members:
                _close(state, queue, op.member, freed)
            else:
                delete(state, queue, freed)
    return Applied((op.queue_id,), freed)


def _update(state: State, queue: QueueState, op: record_pb2.QueueOp, freed: list[int]) -> None:
    owner = queue.config.owner
    queue.config = admin_pb2.QueueConfig()
    queue.config.CopyFrom(op.config)
    if queue.config.owner != owner:
        state.give(queue, owner)
    queue.version += 1
    if op.save_below:
        begin_saving(state, queue, op.save_below, marked=op.save_marked)
    track(state, queue, freed)
    keep_lines(queue)
    state.schedule_queue(queue)


def _members(queue: QueueState, op: record_pb2.QueueOp) -> set[str]:
    """None is named: all that hold it."""
    return {op.member} if op.member else set(queue.members)


def _create(state: State, time_ms: int, op: record_pb2.QueueOp) -> None:
    assert op.queue_id >= state.next_queue_id, "queue ids are never used again"
    assert op.name not in state.ids, "two queues of one name"
    config = admin_pb2.QueueConfig()
    config.CopyFrom(op.config)
    queue = QueueState(op.queue_id, op.name, config, time_ms)
    track(state, queue, [])
    keep_lines(queue)
    queue.members.update(op.members)
    queue.open_members.update(op.open_members)
    queue.configuring = op.configuring
    state.queues[op.queue_id] = queue
    if config.replication == admin_pb2.REPLICATION_PRODUCER:
        queue.passed = dict.fromkeys(sorted(op.members), 0)
        state.sided[op.queue_id] = queue
        state.beyond_first = True
        if config.lockstep == admin_pb2.LOCKSTEP_SELECTED:
            queue.selection = SideOrder()
    state.ids[op.name] = op.queue_id
    state.owners.begin(queue)
    state.next_queue_id = op.queue_id + 1
    state.schedule_queue(queue)


def _purge(state: State, queue: QueueState, freed: list[int]) -> None:
    for start, end in list(queue.unleased_in(0, queue.next_index)):
        state.take_unleased(queue, start, end)
        queue.forget(start, end, freed, FINAL_STATE_PURGED)
        queue.totals.purged += end - start


def _close(state: State, queue: QueueState, member: str, freed: list[int]) -> None:
    """R125: volatile messages go with the last open instance."""
    was_open = bool(queue.open_members)
    queue.open_members.discard(member)
    if was_open and not queue.open_members:
        volatile = [common_pb2.IndexRange(first=start, count=end - start) for start, end in queue.volatile]
        lose_volatile(state, queue, volatile, freed)

"""Does what a QUEUE record says: a queue comes, changes, opens, closes or goes; never decides whether it may."""

from __future__ import annotations

from replica.machine.apply_time import lose_volatile
from replica.machine.queue import QueueState
from replica.machine.state import Applied, State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2


def apply_queue(state: State, time_ms: int, op: record_pb2.QueueOp) -> Applied:
    freed: list[int] = []
    if op.action == record_pb2.QUEUE_ACTION_CREATE:
        _create(state, time_ms, op)
        return Applied((op.queue_id,), freed)
    queue = state.queues[op.queue_id]
    match op.action:
        case record_pb2.QUEUE_ACTION_UPDATE:
            queue.config = admin_pb2.QueueConfig()
            queue.config.CopyFrom(op.config)
            queue.version += 1
        case record_pb2.QUEUE_ACTION_DELETE:
            _delete(state, queue, freed)
        case record_pb2.QUEUE_ACTION_PURGE:
            _purge(queue, freed)
        case record_pb2.QUEUE_ACTION_OPEN:
            queue.open_members.add(op.member)
            queue.closed_members.discard(op.member)
        case record_pb2.QUEUE_ACTION_CLOSE:
            queue.closed_members.add(op.member)
            _close(state, queue, op.member, freed)
        case _:
            assert op.action == record_pb2.QUEUE_ACTION_DESTROY, f"no action {op.action}"
            queue.members.remove(op.member)
            queue.closed_members.discard(op.member)
            if queue.members:
                _close(state, queue, op.member, freed)
            else:
                _delete(state, queue, freed)
    return Applied((op.queue_id,), freed)


def _create(state: State, time_ms: int, op: record_pb2.QueueOp) -> None:
    assert op.queue_id >= state.next_queue_id, "queue ids are never used again"
    assert op.name not in state.ids, "two queues of one name"
    config = admin_pb2.QueueConfig()
    config.CopyFrom(op.config)
    queue = QueueState(op.queue_id, op.name, config, time_ms)
    queue.members.update(op.members)
    queue.open_members.update(op.open_members)
    state.queues[op.queue_id] = queue
    state.ids[op.name] = op.queue_id
    state.next_queue_id = op.queue_id + 1


def _delete(state: State, queue: QueueState, freed: list[int]) -> None:
    freed.extend(queue.segments.log_indexes())
    for lease_id in queue.leases:
        del state.leases[lease_id]
    del state.queues[queue.queue_id], state.ids[queue.name]
    state.producers.forget_queue(queue.queue_id)


def _purge(queue: QueueState, freed: list[int]) -> None:
    for level in queue.ready:
        for start, end in list(level):
            level.remove(start, end)
            queue.forget(start, end, freed)


def _close(state: State, queue: QueueState, member: str, freed: list[int]) -> None:
    """R125: volatile messages go with the last open instance."""
    was_open = bool(queue.open_members)
    queue.open_members.discard(member)
    if was_open and not queue.open_members:
        volatile = [common_pb2.IndexRange(first=start, count=end - start) for start, end in queue.volatile]
        lose_volatile(state, queue, volatile, freed)

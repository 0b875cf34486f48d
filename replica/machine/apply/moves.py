"""Does what a record says of messages that are moved, rejected, or removed by an administrator; never decides."""

from __future__ import annotations

from replica.machine.apply.kept import deny
from replica.machine.state.changes import Applied
from replica.machine.state.queue import Lease, QueueState
from replica.machine.state.state import State
from replica.machine.state.versions import Versions
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2


def take_moved(state: State, op: record_pb2.EnqueueOp, freed: list[int]) -> None:
    """The source's part of a move: the same record puts the copies where they go."""
    if op.updated:
        _hand_on(state.queues[op.moved_from.queue_id], op)
    moved = sum(_take(state, left, op.moved_final, freed) for left in (op.moved_from, *op.more_moved_from))
    assert moved == op.count, "a copy for each message that leaves, and no other"


def _take(state: State, left: record_pb2.QueueRanges, final: service_pb2.FinalState, freed: list[int]) -> int:
    """How many leave that queue."""
    source, moved = state.queues[left.queue_id], 0
    for part in left.ranges:
        start, end = part.first, part.first + part.count
        assert state.take_unleased(source, start, end) == end - start, "moved what is not there, or leased"
        source.forget(start, end, freed, final)
        moved += end - start
    _count(source, moved, final)
    return moved


def _count(queue: QueueState, gone: int, final: service_pb2.FinalState) -> None:
    match final:
        case service_pb2.FINAL_STATE_DEAD_LETTERED:
            queue.totals.dead_lettered += gone
        case service_pb2.FINAL_STATE_REACTED:
            queue.totals.reacted += gone
        case _:
            queue.totals.purged += gone


def _hand_on(queue: QueueState, op: record_pb2.EnqueueOp) -> None:
    """V8: what is known of a message by its index or its id is known of what it becomes."""
    known = queue.versions = queue.versions or Versions()
    new_index = op.first_index
    for part in op.moved_from.ranges:
        for index in range(part.first, part.first + part.count):
            place = queue.segments.locate(index)
            assert place is not None, "changed what is not there"
            known.replace(index, *place, new_index)
            if queue.completions is not None:
                queue.completions.hand_on(index, new_index)
            new_index += 1


def count_delivery(queue: QueueState, lease: Lease, start: int, end: int) -> None:
    """The delivery that ends in a rejection counts, for those that it held."""
    for low, high in lease.ranges.runs(start, end):
        for index in range(low, high):
            queue.deliveries[index] = queue.deliveries.get(index, 0) + 1


def apply_remove(state: State, op: record_pb2.RemoveOp) -> Applied:
    queue = state.queues[op.queue_id]
    freed: list[int] = []
    for part in op.ranges:
        start, end = part.first, part.first + part.count
        assert state.take_unleased(queue, start, end) == end - start, "removed what is not there, or leased"
        queue.forget(start, end, freed, op.final_state)
        _count(queue, end - start, op.final_state)
    if op.HasField("denied"):
        deny(state, op.denied)
    return Applied((op.queue_id,), freed)

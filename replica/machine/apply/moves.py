"""Does what a record says of messages that are moved, rejected, or removed by an administrator; never decides."""

from __future__ import annotations

from replica.machine.state.changes import Applied
from replica.machine.state.queue import Lease, QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_DEAD_LETTERED


def take_moved(state: State, op: record_pb2.EnqueueOp, freed: list[int]) -> None:
    """The source's part of a move: the same record puts the copies where they go."""
    source = state.queues[op.moved_from.queue_id]
    moved = 0
    for part in op.moved_from.ranges:
        start, end = part.first, part.first + part.count
        assert state.take_unleased(source, start, end) == end - start, "moved what is not there, or leased"
        source.forget(start, end, freed, op.moved_final)
        moved += end - start
    assert moved == op.count, "a copy for each message that leaves, and no other"
    if op.moved_final == FINAL_STATE_DEAD_LETTERED:
        source.totals.dead_lettered += moved
    else:
        source.totals.purged += moved


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
        queue.totals.purged += end - start
    return Applied((op.queue_id,), freed)

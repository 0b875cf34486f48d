"""Does what an EXPIRE record says, and what else takes messages from leases; never decides what has ended."""

from __future__ import annotations

from collections.abc import Sequence

from replica.machine.queue import Lease, QueueState
from replica.machine.ranges import RangeSet
from replica.machine.state import Applied, State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2


def return_messages(state: State, queue: QueueState, start: int, end: int) -> None:
    queue.make_ready(start, end)
    state.schedule_messages(queue, start, end, again=True)


def end_lease(state: State, lease: Lease) -> None:
    del state.leases[lease.lease_id], state.queues[lease.queue_id].leases[lease.lease_id]


def apply_expire(state: State, op: record_pb2.ExpireOp) -> Applied:
    touched: dict[int, None] = {}
    freed: list[int] = []
    for gone in op.messages:
        queue = state.queues[gone.queue_id]
        touched[gone.queue_id] = None
        for part in gone.ranges:
            start, end = part.first, part.first + part.count
            assert queue.take_ready(start, end) == end - start, "expired what is not ready"
            queue.forget(start, end, freed)
            queue.totals.expired += end - start
    for lease_id in op.lease_ids:
        lease = state.leases[lease_id]
        queue = state.queues[lease.queue_id]
        touched[lease.queue_id] = None
        for start, end in lease.ranges:
            for index in range(start, end):
                queue.deliveries[index] = queue.deliveries.get(index, 0) + 1
            return_messages(state, queue, start, end)
        end_lease(state, lease)
    for lost in op.volatile_lost:
        touched[lost.queue_id] = None
        lose_volatile(state, state.queues[lost.queue_id], lost.ranges, freed)
    return Applied(tuple(touched), freed)


def lose_volatile(state: State, queue: QueueState, ranges: Sequence[common_pb2.IndexRange], freed: list[int]) -> None:
    """Ready or leased."""
    left = RangeSet()
    for part in ranges:
        start, end = part.first, part.first + part.count
        assert queue.volatile.covers(start, end), "only volatile messages are lost"
        if queue.take_ready(start, end) < end - start:
            left.add(start, end)
        queue.forget(start, end, freed)
        queue.totals.volatile_lost += end - start
    if left:
        for lease in list(queue.leases.values()):
            for start, end in left:
                lease.ranges.discard(start, end)
            if not lease.ranges:
                end_lease(state, lease)

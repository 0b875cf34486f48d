"""Does what reactions in an open unit of work lock: out of where messages wait, and back to there; never decides.

What is locked is in a lease like what a consumer has, so that whoever looks at leases knows of it. It was given to
nobody: no delivery counts, and each message goes back to where it was, delayed until its own time, or in its line.
"""

from __future__ import annotations

from replica.machine.apply.groups import line_up
from replica.machine.sets.ranges import RangeSet
from replica.machine.sets.spans import Spans
from replica.machine.state.queue import Lease, QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2


def lock(state: State, lease_id: int, op: record_pb2.LeaseOp) -> None:
    """Ready, delayed and blocked ones."""
    queue, locked = state.queues[op.queue_id], Spans()
    held = RangeSet((part.first, part.first + part.count) for part in op.ranges)
    for start, end in held:
        for low, high, when_ms in queue.delayed.rows(start, end):
            locked.add(low, high, when_ms)
        assert state.take_waiting(queue, start, end) == end - start, "locked what somebody holds"
    times = op.expires_at_ms, op.duration_ms, state.time_ms
    lease = Lease(lease_id, op.queue_id, held, op.client_id, *times, op.unit, locked)
    queue.leases[lease_id] = state.leases[lease_id] = lease
    state.lease_ends.push(lease.expires_at_ms, op.queue_id, lease_id)


def unlock(state: State, queue: QueueState, lease: Lease, start: int, end: int) -> None:
    """Out of the lease, to where they were; the caller takes them out of its ranges."""
    assert lease.locked is not None, "unlocked what a consumer has"
    rows = list(lease.locked.rows(start, end))
    forget_locked(lease, start, end)
    waited = RangeSet((low, high) for low, high, _ in rows)
    for low, high, when_ms in rows:
        state.delay(queue, low, high, when_ms)
    for low, high in list(waited.gaps(start, end)):
        if queue.groups is not None:
            line_up(queue, low, high)  # its group may have come to it meanwhile
        else:
            queue.make_ready(low, high)
    state.schedule_messages(queue, start, end, again=True)


def forget_locked(lease: Lease, start: int, end: int) -> None:
    """They have left the queue, or the lease."""
    if lease.locked:
        lease.locked.take(start, end)

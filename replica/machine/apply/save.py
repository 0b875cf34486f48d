"""Does what makes a queue's volatile messages persistent; never knows where a body is.

An UPDATE record says up to which message the change reaches, SAVE records carry it out in bounded parts. What one
UPDATE has begun goes on whatever a later one says: its caller is told that these messages are persistent.
"""

from __future__ import annotations

from replica.machine.state.changes import Applied
from replica.machine.state.queue import QueueState, Unsaved
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2


def begin_saving(state: State, queue: QueueState, below: int, *, marked: bool) -> None:
    before = queue.unsaved
    start = queue.volatile.first if queue.volatile.size else below
    # Two changes at once: all of it by the stronger rule, for to save more than was asked for breaks no promise.
    queue.unsaved = Unsaved(start, below, marked and (before is None or before.marked))
    state.saving[queue.queue_id] = None


def apply_save(state: State, op: record_pb2.SaveOp) -> Applied:
    queue = state.queues[op.queue_id]
    assert queue.unsaved is not None, "nothing of this queue is to be saved"
    for part in op.ranges:
        queue.volatile.remove(part.first, part.first + part.count)
    if op.next_index >= queue.unsaved.end:
        queue.unsaved = None
        del state.saving[op.queue_id]
    else:
        queue.unsaved = queue.unsaved._replace(start=op.next_index)
    return Applied((op.queue_id,), [])

"""Does what a REPLY record says, and begins what is kept of messages for their senders; never decides anything."""

from __future__ import annotations

from replica.machine.apply.time import end_lease
from replica.machine.plan.settle import ACK, settled_key
from replica.machine.state.changes import Applied
from replica.machine.state.completions import TRACKED, Completions
from replica.machine.state.config import milliseconds
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_REPLIED


def track(state: State, queue: QueueState, freed: list[int]) -> None:
    """Its attributes are new: they say whether its senders may ask for more than STORED, and for how long."""
    tracked = queue.config.queue_type in TRACKED
    if not tracked and queue.completions is not None:
        freed.extend(queue.completions.log_indexes())
        queue.completions = None
        state.owing.pop(queue.queue_id, None)
    elif tracked and queue.completions is None:
        queue.completions = Completions(state, queue.queue_id)
    else:
        state.schedule_completions(queue)


def begin_messages(state: State, queue: QueueState, start: int, end: int) -> None:
    """They entered a queue that remembers how they end."""
    completions = queue.completions
    assert completions is not None
    completions.begin(start, end)
    if queue.config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY:
        until_ms = state.time_ms + milliseconds(queue.config.reply_timeout)
        if completions.deadlines.add(start, end, until_ms):
            state.reply_ends.push(until_ms, queue.queue_id, start)


def take_owed(state: State, op: record_pb2.EnqueueOp) -> None:
    """The record puts copies of answers where they were owed to."""
    queue = state.queues[op.answers.queue_id]
    completions = queue.completions
    assert completions is not None, "a queue of another type owes nothing"
    for part in op.answers.ranges:
        for index in range(part.first, part.first + part.count):
            assert completions.settle_owed(index), "a copy of what was not owed"
    state.touch((queue.queue_id,))
    if not completions.owed:
        state.owing.pop(queue.queue_id, None)


def apply_reply(state: State, log_index: int, op: record_pb2.ReplyOp, fingerprint: int) -> Applied:
    """Settles the request and keeps where its answer is."""
    queue = state.queues[op.queue_id]
    completions = queue.completions
    assert completions is not None, "replied in a queue of another type"
    if queue.passed is not None:
        return _reply_at_sides(state, queue, log_index, op)
    start, end = op.index, op.index + 1
    lease = queue.leases.get(op.lease_id)
    held = lease.ranges.discard(start, end) if lease else 0
    if not held:
        held = state.take_waiting(queue, start, end)
    assert held, "replied to what is not there"
    if lease:
        queue.totals.note_processed(1, state.time_ms - lease.since_ms)
        if not lease.ranges:
            end_lease(state, lease)
    freed: list[int] = []
    queue.forget(start, end, freed, FINAL_STATE_REPLIED)
    _keep_answer(state, queue, completions, log_index, op, fingerprint)
    queue.remember_settled(settled_key(op.lease_id, ACK), start, end, state.limits.settled_leases_kept)
    return Applied((op.queue_id,), freed)


def _reply_at_sides(state: State, queue: QueueState, log_index: int, op: record_pb2.ReplyOp) -> Applied:
    """The request has ended for its sender, and stays for the sides: each passes it in its turn (K1, K11)."""
    completions = queue.completions
    assert completions is not None, "replied in a queue of another type"
    assert op.index in completions.unended, "replied to what has ended"
    completions.end(op.index, op.index + 1, FINAL_STATE_REPLIED)
    _keep_answer(state, queue, completions, log_index, op, op.fingerprint)
    return Applied((op.queue_id,), [])


def _keep_answer(
    state: State, queue: QueueState, completions: Completions, log_index: int, op: record_pb2.ReplyOp, fingerprint: int
) -> None:
    completions.answer(op.index, log_index, fingerprint)
    if op.reply_to:
        completions.owe(op.index, op.reply_to, op.correlation_id)
        state.owing[op.queue_id] = None
    queue.totals.replied += 1
    queue.last_activity_ms = state.time_ms

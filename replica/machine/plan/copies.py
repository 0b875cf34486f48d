"""Decides whether copies of answers may enter the queue that their requests named; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica.machine.plan.columns import Columns
from replica.machine.plan.enqueue import EnqueueCall, header_of
from replica.machine.plan.gathering import Unfit
from replica.machine.plan.move import ranges_of, room_in
from replica.machine.plan.reply_copies import check_reply_tos, owed_of
from replica.machine.state.errors import Refused
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2


@dataclass(frozen=True, slots=True)
class CopyCall:
    queue_id: int  # whose requests were answered
    to: str
    indexes: Sequence[int]  # of the requests, rising
    columns: Columns  # of the copies, in that order


def plan_copies(state: State, now_ms: int, call: CopyCall) -> record_pb2.RecordHeader:
    """Its body is a batch of copies of answers that are owed; they are owed no longer when it is applied."""
    count = len(call.indexes)
    assert 0 < count == call.columns.count, "a copy for each answer"
    assert owed_of(state, call.queue_id).get(call.to, {}).keys() >= set(call.indexes), "a copy of what is not owed"
    to = state.named(call.to)
    if to.queue_id == call.queue_id:
        text = f"queue {to.name} is where the requests are: each answer would be a request again"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    if call.columns.reply_tos:
        check_reply_tos(to, call.columns.reply_tos)
    room_in(state, call.to)  # refused, if it takes nothing
    # An answer that its own queue let in may be longer than what the other one takes from its producers.
    columns = call.columns._replace(payload_bytes_max=0, delays_ms=(), deliver_at_ms=())
    # What the manager puts is not held up by a group that it does not fit (V19).
    entry = EnqueueCall(to.name, b"", 0, columns, min(to.open_members), unfit=Unfit.FREE)
    header = header_of(state, to, now_ms, entry)
    op = header.enqueue
    if op.refusals:  # not even with what it drops: what is leased there stays
        raise Refused(common_pb2.REASON_QUEUE_FULL, f"queue {to.name} has no room for {count} messages")
    op.internal = True
    op.answers.queue_id = call.queue_id
    for start, end in ranges_of(call.indexes):
        op.answers.ranges.add(first=start, count=end - start)
    return header

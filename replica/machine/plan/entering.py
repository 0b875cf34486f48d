"""What a part of a batch becomes at one member of a macro queue, and why it enters none; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from replica.machine.plan.enqueue import EnqueueCall, header_of
from replica.machine.plan.reply_copies import check_reply_tos
from replica.machine.state.errors import Refused
from replica.machine.state.macros import MacroQueue
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2


def entering(state: State, now_ms: int, call: EnqueueCall, queue: QueueState, *, full: bool) -> record_pb2.RecordHeader:
    """As if it had been sent there; what a member cannot take is refused one by one, and holds up no other member."""
    if takes(queue, call):
        if call.columns.reply_tos:
            check_reply_tos(queue, call.columns.reply_tos)
        return header_of(state, queue, now_ms, call, full=full)
    if call.columns.dedup_ids:
        header = header_of(state, queue, now_ms, call, full=True)
        if len(header.enqueue.duplicates) == call.columns.count:
            return header  # nothing enters: it is there, and that is the answer, whatever the queue takes now
    return all_refused(state, now_ms, call, queue, [common_pb2.REASON_ENQUEUE_DISABLED] * call.columns.count)


def takes(queue: QueueState, call: EnqueueCall) -> bool:
    """Whether it is open where the call came, and enabled for sending."""
    return call.member in queue.open_members and queue.config.enqueue_enabled


def all_refused(
    state: State, now_ms: int, call: EnqueueCall, queue: QueueState, reasons: Sequence[common_pb2.Reason]
) -> record_pb2.RecordHeader:
    """Nothing enters, and the sequences are consumed. `reasons`: one an entry."""
    op = record_pb2.EnqueueOp(
        queue_id=queue.queue_id,
        client_id=call.client_id,
        first_sequence=call.first_sequence,
        count=call.columns.count,
        refusals=[record_pb2.Refusal(ordinal=ordinal, reason=reason) for ordinal, reason in enumerate(reasons)],
    )
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, enqueue=op
    )


def memberless(macro: MacroQueue) -> Refused:
    text = f"macro queue {macro.name} has no members; add one"
    return Refused(common_pb2.REASON_CONFIG_ERROR, text, {"queue": macro.name})


def nobody_takes(macro: MacroQueue, call: EnqueueCall) -> Refused:
    text = f"no member of macro queue {macro.name} is open at {call.member} and enabled for sending; open one"
    return Refused(common_pb2.REASON_ENQUEUE_DISABLED, text, {"queue": macro.name})

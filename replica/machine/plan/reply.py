"""Decides whether an answer to a request counts; changes nothing.

(lease, index) is the identity of an answer, as of a settlement: the same answer under the same lease is a repetition,
another one comes too late.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.machine.plan.settle import ACK, settled_key
from replica.machine.plan.sides import refuse_where_sides
from replica.machine.state.completions import REPLIED
from replica.machine.state.errors import Refused
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

_INDEX_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ReplyCall:
    queue: str
    lease_id: int
    index: int
    body_bytes: int  # payload of the answer
    request_id: bytes = b""
    request_hash: int = 0
    unit: bytes = b""  # of work, of which the answer is a part


def plan_reply(state: State, now_ms: int, call: ReplyCall) -> record_pb2.RecordHeader | None:
    """None: this answer counted already."""
    queue = state.named(call.queue)
    assert call.request_id not in state.requests, "find_request comes first"
    assert queue.passed is None, "answers of sides are decided by their indexes alone"
    check_answer(queue, call)
    if not _may_answer(queue, call):
        return None
    op = record_pb2.ReplyOp(queue_id=queue.queue_id, lease_id=call.lease_id, index=call.index)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, reply=op
    )


def reply_in_unit(queue: QueueState, call: ReplyCall) -> record_pb2.ReplyOp:
    """What answers a request as a part of a unit of work (U16). Its lease must hold it: somebody else might do the same
    work. Raises Refused.
    """
    check_answer(queue, call)
    refuse_where_sides(queue, "both processes answer its requests by Reply, and a unit of work takes none of them")
    if not _may_answer(queue, call):
        text = f"request {call.index} of queue {queue.name} has this answer already, and not by this unit of work"
        raise Refused(common_pb2.REASON_ALREADY_REPLIED, text)
    lease = queue.leases.get(call.lease_id)
    if lease is None or call.index not in lease.ranges:
        raise lease_lost(queue, call)
    return record_pb2.ReplyOp(
        queue_id=queue.queue_id,
        lease_id=call.lease_id,
        index=call.index,
        fingerprint=call.request_hash & 0xFFFFFFFF,
    )


def check_answer(queue: QueueState, call: ReplyCall) -> None:
    """Raises Refused for what is no answer to a request of that queue, whoever may give one."""
    if queue.side is not None:
        text = "a side gives out requests and takes no answers: send them by Reply to the queue, then settle them here"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text)
    if queue.config.queue_type != admin_pb2.QUEUE_TYPE_TWO_WAY:
        kind = admin_pb2.QueueType.Name(queue.config.queue_type).removeprefix("QUEUE_TYPE_")
        text = f"queue {queue.name} has type {kind}: only messages of a TWO_WAY queue are replied to; acknowledge them"
        raise Refused(common_pb2.REASON_NOT_TWO_WAY, text)
    if queue.completions is None:
        text = f"queue {queue.name} was made before requests could be answered; create it anew"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text)
    is_leased = 0 < call.lease_id <= _INDEX_MAX or queue.passed is not None
    if not is_leased or not 0 < call.index <= _INDEX_MAX:
        text = "lease_id and index must be those that the request was delivered with"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    if call.body_bytes > queue.config.max_message_bytes:
        text = f"an answer of {call.body_bytes} bytes; max_message_bytes of {queue.name} is"
        raise Refused(common_pb2.REASON_MESSAGE_TOO_LARGE, f"{text} {queue.config.max_message_bytes}")


def _may_answer(queue: QueueState, call: ReplyCall) -> bool:
    """False: this very answer was taken before. Refused: the request is not this consumer's, or not open any more."""
    lease = queue.leases.get(call.lease_id)
    if lease is not None and lease.unit and lease.unit != call.unit:
        text = "the lease is that of an open unit of work: answer the request as a part of that, by its unit_id"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    if lease is not None and lease.locked is not None:
        text = "the lease is a reaction's in the unit of work: the request was delivered to nobody"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    if lease is not None and call.index in lease.ranges:
        return True
    completions = queue.completions
    final = completions.final_of(call.index) if completions is not None else None
    if completions is not None and final == REPLIED:
        answer = completions.answer_of(call.index)
        same = answer is not None and answer.fingerprint == call.request_hash & 0xFFFFFFFF
        if same and call.index in queue.was_settled(settled_key(call.lease_id, ACK)):
            return False
        text = f"request {call.index} of queue {queue.name} has its answer; the first one counts"
        raise Refused(common_pb2.REASON_ALREADY_REPLIED, text)
    # Nobody holds it: the record of the lease may have been lost with an old master.
    if call.index <= queue.visible_index and any(queue.waiting_in(call.index, call.index + 1)):
        return True
    raise lease_lost(queue, call)


def lease_lost(queue: QueueState, call: ReplyCall) -> Refused:
    where = f"request {call.index} of queue {queue.name}"
    text = f"the lease does not hold {where} any more: it ended, or was given on; receive it again"
    return Refused(common_pb2.REASON_LEASE_LOST, text)

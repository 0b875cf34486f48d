"""Decides whether an answer counts that both of two processes give to a request, each at its own side (K11); changes
nothing.

The request's index alone is the identity of an answer: leases are those of the sides, and the pair knows of none. The
first answer that is ordered counts, an equal one is a repetition, and another one says that the two went two ways.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from replica.machine.plan.reply import ReplyCall, check_answer
from replica.machine.state.completions import REPLIED
from replica.machine.state.errors import Refused
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_UNSPECIFIED


class TwoAnswers(NamedTuple):
    """Digests of two answers to one request that are not equal."""

    first: int
    second: int


def digest_of(body: bytes) -> int:
    """32 bits of an answer, as both processes have it."""
    return int.from_bytes(blake2b(body, digest_size=4).digest(), "big")


def differing(queue: QueueState, index: int, digest: int) -> TwoAnswers | None:
    """None: the request has no answer yet, or an equal one, or it is not known any more."""
    kept = queue.completions.answer_of(index) if queue.completions is not None else None
    return TwoAnswers(kept.fingerprint, digest) if kept is not None and kept.fingerprint != digest else None


def plan_side_reply(
    state: State, now_ms: int, queue: QueueState, call: ReplyCall, digest: int
) -> record_pb2.RecordHeader | None:
    """None: an equal answer counted before. Raises Refused: ALREADY_REPLIED for another one, LEASE_LOST for one that
    comes too late, behind the end of its request.
    """
    check_answer(queue, call)
    if (two := differing(queue, call.index, digest)) is not None:
        text = (
            f"request {call.index} of queue {queue.name} has its answer, with digest {two.first:08x}, and this one has "
            f"{two.second:08x}: the two processes went two ways; the first one counts"
        )
        facts = {
            "queue": queue.name,
            "index": str(call.index),
            "digest": f"{two.second:08x}",
            "first_digest": f"{two.first:08x}",
        }
        raise Refused(common_pb2.REASON_ALREADY_REPLIED, text, facts)
    final = queue.completions.final_of(call.index) if queue.completions is not None else None
    if final == REPLIED:
        return None
    if final != FINAL_STATE_UNSPECIFIED or call.index > queue.visible_index:
        text = f"request {call.index} of queue {queue.name} has ended without an answer, or is not there: nobody waits"
        raise Refused(common_pb2.REASON_LEASE_LOST, text, {"queue": queue.name, "index": str(call.index)})
    op = record_pb2.ReplyOp(queue_id=queue.queue_id, index=call.index, fingerprint=digest)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, reply=op
    )

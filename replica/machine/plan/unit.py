"""Decides whether a unit of work happens: settlements and messages of several queues by one record, or nothing of it;
changes nothing.

It is decided at once and whole, against the queues as its own settlements leave them (U7): any refusal refuses all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from replica.machine.plan.columns import Columns
from replica.machine.plan.dropping import NOTHING_LEAVES, Departing, leaving_of
from replica.machine.plan.enqueue import EnqueueCall, check_may_enqueue, header_of
from replica.machine.plan.lock import index_ranges, unlocking
from replica.machine.plan.move import ranges_of
from replica.machine.plan.owners import check_entering
from replica.machine.plan.react import ReactCall, check_reactions, entering
from replica.machine.plan.reply import ReplyCall, reply_in_unit
from replica.machine.plan.reply_copies import check_reply_tos
from replica.machine.plan.settle import ACK, EXTEND, REJECT, SettleCall, plan_settle
from replica.machine.plan.unit_identity import UnitIdentity, check_follows
from replica.machine.sets.ranges import Run
from replica.machine.state.errors import Refused
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_REACTED

QUEUES_MAX = 100
"""Of one unit (U3)."""
_UNFIT = MappingProxyType(
    {
        common_pb2.REASON_MESSAGE_TOO_LARGE: "is larger than its max_message_bytes ({})",
        common_pb2.REASON_QUEUE_FULL: "finds it full, or others that wait for room; consume, or repeat it later",
        common_pb2.REASON_GROUP_MISMATCH: "does not fit its group: see its group_sequence and last_in_group",
        common_pb2.REASON_QUOTA_EXCEEDED: "begins a group, and as many gather there as may; repeat it later",
    }
)
"""Why a queue does not take a message of a unit (`plan/enqueue.py`, `plan/gathering.py`)."""


class QueueSettling(NamedTuple):
    """What is settled in one queue."""

    queue: str
    settlements: Sequence[service_pb2.Settlement]


class QueuePut(NamedTuple):
    """What enters one queue: the next messages of the unit's body."""

    queue: str
    columns: Columns


@dataclass(frozen=True, slots=True)
class UnitCall:
    settles: Sequence[QueueSettling]
    puts: Sequence[QueuePut]
    member: str  # through which it came
    request_id: bytes
    request_hash: int
    identity: UnitIdentity | None = None
    unit_id: bytes = b""  # of one that was open; it may have nothing in it
    replies: Sequence[ReplyCall] = ()  # their answers stand in the body, in order, behind all that enters
    reactions: Sequence[ReactCall] = ()  # what they put into queues stands there in order, behind the puts

    @property
    def entries(self) -> int:
        """Of its body, that enter queues."""
        return sum(put.columns.count for put in self.puts) + sum(each.entries for each in self.reactions)

    @property
    def messages(self) -> int:
        """Of its body."""
        return self.entries + len(self.replies)


def plan_unit(state: State, now_ms: int, call: UnitCall, full: Collection[int] = ()) -> record_pb2.RecordHeader:
    """Its body is one EnqueueBatch with the messages of all puts, in order, and its answers. `full`: queues whose room
    others wait for (U7). Raises Refused with nothing done; its metadata name the queue, and the entry where there is
    one.
    """
    assert call.request_id not in state.requests, "find_request comes first"
    _check_size(state, call)
    op = record_pb2.TxnOp(unit_id=call.unit_id)
    if (own := call.identity) is not None:
        check_follows(state, own)
        op.writer, op.query_id, op.number, op.digest = own.writer, own.query_id, own.number, own.digest
    gone = _settle(state, now_ms, call, op)
    for each in call.reactions:
        _unlock(state, each, op)
        gone.setdefault(each.queue_id, []).extend(ranges_of(each.targets))
    leaving = {queue_id: leaving_of(state.queues[queue_id], runs) for queue_id, runs in gone.items()}
    first_ordinal = 0
    for queue, put in zip(_each_once(state, [each.queue for each in call.puts]), call.puts, strict=True):
        leaves = leaving.get(queue.queue_id, NOTHING_LEAVES)
        enqueue = _enqueue(state, now_ms, queue, call, put, leaves, full=queue.queue_id in full)
        enqueue.first_ordinal, enqueue.queue = first_ordinal, queue.name
        op.enqueues.append(enqueue)
        first_ordinal += put.columns.count
    for each in call.reactions:
        op.enqueues.extend(entering(state, now_ms, each, leaving, first_ordinal))
        first_ordinal += each.entries
    if call.reactions:
        _each_once(state, [each.queue for each in op.enqueues])  # names may be those of other queues by now
    check_entering(state, op.enqueues, leaving)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, txn=op
    )


def leaving_by(
    state: State, now_ms: int, call: UnitCall, reactions: Iterable[tuple[int, Sequence[int]]]
) -> dict[int, Departing]:
    """What leaves each queue by a unit, whose reactions are not planned yet: of each the queue's number, and what it
    acts on. Raises Refused where what else the unit does cannot be done; want of room is not looked for.
    """
    gone = _settle(state, now_ms, call, record_pb2.TxnOp())
    for put in call.puts:
        check_may_enqueue(state.named(put.queue), call.member)
    for queue_id, targets in reactions:
        gone.setdefault(queue_id, []).extend(ranges_of(targets))
    return {queue_id: leaving_of(state.queues[queue_id], runs) for queue_id, runs in gone.items()}


def _settle(state: State, now_ms: int, call: UnitCall, op: record_pb2.TxnOp) -> dict[int, list[Run]]:
    """Its settlements and its answers, into the record's operation. What leaves each queue by them."""
    gone: dict[int, list[Run]] = {}
    for queue, settling in zip(_each_once(state, [each.queue for each in call.settles]), call.settles, strict=True):
        settle = settle_of(state, now_ms, queue, settling, call.unit_id)
        check_once(queue, settling.settlements, [each for each in call.replies if _is_of(queue, each)])
        gone.setdefault(queue.queue_id, []).extend(_that_leave(settle))
        op.settles.append(settle)
    op.replies.extend(_replies(state, call))
    for reply in op.replies:
        gone.setdefault(reply.queue_id, []).append((reply.index, reply.index + 1))
    return gone


def _unlock(state: State, call: ReactCall, op: record_pb2.TxnOp) -> None:
    """V15: what the reaction has locked is where it was, and what it cancels leaves from there."""
    queue = state.numbered(call.queue_id)
    check_reactions(queue)
    if not call.targets:
        return
    settle = next((each for each in op.settles if each.queue_id == queue.queue_id), None)
    if settle is None:
        settle = op.settles.add(queue_id=queue.queue_id)
    settle.effects.append(unlocking(queue.leases[call.lease_id]))
    if gone := call.removed(call.homes[0]):
        removed = next((each for each in op.removes if each.queue_id == queue.queue_id), None)
        if removed is None:
            removed = op.removes.add(queue_id=queue.queue_id, final_state=FINAL_STATE_REACTED)
        removed.ranges.extend(index_ranges(gone))


def _check_size(state: State, call: UnitCall) -> None:
    """U3."""
    if not call.settles and not call.puts and not call.replies and not call.unit_id:
        text = "a unit of work without settlements and messages; name at least one of them"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    limits = state.limits
    ranges = sum(len(settlement.ranges) for each in call.settles for settlement in each.settlements)
    for what, count, most in (
        ("messages", call.messages, limits.batch_messages_max),
        ("ranges", ranges, limits.settlement_ranges_max),
        ("queues", len(_named(call)), QUEUES_MAX),
    ):
        if count > most:
            text = f"a unit of work of {count} {what}; it may have {most}: make it smaller, or stage its messages"
            raise Refused(common_pb2.REASON_TXN_TOO_LARGE, text, {"limit": str(most)})


def _named(call: UnitCall) -> set[str]:
    settled, answered = {each.queue for each in call.settles}, {each.queue for each in call.replies}
    return settled | answered | {each.queue for each in call.puts}


def _each_once(state: State, names: Iterable[str]) -> list[QueueState]:
    queues = [state.named(name) for name in names]
    seen: set[int] = set()
    for queue in queues:
        if queue.queue_id in seen:
            text = f"queue {queue.name} is named twice, perhaps by an alias; put all that is for it into one entry"
            raise Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": queue.name})
        seen.add(queue.queue_id)
    return queues


def settle_of(
    state: State, now_ms: int, queue: QueueState, settling: QueueSettling, unit_id: bytes = b""
) -> record_pb2.SettleOp:
    """What a unit does in one queue; the leases of `unit_id` are its own. Raises Refused where any of it cannot be."""
    if not settling.settlements:
        raise Refused(common_pb2.REASON_BAD_REQUEST, f"queue {queue.name}: no settlements", {"queue": queue.name})
    for place, settlement in enumerate(settling.settlements):
        if settlement.outcome == EXTEND:
            text = f"settlement {place} of queue {queue.name} is an EXTEND; a unit takes ACK, RELEASE and REJECT"
            raise Refused(common_pb2.REASON_BAD_REQUEST, text, _entry(queue, place))
    check_once(queue, settling.settlements)
    plan = plan_settle(state, now_ms, SettleCall(queue.name, settling.settlements, unit=unit_id))
    for place, result in enumerate(plan.results):
        if result.HasField("error"):
            text = f"settlement {place} of queue {queue.name}: {result.error.message}; nothing of the unit was done"
            raise Refused(result.error.reason, text, _entry(queue, place))
    op = record_pb2.SettleOp(queue_id=queue.queue_id)
    if plan.header is not None:
        op.CopyFrom(plan.header.settle)
    _check_held(queue, settling, op)
    return op


def check_once(
    queue: QueueState, settlements: Sequence[service_pb2.Settlement], replies: Sequence[ReplyCall] = ()
) -> None:
    """A unit that names a message twice under one lease was made wrong, and taking it anew does not help. Under two
    leases one of them is lost.
    """
    runs = [(each.lease_id, part.first, part.first + part.count) for each in settlements for part in each.ranges]
    runs += [(each.lease_id, each.index, each.index + 1) for each in replies]
    for (before, _, end), (lease_id, start, _) in pairwise(sorted(runs)):
        if lease_id == before and start < end:
            text = f"message {start} of queue {queue.name} is settled twice in one unit of work; name each message once"
            raise Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": queue.name})


def _replies(state: State, call: UnitCall) -> Iterable[record_pb2.ReplyOp]:
    """In the order of the calls. Of two answers to one request the first counts."""
    answered: set[tuple[int, int]] = set()
    ordinal = call.entries
    for reply in call.replies:
        queue = state.named(reply.queue)
        op = reply_in_unit(queue, reply)
        if (op.queue_id, op.index) in answered:
            raise answered_before(queue, op.index)
        answered.add((op.queue_id, op.index))
        op.ordinal = ordinal
        ordinal += 1
        yield op


def answered_before(queue: QueueState, index: int) -> Refused:
    """By the same unit."""
    text = f"request {index} of queue {queue.name} has its answer in this unit of work; the first one counts"
    return Refused(common_pb2.REASON_ALREADY_REPLIED, text, {"queue": queue.name})


def _is_of(queue: QueueState, reply: ReplyCall) -> bool:
    return reply.queue == queue.name or reply.queue in queue.aliases


def _check_held(queue: QueueState, settling: QueueSettling, op: record_pb2.SettleOp) -> None:
    """U6: what nobody holds any more, or was settled before, may be settled by itself, and not in a unit: somebody else
    may have done what the unit is about to do.
    """
    asked = sum(part.count for settlement in settling.settlements for part in settlement.ranges)
    held = 0
    for effect in op.effects:
        lease = queue.leases.get(effect.lease_id)
        for part in effect.ranges:
            if lease is not None and lease.ranges.covers(part.first, part.first + part.count):
                held += part.count
    if held < asked:
        text = (
            f"queue {queue.name}: {asked - held} of {asked} messages are not held by the leases that the unit names, "
            "or not any more; nothing of the unit was done: take them anew"
        )
        raise Refused(common_pb2.REASON_LEASE_LOST, text, {"queue": queue.name})


def _that_leave(op: record_pb2.SettleOp) -> Iterable[tuple[int, int]]:
    for effect in op.effects:
        if effect.outcome == ACK or (effect.outcome == REJECT and not effect.dead_letter):
            yield from ((part.first, part.first + part.count) for part in effect.ranges)


def _enqueue(
    state: State, now_ms: int, queue: QueueState, call: UnitCall, put: QueuePut, leaving: Departing, *, full: bool
) -> record_pb2.EnqueueOp:
    columns = put.columns
    if not columns.count:
        raise Refused(common_pb2.REASON_BAD_REQUEST, f"queue {queue.name}: no messages", {"queue": queue.name})
    check_may_enqueue(queue, call.member)
    if columns.reply_tos:
        check_reply_tos(queue, columns.reply_tos)
    enqueue = EnqueueCall(put.queue, b"", 0, columns, call.member, leaving=leaving)
    op = header_of(state, queue, now_ms, enqueue, full=full).enqueue
    if op.refusals:
        refusal = op.refusals[0]
        what = _UNFIT[refusal.reason].format(queue.config.max_message_bytes)
        text = f"message {refusal.ordinal} for queue {queue.name} {what}; nothing of the unit was done"
        raise Refused(refusal.reason, text, _entry(queue, refusal.ordinal))
    return op


def _entry(queue: QueueState, place: int) -> dict[str, str]:
    return {"queue": queue.name, "entry": str(place)}

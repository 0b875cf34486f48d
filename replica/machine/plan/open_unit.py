"""Decides what an open unit of work may keep, and how one that is not committed ends; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica.machine.plan.columns import Columns
from replica.machine.plan.enqueue import check_may_enqueue
from replica.machine.plan.gathering import check_placed
from replica.machine.plan.lock import unlocking
from replica.machine.plan.reply import ReplyCall, reply_in_unit
from replica.machine.plan.reply_copies import check_reply_tos
from replica.machine.plan.settle import RELEASE
from replica.machine.plan.sides import check_plain
from replica.machine.plan.unit import QueueSettling, answered_before, check_once, settle_of
from replica.machine.state.errors import Refused
from replica.machine.state.gathering import WholeGroups
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2


def check_put(queue: QueueState, columns: Columns, member: str) -> None:
    """U4: what no commit could let in is refused at once. Room is looked for at the commit."""
    if not columns.count:
        raise Refused(common_pb2.REASON_BAD_REQUEST, f"queue {queue.name}: no messages", {"queue": queue.name})
    check_may_enqueue(queue, member)
    if columns.reply_tos:
        check_reply_tos(queue, columns.reply_tos)
    if queue.passed is not None:
        check_plain(queue, columns)
    if isinstance(queue.groups, WholeGroups):
        check_placed(queue, columns)
    most = queue.config.max_message_bytes
    if columns.payload_bytes_max > most:
        place = next(place for place, size in enumerate(columns.sizes) if size > most)
        text = f"message {place} for queue {queue.name} is larger than its max_message_bytes ({most})"
        metadata = {"queue": queue.name, "entry": str(place)}
        raise Refused(common_pb2.REASON_MESSAGE_TOO_LARGE, text, metadata)


def check_settles(
    state: State,
    now_ms: int,
    queue: QueueState,
    settlements: Sequence[queue_service_pb2.Settlement],
    replies: Sequence[ReplyCall],
    unit_id: bytes,
) -> None:
    """All settlements of one queue that a unit has, the new ones last, beside its answers to requests there: together
    they could be done now.
    """
    settle_of(state, now_ms, queue, QueueSettling(queue.name, settlements), unit_id)
    check_once(queue, settlements, replies)


def check_reply(
    queue: QueueState,
    settlements: Sequence[queue_service_pb2.Settlement],
    replies: Sequence[ReplyCall],
    call: ReplyCall,
) -> None:
    """A further answer in a queue, beside what the unit has of it: it could count now."""
    reply_in_unit(queue, call)
    if any(each.index == call.index for each in replies):
        raise answered_before(queue, call.index)
    check_once(queue, settlements, [call])


def plan_end(state: State, now_ms: int, unit_id: bytes, lease_ids: Iterable[int]) -> record_pb2.RecordHeader | None:
    """U9: what the unit got goes back to its places, and the deliveries count; what its reactions have locked was not
    delivered (V15). None: it holds nothing.
    """
    settles: dict[int, record_pb2.SettleOp] = {}
    for lease_id in lease_ids:
        lease = state.leases.get(lease_id)
        if lease is None:
            continue
        assert lease.unit == unit_id, "a unit ends its own leases"
        settle = settles.setdefault(lease.queue_id, record_pb2.SettleOp(queue_id=lease.queue_id))
        if lease.locked is not None:
            settle.effects.append(unlocking(lease))
            continue
        ranges = [common_pb2.IndexRange(first=start, count=end - start) for start, end in lease.ranges]
        settle.effects.add(lease_id=lease_id, ranges=ranges, outcome=RELEASE, backout=True)
    if not settles:
        return None
    op = record_pb2.TxnOp(unit_id=unit_id, settles=settles.values())
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), txn=op)

"""Decides what of a batch enters all members of a macro queue that duplicates (M4); changes nothing.

One record, so that nobody ever sees a half of it, and one body that all members share.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from replica.machine.plan.enqueue import EnqueueCall
from replica.machine.plan.entering import all_refused, entering, memberless, nobody_takes, takes
from replica.machine.plan.members import queues_of
from replica.machine.state.errors import Refused
from replica.machine.state.macros import MacroQueue
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import macro_service_pb2 as pb

_Refusals = dict[int, tuple[common_pb2.Reason, QueueState]]
"""By place in the batch: why it entered none, and which member says so."""


def plan_copies_at_members(
    state: State, now_ms: int, macro: MacroQueue, call: EnqueueCall, lines: Collection[int]
) -> record_pb2.RecordHeader:
    """`lines`: queues for whose room others wait; those are full for everybody who comes."""
    queues = _members(state, macro, call)
    count = call.columns.count
    places: Sequence[int] = range(count)
    refused: _Refusals = {}
    ops: list[record_pb2.EnqueueOp] = []
    if macro.policy == pb.MACRO_POLICY_DUPLICATE:
        # What one of them refuses enters none, which gives room to what is behind it, and to nothing before it.
        while places:
            ops = [_op(state, now_ms, call, queue, places, lines) for queue in queues]
            said = zip(reversed(ops), reversed(queues), strict=True)
            problems = {places[each.ordinal]: (each.reason, queue) for op, queue in said for each in op.refusals}
            if not problems:
                break
            refused |= problems
            places = [place for place in places if place not in refused]
    else:
        for queue in queues:
            op = _op(state, now_ms, call, queue, places, lines)
            problems = {each.ordinal: (each.reason, queue) for each in op.refusals}
            refused = problems | refused
            left = [place for place in places if place not in problems]
            if problems and left:
                op = _op(state, now_ms, call, queue, left, lines)
                assert not op.refusals, "fewer messages found less room"
            if left:
                ops.append(op)
        entered = {place for op in ops for place in op.ordinals}
        refused = {place: each for place, each in refused.items() if place not in entered}
    if len(refused) == count:
        # It counts at the member that refused the first one, and not at one that has room.
        refuser = refused[0][1]
        header = all_refused(state, now_ms, call, refuser, [refused[place][0] for place in range(count)])
        header.enqueue.macro_id, header.enqueue.queue = macro.queue_id, refuser.name
        return header
    for op in ops:
        op.macro_id = macro.queue_id
    deal = record_pb2.DealOp(
        macro_id=macro.queue_id,
        client_id=call.client_id,
        first_sequence=call.first_sequence,
        count=count,
        refusals=[record_pb2.Refusal(ordinal=place, reason=refused[place][0]) for place in sorted(refused)],
    )
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms),
        request_id=call.request_id,
        request_hash=call.request_hash,
        txn=record_pb2.TxnOp(deal=deal, enqueues=ops),
    )


def _members(state: State, macro: MacroQueue, call: EnqueueCall) -> list[QueueState]:
    """Those that are to get it. Refused where one that must cannot, whatever it has room for."""
    if not macro.members:
        raise memberless(macro)
    queues = list(queues_of(state, macro.by_priority()))
    able = [queue for queue in queues if takes(queue, call)]
    if not able:
        raise nobody_takes(macro, call)
    if macro.policy == pb.MACRO_POLICY_DUPLICATE and len(able) < len(queues):
        shut = next(queue for queue in queues if queue not in able)
        text = f"member {shut.name} of macro queue {macro.name} is not open at {call.member}, or takes no messages"
        text = f"{text}; nothing was sent to any: open or enable it, or remove it from the macro queue"
        raise Refused(common_pb2.REASON_ENQUEUE_DISABLED, text, {"queue": macro.name, "member": shut.name})
    return able


def _op(
    state: State,
    now_ms: int,
    call: EnqueueCall,
    queue: QueueState,
    places: Sequence[int],
    lines: Collection[int],
) -> record_pb2.EnqueueOp:
    part = replace(call, client_id=b"", first_sequence=0, columns=call.columns.picked(places))
    op = entering(state, now_ms, part, queue, full=queue.queue_id in lines).enqueue
    op.queue = queue.name
    op.ordinals.extend(places)
    return op

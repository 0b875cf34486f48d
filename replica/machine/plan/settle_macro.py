"""Decides what settlements by a macro queue's name do in its members, by a record for each (M6); changes nothing.

A lease belongs to the member that gave it. The delivery has named that one; a settlement that does not say it again is
about the queue that holds its lease.
"""

from __future__ import annotations

from dataclasses import replace

from replica.machine.plan.members import queues_of
from replica.machine.plan.reply import ReplyCall
from replica.machine.plan.settle import SettleCall, plan_settle, settled_key
from replica.machine.state.errors import Refused
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

Results = list[service_pb2.SettleResult]


def plan_settle_macro(state: State, now_ms: int, call: SettleCall) -> tuple[list[record_pb2.RecordHeader], Results]:
    """The records, in order, and the results, one a settlement. The last record alone has the call's identity: whoever
    repeats a call that was cut off before it settles again what is settled, which changes nothing.
    """
    places: dict[int, list[int]] = {}
    for place, queue_id in enumerate(members_of(state, call)):
        places.setdefault(queue_id, []).append(place)
    results: Results = [_unknown(call, each) for each in call.settlements]
    headers: list[record_pb2.RecordHeader] = []
    for queue_id, own in places.items():
        if not queue_id:
            continue
        part = [call.settlements[place] for place in own]
        plan = plan_settle(state, now_ms, SettleCall(state.queues[queue_id].name, part))
        for place, result in zip(own, plan.results, strict=True):
            results[place] = result
        if plan.header is not None:
            headers.append(plan.header)
    if headers and call.request_id:
        last = headers[-1]
        last.request_id, last.request_hash = call.request_id, call.request_hash
        last.settle.results.extend(results)
    return headers, results


def at_member(state: State, call: ReplyCall) -> ReplyCall:
    """An answer by a macro queue's name is one at the member whose request that lease holds; of any other queue as it
    is. Whoever may receive from a macro queue answers no requests of other queues.
    """
    macro = state.macros.by_name.get(call.queue)
    if macro is None:
        return call
    lease = state.leases.get(call.lease_id)
    if lease is None or lease.queue_id not in macro.members:
        text = _lost(call.lease_id, call.queue)
        raise Refused(common_pb2.REASON_LEASE_LOST, text, {"queue": call.queue})
    return replace(call, queue=state.queues[lease.queue_id].name)


def members_of(state: State, call: SettleCall) -> list[int]:
    """Number of the queue of each settlement; 0: it is not known, or no member.

    Whoever may receive from a macro queue has no say in other queues.
    """
    members = state.macros.by_name[call.queue].members
    found: list[int] = []
    ended: set[int] = set()  # what was settled under leases that have ended
    for settlement in call.settlements:
        lease = state.leases.get(settlement.lease_id)
        if settlement.queue:
            queue_id = state.ids.get(settlement.queue, 0)
        else:
            queue_id = lease.queue_id if lease is not None else 0
            if lease is None:
                ended.add(settled_key(settlement.lease_id, settlement.outcome))
        found.append(queue_id if queue_id in members else 0)
    if not ended:
        return found
    # Each member is asked once for all of them: one by one they would cost a look a member each.
    homes = {key: queue.queue_id for queue in queues_of(state, members) for key in queue.settled.keys() & ended}
    return [
        queue_id or (0 if each.queue else homes.get(settled_key(each.lease_id, each.outcome), 0))
        for queue_id, each in zip(found, call.settlements, strict=True)
    ]


def _unknown(call: SettleCall, settlement: service_pb2.Settlement) -> service_pb2.SettleResult:
    text = _lost(settlement.lease_id, call.queue)
    error = common_pb2.Error(reason=common_pb2.REASON_LEASE_LOST, message=text)
    return service_pb2.SettleResult(error=error, refused=settlement.ranges)


def _lost(lease_id: int, name: str) -> str:
    return (
        f"lease {lease_id} is of no member of macro queue {name}: it has ended, or its queue is no member any more; "
        "name the queue that the delivery named"
    )

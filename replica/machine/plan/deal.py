"""Decides which members of a macro queue a batch enters, or finds the first answer to one that is repeated; changes
nothing. The record says what was chosen, so that whoever is master next finds the same (M2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from replica.machine.plan.away import NOTHING_KNOWN, FarView, Preferring
from replica.machine.plan.duplicating import plan_copies_at_members
from replica.machine.plan.enqueue import (
    EnqueueCall,
    EnqueuePlan,
    Fresh,
    Repeated,
    check_count,
    check_may_enqueue,
    find_repeated,
    header_of,
    plan_enqueue,
)
from replica.machine.plan.entering import entering, memberless, nobody_takes
from replica.machine.plan.fan_in import check_takes
from replica.machine.plan.in_turn import DealingTurns, InTurn, deal_in_turn
from replica.machine.plan.members import queues_of
from replica.machine.plan.owners import check_entering, without_room
from replica.machine.plan.reply_copies import check_reply_tos
from replica.machine.plan.weighed import ByWeight, table_in_force
from replica.machine.state.errors import Refused
from replica.machine.state.groups import hashes_of
from replica.machine.state.macros import MacroQueue
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

_TO_THE_ONE = frozenset({pb.MACRO_POLICY_BY_GROUP, pb.MACRO_POLICY_DUPLICATE})
"""Policies that pass over no member, whatever it has room for."""


def plan_any(state: State, now_ms: int, call: EnqueueCall) -> EnqueuePlan:
    """To a queue or a macro queue, whatever the name says."""
    macro = state.macros.by_name.get(call.queue)
    return plan_enqueue(state, now_ms, call) if macro is None else plan_deal(state, now_ms, macro, call)


def plan_deal(
    state: State,
    now_ms: int,
    macro: MacroQueue,
    call: EnqueueCall,
    lines: Collection[int] = (),
    ranked: Sequence[int] = (),
    far: FarView = NOTHING_KNOWN,
) -> EnqueuePlan:
    """`lines`: queues for whose room others wait; those are full for everybody who comes. `ranked`: of a policy by live
    figures, the members, the best one first. `far`: of members at other managers.
    """
    plan = _planned(state, now_ms, macro, call, lines, ranked, far)
    if not isinstance(plan, Fresh):
        return plan
    try:
        check_entering(state, _ops(plan))
    except Refused:
        over = set() if macro.policy in _TO_THE_ONE else _over(state, macro, call)
        again = _planned(state, now_ms, macro, call, {*lines, *over}, ranked, far) if over else plan
        if not isinstance(again, Fresh) or any(op.queue_id in over for op in _ops(again)):
            raise  # nobody has room for it: what its owner may store stands for the whole batch
        check_entering(state, _ops(again))
        return again
    return plan


def _ops(plan: Fresh) -> Sequence[record_pb2.EnqueueOp]:
    header = plan.header
    return header.txn.enqueues if header.HasField("txn") else (header.enqueue,)


def _over(state: State, macro: MacroQueue, call: EnqueueCall) -> set[int]:
    """Members whose owner may not store so much more: those are passed over, as full ones are."""
    of_all = macro.policy == pb.MACRO_POLICY_DUPLICATE_BEST_EFFORT
    return without_room(state, queues_of(state, macro.by_priority()), call.columns.payload_bytes, each=of_all)


def _planned(
    state: State,
    now_ms: int,
    macro: MacroQueue,
    call: EnqueueCall,
    lines: Collection[int],
    ranked: Sequence[int],
    far: FarView,
) -> EnqueuePlan:
    check_count(state, call)
    repeated = find_repeated(state, macro.queue_id, macro.name, call)
    if repeated is not None:
        return Repeated(repeated)
    check_takes(macro, producing=True)
    if call.left_out is not None:
        text = f"{macro.name} is a macro queue: what is put back goes to one of its members, by its name"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": macro.name})
    if macro.policy == pb.MACRO_POLICY_BY_GROUP:
        return Fresh(_by_group(state, now_ms, macro, call, lines, far))
    if macro.policy in (pb.MACRO_POLICY_DUPLICATE, pb.MACRO_POLICY_DUPLICATE_BEST_EFFORT):
        return Fresh(plan_copies_at_members(state, now_ms, macro, call, lines))
    time_ms = state.at(now_ms)
    if (table := table_in_force(state, macro, time_ms)) is not None:
        by_weight = ByWeight(state, macro, call, lines, table, time_ms, far.away)
        return Fresh(_weighed(_in_turn(state, now_ms, macro, call, lines, by_weight), table.version))
    if macro.policy == pb.MACRO_POLICY_ROUND_ROBIN:
        return Fresh(_in_turn(state, now_ms, macro, call, lines, _turns(state, macro, call, lines, far)))
    home = _home_of_ids(state, macro, call, time_ms) if call.columns.dedup_ids else None
    queue, full = (
        (home, home.queue_id in lines) if home is not None else _chosen(state, macro, call, lines, far, ranked)
    )
    if call.columns.reply_tos:
        check_reply_tos(queue, call.columns.reply_tos)
    header = header_of(state, queue, now_ms, call, full=full)
    if home is not None and len(header.enqueue.duplicates) < call.columns.count:
        check_may_enqueue(home, call.member)
    header.enqueue.macro_id = macro.queue_id
    header.enqueue.queue = queue.name
    return Fresh(header)


def _in_turn(
    state: State, now_ms: int, macro: MacroQueue, call: EnqueueCall, lines: Collection[int], turn: DealingTurns
) -> record_pb2.RecordHeader:
    def known(name: str) -> int:
        queue = _dealt_before(state, macro, name, state.at(now_ms))
        return queue.queue_id if queue is not None else 0

    return _dealt(state, now_ms, macro, call, deal_in_turn(macro, call, turn, known), lines)


def _turns(state: State, macro: MacroQueue, call: EnqueueCall, lines: Collection[int], far: FarView) -> DealingTurns:
    ids = macro.in_turn()
    if not far.away:
        return InTurn(state, call, ids, lines)
    near = [each for each in ids if each not in far.away]
    away = [each for each in ids if each in far.away]
    return Preferring(InTurn(state, call, near, lines), InTurn(state, call, away, lines))


def _weighed(header: record_pb2.RecordHeader, version: int) -> record_pb2.RecordHeader:
    """It says by which table, so that whoever applies it charges the members for it."""
    (header.txn.deal if header.HasField("txn") else header.enqueue).weighed = version
    return header


def _by_group(
    state: State, now_ms: int, macro: MacroQueue, call: EnqueueCall, lines: Collection[int], far: FarView
) -> record_pb2.RecordHeader:
    """M13: one group has one member, whatever that one can take, so that its order is kept."""
    if not macro.members:
        raise memberless(macro)
    columns = call.columns
    hashes = hashes_of(columns.group_ids, columns.count) if columns.group_ids else []
    places: dict[int, list[int]] = {}
    for ordinal, group in enumerate(hashes):
        if group:
            places.setdefault(macro.ring.home(group), []).append(ordinal)
    loose = [ordinal for ordinal, group in enumerate(hashes) if not group] if hashes else range(columns.count)
    if loose:
        queue, _ = _chosen(state, macro, replace(call, columns=columns.picked(loose)), lines, far)
        places[queue.queue_id] = sorted((*places.get(queue.queue_id, ()), *loose))
    if columns.dedup_ids:
        places = _by_ids(state, macro, call, state.at(now_ms), places)
    return _dealt(state, now_ms, macro, call, places, lines)


def _by_ids(
    state: State, macro: MacroQueue, call: EnqueueCall, time_ms: int, places: dict[int, list[int]]
) -> dict[int, list[int]]:
    """What a member was dealt before goes there again, and is found to be there."""
    homes: dict[int, list[int]] = {}
    for queue_id, ordinals in places.items():
        for ordinal in ordinals:
            home = _dealt_before(state, macro, call.columns.dedup_id(ordinal), time_ms)
            homes.setdefault(queue_id if home is None else home.queue_id, []).append(ordinal)
    return {queue_id: sorted(ordinals) for queue_id, ordinals in homes.items()}


def _dealt(
    state: State,
    now_ms: int,
    macro: MacroQueue,
    call: EnqueueCall,
    places: dict[int, list[int]],
    lines: Collection[int],
) -> record_pb2.RecordHeader:
    """One record, whose body is the batch as it came; that of one queue where one member has all of it."""
    if len(places) == 1:
        (queue_id,) = places
        header = entering(state, now_ms, call, state.queues[queue_id], full=queue_id in lines)
        header.enqueue.macro_id = macro.queue_id
        header.enqueue.queue = state.queues[queue_id].name
        return header
    txn = record_pb2.TxnOp(
        deal=record_pb2.DealOp(
            macro_id=macro.queue_id,
            client_id=call.client_id,
            first_sequence=call.first_sequence,
            count=call.columns.count,
        )
    )
    for queue_id, ordinals in places.items():
        part = replace(call, client_id=b"", first_sequence=0, columns=call.columns.picked(ordinals))
        op = entering(state, now_ms, part, state.queues[queue_id], full=queue_id in lines).enqueue
        op.macro_id, op.queue = macro.queue_id, state.queues[queue_id].name
        op.ordinals.extend(ordinals)
        txn.enqueues.append(op)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, txn=txn
    )


def _home_of_ids(state: State, macro: MacroQueue, call: EnqueueCall, time_ms: int) -> QueueState | None:
    """The member that was dealt a message with a dedup id of this batch: elsewhere it would enter a second time."""
    homes: dict[int, str] = {}
    for name in call.columns.dedup_ids:
        if (queue := _dealt_before(state, macro, name, time_ms)) is not None:
            homes.setdefault(queue.queue_id, name)
    if len(homes) > 1:
        where = " and ".join(f"{name!r} queue {state.queues[each].name}" for each, name in list(homes.items())[:2])
        text = f"macro queue {macro.name}: messages of this batch were sent before and entered different members"
        text = f"{text}, dedup id {where}; send them in batches of their own"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": macro.name})
    return state.queues[next(iter(homes))] if homes else None


def _dealt_before(state: State, macro: MacroQueue, name: str, time_ms: int) -> QueueState | None:
    """The member that knows this dedup id still."""
    queue = state.queues.get(macro.dealt.get(name, 0)) if name else None
    known = queue is not None and queue.dedup_ids and queue.dedup_ids.find(name, time_ms, queue.config)
    return queue if known else None


def _chosen(
    state: State,
    macro: MacroQueue,
    call: EnqueueCall,
    lines: Collection[int],
    far: FarView,
    ranked: Sequence[int] = (),
) -> tuple[QueueState, bool]:
    """The first one that takes all of it now; else the first that has any room; else the first, and that it is full:
    its entries are refused one by one, as a queue's are, so that what a producer has sent behind them follows them.
    """
    some: QueueState | None = None
    full: QueueState | None = None
    for queue in _in_order(state, macro, far, ranked):
        if call.member not in queue.open_members or not queue.config.enqueue_enabled:
            continue
        drops = queue.config.overflow == admin_pb2.OVERFLOW_DROP_HEAD
        if queue.queue_id in lines or (queue.length >= queue.config.max_length and not drops):
            full = full or queue
        elif _takes_all(queue, call):
            return queue, False
        else:
            some = some or queue
    if some is not None:
        return some, False
    if full is not None:
        return full, True
    if not macro.members:
        raise memberless(macro)
    raise nobody_takes(macro, call)


def _takes_all(queue: QueueState, call: EnqueueCall) -> bool:
    """Now, but for messages that it never takes for their size."""
    config, columns = queue.config, call.columns
    if config.overflow == admin_pb2.OVERFLOW_DROP_HEAD:
        return True
    fits = not config.max_bytes or queue.bytes + columns.payload_bytes <= config.max_bytes
    return fits and queue.length + columns.count <= config.max_length


def _in_order(state: State, macro: MacroQueue, far: FarView, ranked: Sequence[int]) -> Iterator[QueueState]:
    match macro.policy:
        case pb.MACRO_POLICY_SHORTEST_QUEUE | pb.MACRO_POLICY_BY_GROUP:
            lengths = far.lengths

            def rank(queue: QueueState) -> tuple[bool, int]:
                return queue.queue_id in far.away, queue.length + lengths.get(queue.queue_id, 0)

            return iter(sorted(queues_of(state, macro.members), key=rank))
        case _:
            ids = ranked or macro.by_priority()
            return queues_of(state, far.after_others(ids) if far.away else ids)

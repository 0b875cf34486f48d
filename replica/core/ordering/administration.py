"""Orders an administrator's call, or answers its repetition; the machine decides which actions fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from replica.core.state.calls import ReadMacros, ReadWeights
from replica.core.state.outcomes import MacrosDone, QueueDone, WeightsDone
from replica.machine import (
    AckBatchCall,
    AdvanceCall,
    AliasCall,
    BatchCall,
    DefaultsCall,
    DeleteWeightsCall,
    ForgetCall,
    MacroCall,
    ProxyCall,
    PublishWeightsCall,
    RegisterCall,
    RightCall,
)
from replica.machine.features import batches, macros, proxies, readers, rights, weights
from replica.machine.plan.names import plan_alias, plan_defaults
from replica.machine.plan.queue import plan_queue

if TYPE_CHECKING:
    from replica.core.ordering.desk import Desk
    from replica.core.ordering.saving import Saving
    from replica.core.state.calls import ReadCall, SideCall, Waiter
    from replica.machine import QueueCall
    from replica.machine.state.state import State
    from tandemq.peer.v1.record_pb2 import RecordHeader


def order_queue(orders: Desk, saving: Saving, waiter: Waiter, call: QueueCall) -> None:
    """Refused with nothing done, or answered when what it says is true on every copy."""
    machine = orders.machine
    found = machine.find_request(call.request_id, call.request_hash) if call.request_id else None
    if found is not None:
        done = QueueDone(call.name, found.removed, duplicate=True)
    else:
        header = plan_queue(machine.state, machine.member_names, orders.time_ms, call)
        if header.queue.save_below:
            saving.check_room(header.queue.queue_id)
        orders.order(header)
        saving.on_action(header.queue)
        done = QueueDone(call.name, header.queue.removed, duplicate=False)
        orders.parts.consumers.on_queue(header.queue.queue_id)
        orders.parts.consumers.pump([header.queue.queue_id])
    if not saving.holds(waiter, call, done):
        last = orders.shared.log.last_index
        orders.when_committed(last, lambda: orders.reply(waiter, done), orders.moved(waiter))


def order_beside(orders: Desk, waiter: Waiter, call: SideCall | ReadCall) -> None:
    """What stands beside the queues. Refused with nothing done where the plan says so."""
    done: QueueDone | WeightsDone | MacrosDone
    if isinstance(call, ReadWeights | ReadMacros):
        done = _read(orders, call)
    elif isinstance(call, BatchCall | AckBatchCall):  # a number is its own identity
        if isinstance(call, BatchCall) and orders.machine.state.kept:
            queue_id = orders.machine.queue_id(call.queue) or 0
            call = replace(call, wanted=orders.parts.kept.past(queue_id, call.wanted))
        ordered = _order(orders, call)
        done = QueueDone(call.queue, 0, duplicate=isinstance(call, AckBatchCall) and not ordered)
    else:
        found = orders.machine.find_request(call.request_id, call.request_hash)
        if found is None:
            _order(orders, call)
        if isinstance(call, MacroCall):
            orders.parts.consumers.on_macro(call.name)
            orders.steering.forget(orders.machine.state)
        done = QueueDone("", 0, duplicate=found is not None)
    orders.when_committed(orders.shared.log.last_index, lambda: orders.reply(waiter, done), orders.moved(waiter))


def _read(orders: Desk, call: ReadCall) -> WeightsDone | MacrosDone:
    state, time_ms = orders.machine.state, orders.time_ms
    if isinstance(call, ReadMacros):
        if call.name is None:
            return MacrosDone(*macros.page_of_macros(state, call.after, call.most))
        return MacrosDone([_steered(orders, call.name)])
    if call.table is None:
        return WeightsDone(weights.all_weights(state, time_ms))
    return WeightsDone([weights.table_as_of(state, time_ms, call.table)])


def _steered(orders: Desk, name: str) -> macros.ShownMacro:
    """With what its master knows of its members."""
    state, steering = orders.machine.state, orders.steering
    shown = macros.shown_weights(state, name, state.at(orders.time_ms))
    macro_id = state.macros.by_name[name].queue_id
    members = (each._replace(mean_ms=steering.mean_ms(macro_id, each.queue_id)) for each in shown.members)
    return shown._replace(members=tuple(members), choices=steering.choices(macro_id))


def _order(orders: Desk, call: SideCall) -> bool:
    """False: it is done without a record."""
    header = _plan(orders.machine.state, orders.time_ms, call)
    if header is not None:
        orders.order(header)
        orders.parts.consumers.pump(orders.touched)
    return header is not None


def _plan(state: State, now_ms: int, call: SideCall) -> RecordHeader | None:
    match call:
        case AliasCall():
            return plan_alias(state, now_ms, call)
        case DefaultsCall():
            return plan_defaults(state, now_ms, call)
        case RegisterCall():
            return readers.plan_register(state, now_ms, call)
        case AdvanceCall():
            return readers.plan_advance(state, now_ms, call)
        case ForgetCall():
            return readers.plan_forget(state, now_ms, call)
        case BatchCall():
            return batches.plan_batch(state, now_ms, call)
        case AckBatchCall():
            return batches.plan_ack_batch(state, now_ms, call)
        case PublishWeightsCall():
            return weights.plan_publish_weights(state, now_ms, call)
        case DeleteWeightsCall():
            return weights.plan_delete_weights(state, now_ms, call)
        case MacroCall():
            return macros.plan_macro(state, now_ms, call)
        case ProxyCall():
            return proxies.plan_proxy(state, now_ms, call)
        case RightCall():
            return rights.plan_right(state, now_ms, call)
        case _:
            assert_never(call)

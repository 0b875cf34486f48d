"""Orders an administrator's call, or answers its repetition; the machine decides which actions fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.outcomes import QueueDone

if TYPE_CHECKING:
    from replica.core.ordering.desk import Desk
    from replica.core.ordering.saving import Saving
    from replica.core.state.calls import NamesCall, QueueCall


def order_queue(orders: Desk, saving: Saving, call: QueueCall) -> None:
    """Refused with nothing done, or answered when what it says is true on every copy."""
    machine = orders.machine
    found = machine.find_request(call.request_id, call.request_hash) if call.request_id else None
    if found is not None:
        done = QueueDone(call.queue, found.removed, duplicate=True)
    else:
        header = machine.plan_queue(
            now_ms=orders.time_ms,
            action=call.action,
            name=call.queue,
            config=call.config,
            mask=call.mask,
            expected_version=call.expected_version,
            member=call.member,
            members=call.members,
            open_members=call.open_members,
            if_empty=call.if_empty,
            configuring=call.configuring,
            request_id=call.request_id,
            request_hash=call.request_hash,
        )
        if header.queue.save_below:
            saving.check_room(header.queue.queue_id)
        orders.order(header)
        saving.on_action(header.queue)
        done = QueueDone(call.queue, header.queue.removed, duplicate=False)
        orders.on_queue(header.queue.queue_id)
        orders.on_change([header.queue.queue_id])
    if not saving.holds(call, done):
        last = orders.shared.log.last_index
        orders.when_committed(last, lambda: orders.reply(call.waiter, done), orders.moved(call.waiter))


def order_names(orders: Desk, call: NamesCall) -> None:
    """An alias, the defaults, a reader, a numbered batch, weights. Refused with nothing done where the plan says so."""
    found = orders.machine.find_request(call.request_id, call.request_hash)
    if found is None:
        header = call.plan(orders.machine, orders.time_ms)
        if header is not None:
            orders.order(header)
            orders.on_change(orders.touched)
    done = QueueDone(call.queue, 0, duplicate=found is not None)
    waiter = call.waiter
    orders.when_committed(orders.shared.log.last_index, lambda: orders.reply(waiter, done), orders.moved(waiter))

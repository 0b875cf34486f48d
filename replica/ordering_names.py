"""Orders an administrator's call that is one record of its own kind, and answers it when that is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.outcomes import QueueDone

if TYPE_CHECKING:
    from replica.calls import NamesCall
    from replica.orders import Orders


def order_names(orders: Orders, call: NamesCall) -> None:
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

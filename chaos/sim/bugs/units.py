"""Bugs of units of work; plants them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import replica.core.ordering.orders
import replica.core.ordering.units
from chaos.sim.bugs.planting import Patch, bug
from replica.machine.plan.unit import plan_unit
from tandemq.peer.v1 import record_pb2

if TYPE_CHECKING:
    from collections.abc import Collection

    from replica.core.ordering.desk import Desk
    from replica.core.state.calls import Transact, Waiter
    from replica.machine import UnitCall
    from replica.machine.state.state import State

UNITS = "units"


@bug("unit-executed-twice", "U8", "A unit that is repeated is another one.", UNITS)
def units_are_not_remembered(patch: Patch) -> None:
    original, numbers = replica.core.ordering.units.order_unit, count(1)

    def order(orders: Desk, waiter: Waiter, asked: Transact, lines: Collection[int]) -> None:
        request_id = next(numbers).to_bytes(16, "big")
        original(orders, waiter, asked._replace(call=replace(asked.call, request_id=request_id)), lines)

    patch.setattr(replica.core.ordering.orders, "order_unit", order)


@bug("unit-in-two-records", "U2", "What a unit settles and what it sends are two records.", UNITS)
def settles_apart(patch: Patch) -> None:
    whole = replica.core.ordering.units.order_unit
    ordering: list[Desk] = []

    def order(orders: Desk, waiter: Waiter, asked: Transact, lines: Collection[int]) -> None:
        ordering[:] = [orders]
        whole(orders, waiter, asked, lines)

    def plan_rest(state: State, now_ms: int, call: UnitCall, full: Collection[int] = ()) -> record_pb2.RecordHeader:
        header = plan_unit(state, now_ms, call, full)
        for settle in header.txn.settles:
            ordering[0].order(record_pb2.RecordHeader(time_ms=header.time_ms, settle=settle))
        del header.txn.settles[:]
        return header

    patch.setattr(replica.core.ordering.units, "plan_unit", plan_rest)
    patch.setattr(replica.core.ordering.orders, "order_unit", order)


@bug("unit-number-forgotten", "U15", "A unit's number is not looked at, nor remembered.", UNITS)
def numbers_are_forgotten(patch: Patch) -> None:
    original = replica.core.ordering.units.order_unit

    def order(orders: Desk, waiter: Waiter, asked: Transact, lines: Collection[int]) -> None:
        original(orders, waiter, asked._replace(call=replace(asked.call, identity=None)), lines)

    patch.setattr(replica.core.ordering.orders, "order_unit", order)

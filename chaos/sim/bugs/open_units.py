"""Bugs of units of work that are open over several calls; plants them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import replica.core.ordering.open_units
from chaos.sim.bugs.planting import Patch, bug
from replica.core.messages.bodies import columns_without_properties
from replica.core.ordering.open_units import OpenUnits, UnitEnding
from replica.core.ordering.units import order_unit
from replica.machine import EnqueueCall, Fresh, Machine
from replica.machine.plan.enqueue import plan_enqueue
from replica.machine.plan.open_unit import plan_end
from tandemq.v1.queue_service_pb2 import EnqueueBatch, EnqueueRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from replica.core.ordering.desk import Desk
    from replica.core.ordering.open_unit import OpenUnit
    from replica.core.state.calls import PutInUnit, Transact, Waiter
    from replica.machine.state.state import State
    from tandemq.peer.v1 import record_pb2

UNITS = "units"


@bug("units-outlive-their-master", "U10", "What a unit has locked stays locked after a takeover.", UNITS)
def role_records_name_no_leases(patch: Patch) -> None:
    def none(_machine: Machine) -> list[int]:
        return []

    patch.setattr(Machine, "unit_leases", none)


@bug("rollback-not-counted", "U9", "A rollback does not count as a delivery.", UNITS)
def rollbacks_are_releases(patch: Patch) -> None:
    def end(state: State, now_ms: int, unit_id: bytes, lease_ids: Iterable[int]) -> record_pb2.RecordHeader | None:
        header = plan_end(state, now_ms, unit_id, lease_ids)
        for settle in header.txn.settles if header is not None else ():
            for effect in settle.effects:
                effect.backout = False
        return header

    patch.setattr(replica.core.ordering.open_units, "plan_end", end)


@bug("put-before-commit", "U4", "What is put in a unit enters its queue at once.", UNITS)
def puts_enter(patch: Patch) -> None:
    def put(units: OpenUnits, call: PutInUnit) -> bool:
        rows = EnqueueRequest.FromString(call.request).messages
        batch = EnqueueBatch(queue=call.queue, messages=columns_without_properties(rows))
        enqueue = EnqueueCall(call.queue, b"", 0, call.columns, call.member, call.request_id, call.request_hash)
        plan = plan_enqueue(units.orders.machine.state, units.orders.time_ms, enqueue)
        if isinstance(plan, Fresh):
            units.orders.order(plan.header, batch.SerializeToString())
        return isinstance(plan, Fresh)

    patch.setattr(OpenUnits, "_put", put)


@bug("commit-forgotten", "U11", "A commit that is repeated hears that nothing happened.", UNITS)
def commits_are_not_remembered(patch: Patch) -> None:
    numbers = count(1)

    def order(
        orders: Desk,
        waiter: Waiter,
        asked: Transact,
        lines: Collection[int],
        on_ordered: Callable[[], None] | None = None,
    ) -> None:
        request_id = next(numbers).to_bytes(16, "big")
        changed = asked._replace(call=replace(asked.call, request_id=request_id))
        order_unit(orders, waiter, changed, lines, on_ordered)

    patch.setattr(replica.core.ordering.open_units, "order_unit", order)


@bug("commit-executed-twice", "U11", "A commit that is repeated puts its messages once more.", UNITS)
def commits_leave_their_units_open(patch: Patch) -> None:
    original = OpenUnits._forget  # what is taken out

    def forget(units: OpenUnits, unit: OpenUnit, how: UnitEnding) -> None:
        if how != UnitEnding.COMMITTED:
            original(units, unit, how)
            return
        units.gets -= len(unit.lease_ids)
        for done in (unit.got, unit.settles, unit.replies, unit.reactions):
            done.clear()

    commits_are_not_remembered(patch)
    patch.setattr(OpenUnits, "_forget", forget)

"""Bugs of tables of routing weights; plants them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import replica.machine.features.weights
from chaos.sim.bugs.planting import Patch, bug
from replica.core.state.calls import ReadWeights
from replica.core.state.outcomes import WeightsDone
from replica.machine.features.weights import all_weights, table_as_of
from tandemq.peer.v1.record_pb2 import WEIGHTS_ACTION_DELETE, WeightsOp

if TYPE_CHECKING:
    from replica.core.ordering.desk import Desk
    from replica.core.state.calls import SideCall, Waiter


@bug("weights-forgotten-at-takeover", "T1", "A new master forgets the tables of routing weights.", "weights")
def weights_are_forgotten_at_takeover(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module._role

    def role(state: Any, time_ms: int) -> Any:
        state.weights.clear()
        return original(state, time_ms)

    patch.setattr(module, "_role", role)


@bug("weights-over-any-version", "T2", "A publisher that has read an older table replaces a newer one.", "weights")
def weights_over_any_version(patch: Patch) -> None:
    patch.setattr(replica.machine.features.weights, "_check_version", lambda _name, _version, _expected: None)


@bug("weights-version-again", "T2", "After a deletion the versions of tables are given once more.", "weights")
def weights_version_again(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module.apply_weights

    def apply_weights(state: Any, time_ms: int, op: WeightsOp) -> None:
        original(state, time_ms, op)
        if op.action == WEIGHTS_ACTION_DELETE:
            state.weights_version = 0

    patch.setattr(module, "apply_weights", apply_weights)


@bug(
    "weights-told-uncommitted",
    "T3",
    "A table is told before it is on every copy that must have it.",
    "weights",
    first=19,
)
def weights_are_told_uncommitted(patch: Patch) -> None:
    module: Any = import_module("replica.core.ordering.orders")
    original = module.order_beside

    def order_beside(orders: Desk, waiter: Waiter, call: SideCall | ReadWeights) -> None:
        if not isinstance(call, ReadWeights):
            original(orders, waiter, call)
            return
        state, time_ms = orders.machine.state, orders.time_ms
        orders.reply(
            waiter,
            WeightsDone([table_as_of(state, time_ms, call.table)] if call.table else all_weights(state, time_ms)),
        )

    patch.setattr(module, "order_beside", order_beside)

"""Each rule of queues with sides that a script shows is worth something: taken out, its text script fails.

`Kn`: the rules of docs/PROTOCOL.md on sides; the others are held by the tests that its table names.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

import replica.core.ordering.units
import replica.node.asking
from chaos.sim.bugs.planting import Patch
from chaos.sim.bugs.sides import drops_for_the_faster, forgets_at_a_takeover, gives_all_it_has, selects_by_each_side
from replica.machine.plan.unit import UnitCall
from replica.machine.state.selection import SideOrder
from replica.machine.state.state import State
from replica.node.asking import Asks
from tandemq.peer.v1.record_pb2 import RecordHeader
from tests.support.asking import told
from tests.test_rules import Rule, removed


def selected_is_valid_at_once(patch: Patch) -> None:
    """Whether its record is committed or not."""
    patch.setattr(SideOrder, "visible", property(lambda order: order.following - 1, lambda _order, _number: None))


def the_replicas_side_asks_nobody(patch: Patch) -> None:
    patch.setattr(Asks, "on_beat", lambda _asks, _domain, _asked: None)


def questions_are_added_up(patch: Patch) -> None:
    """Both sides are given what either has asked for."""
    patch.setattr(replica.node.asking, "max", lambda own, peer: own + peer, raising=False)


def units_have_no_number(patch: Patch) -> None:
    """Known by their requests alone, as other units."""
    plan = replica.core.ordering.units.plan_unit

    def plan_unit(state: State, now_ms: int, call: UnitCall, full: Collection[int] = ()) -> RecordHeader:
        return plan(state, now_ms, replace(call, identity=None), full)

    patch.setattr(replica.core.ordering.units, "plan_unit", plan_unit)


RULES = (
    Rule("k2_nothing_beyond_the_commit", "sides/select", gives_all_it_has, "3 is higher at a, and was middle"),
    Rule("k3_valid_when_committed", "sides/select", selected_is_valid_at_once, "3 is higher at a, and was middle"),
    Rule("k3_one_order", "sides/select", selects_by_each_side, r"what was acted on: \['middle'\]"),
    Rule("k3_a_takeover_leaves_it", "sides/select", forgets_at_a_takeover, "2 is low at b, and was high"),
    Rule("k3_the_replica_asks", "sides/select", the_replicas_side_asks_nobody, "2 is not chosen at a", heed=True),
    Rule("k3_the_furthest_counts", "sides/furthest", questions_are_added_up, "3 is three, at both", heed=True),
    Rule("k6_both_have_passed", "sides/a_day_away", drops_for_the_faster, "b gives 4 behind 1"),
    Rule("k8_numbers_of_outputs", "sides/a_day_away", units_have_no_number, "of the outputs there are"),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_script_fails_without_the_rule(rule: Rule) -> None:
    with removed(rule), pytest.raises(AssertionError, match=rule.breaks):
        told(rule.script, heed=rule.heed)

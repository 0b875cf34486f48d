"""Shrinking keeps what a failure needs, drops the rest, and never ends with a plan that does not fail."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from chaos.sim.pair.plan import Fault, Outcome, Plan
from chaos.sim.tools.shrink import Progress, finding_of, kind_of, minimise, shrink, simpler_values
from tests.sim.stories import plan_of, run_by

LOST = "lost acknowledged: p1 enqueue 12"


def two_crashes(plan: Plan) -> list[str]:
    """Needs a crash of a, later one of b, and two calls of p1 at least."""
    crashes = [fault.target for fault in plan.faults if fault.kind == "crash"]
    calls = sum(len(client.calls) for client in plan.clients if client.name == "p1")
    return [LOST] if "a" in crashes and "b" in crashes[crashes.index("a") :] and calls >= 2 else []


FAILING = replace(
    plan_of(),
    faults=tuple(
        Fault(113 + 421 * number, kind, target, {"ms": 737})
        for number, (kind, target) in enumerate(itertools.product(("pause", "crash", "cut", "crash"), "ab"))
    ),
)


def test_what_is_not_needed_goes() -> None:
    smallest = shrink(FAILING, run_by(two_crashes), budget=2_000)
    assert [(fault.kind, fault.target) for fault in smallest.faults] == [("crash", "a"), ("crash", "b")]
    assert [(client.name, len(client.calls)) for client in smallest.clients] == [("p1", 2)]
    assert [fault.at_ms for fault in smallest.faults] == [0, 0]
    assert [fault.args for fault in smallest.faults] == [{"ms": 0}, {"ms": 0}]
    calls = [call for client in smallest.clients for call in client.calls]
    assert [(call.at_ms, call.args) for call in calls] == [(0, {"bytes": 0, "member": ""})] * 2
    assert [client.args for client in smallest.clients] == [{"number": 2}], "who it is stays"
    assert smallest.settings == {}
    assert 0 < smallest.safety_ms <= 10
    assert (smallest.seed, smallest.profile) == (FAILING.seed, FAILING.profile)


@pytest.mark.parametrize("budget", [1, 2, 5, 17, 60, 300])
def test_whatever_the_budget_the_answer_fails_and_no_more_runs_are_made(budget: int) -> None:
    runs: list[Plan] = []

    def run(plan: Plan) -> Outcome:
        runs.append(plan)
        return Outcome(plan, two_crashes(plan))

    smallest = shrink(FAILING, run, budget)
    assert two_crashes(smallest) == [LOST]
    assert len(runs) <= budget
    assert smallest in runs
    assert len({plan.to_json() for plan in runs}) == len(runs), "no plan is run twice"


def test_it_is_the_same_every_time() -> None:
    assert len({shrink(FAILING, run_by(two_crashes), 500).to_json() for _ in range(3)}) == 1


def test_another_violation_does_not_count() -> None:
    def rule(plan: Plan) -> list[str]:
        return two_crashes(plan) or ["stuck: nobody serves"]

    smallest = shrink(FAILING, run_by(rule), 2_000)
    assert rule(smallest) == [LOST]
    assert len(smallest.faults) == 2


def test_the_same_violation_counts_whatever_else_is_shown_and_whom_it_struck() -> None:
    def rule(plan: Plan) -> list[str]:
        return ["stuck: nobody serves", f"lost acknowledged: {len(plan.faults)}"] if len(plan.faults) < 8 else [LOST]

    assert shrink(FAILING, run_by(rule), 2_000).faults == ()
    assert kind_of("lost acknowledged: 1: 2") == "lost acknowledged"


@pytest.mark.parametrize(
    ("shown", "other"),
    [
        ("process failed: b: AssertionError('index 7 of 12')", "process failed: a: KeyError(3)"),
        ("client failed: c1: AssertionError('got 3')", "client failed: c1: TypeError('got 3')"),
        ("stuck: not done: ['c1']; a MASTER 3", "stuck: the queues are not drained: a MASTER 3"),
        ("problem: Link.run of a failed and nobody asked: KeyError(3)", "problem: None: KeyError(3)"),
    ],
)
def test_where_no_invariant_is_named_another_failure_of_the_same_kind_does_not_count(shown: str, other: str) -> None:
    assert kind_of(shown) == kind_of(other)
    smallest = shrink(FAILING, run_by(lambda plan: [shown] if two_crashes(plan) else [other]), 2_000)
    assert len(smallest.faults) == 2
    assert two_crashes(smallest)


def test_whom_a_failure_struck_and_its_numbers_may_be_others() -> None:
    first, second = "process failed: a: KeyError(3)", "process failed: b: KeyError(77)"
    assert shrink(FAILING, run_by(lambda plan: [first if two_crashes(plan) else second]), 2_000).faults == ()
    one, two = "stuck: not done: ['c1', 'p2']; a MASTER 3", "stuck: not done: ['p1']; b REPLICA 4"
    assert finding_of(one) == finding_of(two)


def test_a_plan_that_was_kept_for_an_invariant_goes_on_showing_it_whatever_else_it_shows_first() -> None:
    def rule(plan: Plan) -> list[str]:
        return ["stuck: nobody serves", *two_crashes(plan)]

    assert len(shrink(FAILING, run_by(rule), 2_000, wanted="lost acknowledged").faults) == 2
    assert shrink(FAILING, run_by(rule), 2_000, wanted="shown no more").faults == ()


def test_a_plan_that_cannot_be_carried_out_is_passed_over() -> None:
    def rule(plan: Plan) -> list[str]:
        if any(fault.args["ms"] == 0 for fault in plan.faults):
            raise ValueError("a crash lasts at least 1 ms")
        return two_crashes(plan)

    smallest = shrink(FAILING, run_by(rule), 2_000)
    assert [fault.args for fault in smallest.faults] == [{"ms": 1}, {"ms": 1}]


def test_times_become_earlier_and_round_and_keep_their_order() -> None:
    def rule(plan: Plan) -> list[str]:
        times = [fault.at_ms for fault in plan.faults]
        return [LOST] if len(times) >= 2 and times[-1] - times[0] >= 333 and times == sorted(times) else []

    smallest = shrink(FAILING, run_by(rule), 2_000)
    assert [fault.at_ms for fault in smallest.faults] == [0, 400]
    assert smallest.safety_ms <= 1_000


def test_no_fault_is_left_to_strike_when_all_is_healed() -> None:
    """It would never be undone, and the run would be stuck for that."""
    runs: list[Plan] = []

    def run(plan: Plan) -> Outcome:
        runs.append(plan)
        return Outcome(plan, [LOST])

    assert shrink(FAILING, run, 500).safety_ms <= 10
    assert all(fault.at_ms < plan.safety_ms for plan in runs for fault in plan.faults)


def test_a_plan_that_shows_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to shrink"):
        shrink(FAILING, run_by(lambda _: []), 10)


def test_progress_is_told_after_every_run() -> None:
    told: list[Progress] = []
    shrink(FAILING, run_by(two_crashes), 20, told.append)
    assert [progress.runs for progress in told] == list(range(2, 21))
    assert told[-1].faults <= told[0].faults
    assert told[0].step == "faults"


@pytest.mark.parametrize("needed", [(), (0,), (19,), (3, 4), (0, 10, 19), tuple(range(20))])
def test_minimise_keeps_exactly_what_is_needed(needed: tuple[int, ...]) -> None:
    assert minimise(range(20), lambda parts: set(needed) <= set(parts)) == needed


def test_minimise_ends_where_no_part_can_go_alone() -> None:
    """Three of any kind are needed: it need not be the first three."""
    assert len(minimise(range(50), lambda parts: len(parts) >= 3)) == 3


def test_values_never_become_harder() -> None:
    assert simpler_values(True) == [False]
    assert simpler_values(False) == []
    assert simpler_values(1234) == [0, 1, 617, 1000, 1200, 1230]
    assert simpler_values(-70) == [-50, -35, 0, 1]
    assert simpler_values(0.25) == [0.0, 0.2]
    assert simpler_values("b") == [""]
    assert simpler_values(0) == simpler_values("") == []

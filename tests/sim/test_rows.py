"""Rows of the failure matrix that processes cannot show: one fault at every moment of what it can fall into.

Each row runs its grid (`tests.sim.grids`; all of it with `-m long`) on the product as it is, and then until the first
violation without what protects it (P1: the register compares the whole record).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

import replica.node.loop
from chaos.sim.pair.plan import Outcome, Plan
from tandemq.ambient import wall_ms
from tests.sim import grids

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


SAMPLES = [pytest.param(5, id="sample"), pytest.param(1, id="all", marks=pytest.mark.long)]
"""Every fifth plan of a grid; grids sweep times innermost, so that this takes of everything."""
each_step = pytest.mark.parametrize("step", SAMPLES)


def _run(plans: Iterator[Plan], step: int) -> list[Outcome]:
    return list(grids.run_all(islice(plans, 0, None, step)))


def _finds(plans: Iterator[Plan], bug: str, place: int = 0) -> bool:
    """`place`: of a plan that shows it, with which it begins; those before it come last."""
    grid = list(plans)
    turned = (*grid[place:], *grid[:place])
    return any(outcome.violations for outcome in grids.run_all(replace(each, bug=bug) for each in turned))


@each_step
def test_a_clock_that_steps_in_the_middle_of_a_claim_or_handoff_ends_no_lease(step: int) -> None:
    """And keeps none: what its consumer dropped is offered again in its time."""
    outcomes = _run(grids.clock_steps(), step)
    assert grids.broken(outcomes) == []
    assert {outcome.counters["leases ended"] for outcome in outcomes} == {1}
    assert all(outcome.counters["fault.clock"] == 1 for outcome in outcomes)


def test_a_domain_that_went_by_the_wall_clock_would_end_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica.node.loop.DomainClock, "now_ms", lambda _self: wall_ms())
    for forward in (True, False):
        plans = [each for each in grids.clock_steps() if (int(each.faults[-1].args["by_ms"]) > 0) is forward]
        assert any(outcome.violations or outcome.counters["leases ended"] != 1 for outcome in grids.run_all(plans)), (
            forward
        )


@each_step
def test_power_lost_at_any_moment_at_one_member_or_both_loses_nothing(step: int) -> None:
    outcomes = _run(grids.power_losses(), step)
    assert grids.broken(outcomes) == []
    assert all(outcome.counters["fault.crash"] == len(outcome.plan.faults) for outcome in outcomes)


@pytest.mark.parametrize(
    ("bug", "place"), [("ack-before-own-fsync", 0), ("ack-before-replica", 0), ("replica-answers-by-own-fsync", 84)]
)
def test_power_lost_is_seen_where_an_answer_does_not_wait_for_both_disks(bug: str, place: int) -> None:
    assert _finds(grids.power_losses(), bug, place)


@each_step
def test_whichever_commit_fails_its_process_ends_and_nothing_is_lost(step: int) -> None:
    outcomes = _run(grids.failed_syncs(), step)
    assert grids.broken(outcomes) == []
    assert all(outcome.counters["ended"] == 1 for outcome in outcomes), "each of them met a commit"


def test_a_process_that_goes_on_after_a_failed_sync_is_seen() -> None:
    assert _finds(grids.failed_syncs(), "failed-fsync-goes-on")


@each_step
def test_a_set_of_the_register_that_lands_late_changes_nothing(step: int) -> None:
    """A claim, a commit, an addition: while its author waits, after it has started again, epochs later, days later."""
    outcomes = _run(grids.late_sets(), step)
    assert grids.broken(outcomes) == []
    assert any(outcome.counters["sets that landed at the end"] for outcome in outcomes)
    assert {outcome.counters.get("fault.crash", 0) for outcome in outcomes} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("bug", "place"), [("unknown-is-done", 110), ("left-over-claim-stays", 3), ("failed-add-forgets", 56)]
)
def test_a_late_set_is_seen_where_no_answer_means_an_answer(bug: str, place: int) -> None:
    assert _finds(grids.late_sets(), bug, place)


def test_a_late_set_is_seen_where_the_whole_record_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("failover.authority.check_set", lambda _current, _expected, _desired: None)
    assert _finds(grids.late_sets(), "")

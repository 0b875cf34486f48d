"""Every row of the handoff table, and something that goes wrong right after it: both members end as one pair again.

One master, nothing acknowledged lost, no epoch with two owners, no call and no caller forgotten (P15-P19, invariants 11
and 17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from failover.handoff import TABLE
from tests.support.handing import FAULTS, SCENARIOS, Run, Steps, both_at_once, disks_are_slow, master_hands_over

Scenario = Callable[[Run], Steps]
EVERY_STEP: tuple[Scenario, ...] = (master_hands_over, disks_are_slow, both_at_once)
"""Interrupted after every small step, in `test-all`; the others only after those that took a row."""


def rows_by_step(scenario: Scenario) -> list[set[tuple[str, str]]]:
    """What each small step of an undisturbed run took of the table; the run ends well."""
    run = Run()
    rows = run.pair.handoff_rows
    found, seen = [], 0
    for _ in scenario(run):
        found.append({(state, event) for _, state, event in rows[seen:]})
        seen = len(rows)
    run.ends_well()
    return found


def interrupted(scenario: Scenario, step: int, fault: Callable[[Run], None]) -> None:
    run = Run()
    for at, _ in enumerate(scenario(run)):
        if at == step:
            break
    fault(run)
    run.ends_well()


def interrupted_after(scenario: Scenario, steps: Iterable[tuple[int, set[tuple[str, str]]]]) -> None:
    for step, rows in steps:
        for name, fault in FAULTS.items():
            try:
                interrupted(scenario, step, fault)
            except AssertionError as error:
                raise AssertionError(f"{name} after step {step} ({rows}): {error}") from error


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_interrupted_right_after_a_row(scenario: Scenario) -> None:
    interrupted_after(scenario, [(step, rows) for step, rows in enumerate(rows_by_step(scenario)) if rows])


@pytest.mark.wide
@pytest.mark.parametrize("scenario", EVERY_STEP, ids=lambda scenario: scenario.__name__)
def test_interrupted_after_a_step_that_took_no_row(scenario: Scenario) -> None:
    interrupted_after(scenario, [(step, rows) for step, rows in enumerate(rows_by_step(scenario)) if not rows])


def test_every_row_is_interrupted() -> None:
    found = {row for scenario in SCENARIOS for rows in rows_by_step(scenario) for row in rows}
    assert {(state.name, event.name) for state, event in TABLE} - found == set()

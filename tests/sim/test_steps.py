"""Two faults and the steps of a promotion or a handoff, in each order, at each pair of steps, with the real log.

A sample by default; all of it (17,640 runs, eight minutes on a core) with `-m long`, or `make sim-steps`. The profile
"steps" draws three faults at times of its own.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from tests.sim import grids
from tests.test_handoff_rules import alone_by_a_handoff

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PARTS = 8


@pytest.mark.parametrize("trigger", ["promotion", "handoff"])
def test_two_faults_at_the_steps_of_a_promotion_or_handoff(trigger: str) -> None:
    plans = islice(grids.two_faults(handoff=trigger == "handoff"), 0, None, 113)
    outcomes = list(grids.run_all(plans))
    assert grids.broken(outcomes) == []
    struck = {name for outcome in outcomes for name in outcome.counters if name.startswith("fault.")}
    needed = {f"fault.{kind}" for kind, _, _ in grids.PAIRED_WITH}
    # Where the master is dead, its connections have been reset already.
    assert struck >= (needed if trigger == "handoff" else needed - {"fault.reset"})
    if trigger == "handoff":
        assert {outcome.counters.get("handoffs.done", 0) for outcome in outcomes} == {0, 1}, (
            "some break it, some do not"
        )


@pytest.mark.long
@pytest.mark.parametrize("trigger", ["promotion", "handoff"])
@pytest.mark.parametrize("part", range(PARTS))
def test_all_pairs_of_faults_at_all_pairs_of_steps(trigger: str, part: int) -> None:
    plans = islice(grids.two_faults(handoff=trigger == "handoff"), part, None, PARTS)
    assert grids.broken(grids.run_all(plans)) == []


@pytest.mark.parametrize(
    ("bug", "seed"), [("serve-before-commit", 4743), ("failed-add-forgets", 403), ("publish-before-require", 0)]
)
def test_two_faults_in_a_promotion_show_a_rule_that_is_gone(bug: str, seed: int) -> None:
    """`seed`: the place in the grid of one plan that does."""
    (given,) = islice(grids.two_faults(handoff=False), seed, seed + 1)
    assert grids.run(replace(given, bug=bug)).violations


def test_two_faults_in_a_handoff_show_a_rule_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """P18: what the register does not name is required all the same."""
    (given,) = islice(grids.two_faults(handoff=True), 4062, 4063)
    assert grids.run(given).violations == []
    alone_by_a_handoff(monkeypatch)
    assert grids.run(given).violations

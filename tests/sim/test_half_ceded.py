"""A master dies while the promise of its handoff is written: each epoch has one owner, if nobody had heard so before.

P15. Its peer reaches neither it nor the register meanwhile, and it is back soon. Whether the promise is on its disk
then is for chance to say, hence several seeds.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.sim.pair.plan import Fault, Outcome
from chaos.sim.tools.product import run
from tests.sim import grids

pytestmark = pytest.mark.slow
SEEDS = range(1, 9)
LOST = "a promise lost in a crash"


def died(seed: int, *, at_ms: int = grids.TRIGGER_MS - 10, bug: str = "") -> Outcome:
    fault = Fault(at_ms, "half_ceded", "ab", {"hold_ms": 5, "down_ms": 20, "for_ms": 1_500})
    return run(replace(grids.plan([fault], handoff=True, seed=seed, safety_ms=2_500), bug=bug))


def test_a_promise_that_dies_with_its_author_or_does_not_breaks_nothing() -> None:
    outcomes = [died(seed) for seed in SEEDS]
    assert grids.broken(outcomes) == []
    assert {outcome.counters["fault.half_ceded"] for outcome in outcomes} == {1}
    lost = [outcome for outcome in outcomes if LOST in outcome.coverage]
    assert 0 < len(lost) < len(outcomes), "some disks had it, some had not"


def test_a_promise_that_was_told_before_it_was_written_gives_one_number_to_two() -> None:
    outcomes = [died(seed, bug="ack-before-ceded") for seed in SEEDS]
    for outcome in outcomes:
        two = any(line.startswith("one owner of an epoch") for line in outcome.violations)
        assert two == (LOST in outcome.coverage), outcome.violations
    assert any(LOST in outcome.coverage for outcome in outcomes)


def test_it_is_counted_only_where_somebody_ceded() -> None:
    outcome = died(1, at_ms=grids.TRIGGER_MS + 300)
    assert outcome.violations == []
    assert "fault.half_ceded" not in outcome.counters

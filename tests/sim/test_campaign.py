"""What a campaign shows does not depend on how many processes worked on it; it stops early and names what failed."""

from __future__ import annotations

import gc

import pytest

from chaos.sim.pair.plan import Outcome, Plan
from chaos.sim.tools.campaign import Campaign, Result, Works, results
from tests.sim.stories import draw, run, run_breaks

pytestmark = pytest.mark.wide
WORKS = Works(draw, run)


def last(campaign: Campaign, jobs: int, works: Works = WORKS) -> Result:
    *_, result = results(works, campaign, jobs)
    return result


@pytest.mark.slow
@pytest.mark.process
def test_the_number_of_processes_changes_nothing() -> None:
    campaign = Campaign(("x", "y", "z"), 130, first_seed=7, max_failures=8, chunk_seeds=6)
    tallies = [last(campaign, jobs).tally for jobs in (0, 1, 3)]
    assert tallies[0] == tallies[1] == tallies[2]
    assert tallies[0].seeds == 78, "the chunk in which the eighth failure was is the last one"


def test_it_stops_after_so_many_failures() -> None:
    result = last(Campaign(("x",), 1_000, max_failures=3, chunk_seeds=10), 0)
    assert result.stopped_early
    assert result.tally.seeds == 30
    assert [failure.number for failure in result.tally.failures] == [10, 20, 30]


def test_what_the_process_had_set_aside_stays_so() -> None:
    """Whoever runs tests has, and the collector would look through all of it again after the first campaign."""
    collects: list[bool] = []

    def looks(plan: Plan) -> Outcome:
        collects.append(gc.isenabled())
        return run(plan)

    gc.freeze()
    before = gc.get_freeze_count()
    last(Campaign(("x",), 3, max_failures=99), 0, Works(draw, looks))
    assert (collects, gc.isenabled()) == ([False] * 3, True)
    assert gc.get_freeze_count() > before // 2, "what has gone meanwhile is not counted"


def test_all_seeds_are_run_when_the_last_share_is_smaller() -> None:
    result = last(Campaign(("x",), 47, max_failures=99), 0)
    assert (result.tally.seeds, result.stopped_early) == (47, False)


def test_a_run_is_known_by_seed_and_profile() -> None:
    campaign = Campaign(("x", "y", "z"), 100, first_seed=1)
    assert [(campaign.plan(WORKS, n).seed, campaign.plan(WORKS, n).profile) for n in (0, 1, 5)] == [
        (1, "x"),
        (2, "y"),
        (6, "z"),
    ]
    assert Campaign(("x",), 1, bug="early_ack").plan(WORKS, 0).bug == "early_ack"


@pytest.mark.parametrize("jobs", [0, pytest.param(2, marks=[pytest.mark.slow, pytest.mark.process])])
def test_a_fault_of_the_simulator_says_how_to_repeat_it(jobs: int) -> None:
    with pytest.raises(KeyError) as caught:
        last(Campaign(("x",), 20), jobs, Works(draw, run_breaks))
    assert "python -m chaos.sim run --seed 1 --profile x" in caught.value.__notes__[0]

"""A campaign is invalid when it had too little traffic, too few faults of a kind, or never met a named point."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from chaos.sim.draw import profiles
from chaos.sim.tools.campaign import Campaign, Works, results
from chaos.sim.tools.product import of_product
from chaos.sim.tools.tally import FLOORS, KIND_FLOOR, Floor, Tally, floors
from tests.sim.stories import draw, run

WORKS = Works(draw, run)


def tally(seeds: int, chunk_seeds: int = 20) -> Tally:
    *_, last = results(WORKS, Campaign(("x", "y"), seeds, max_failures=10**9, chunk_seeds=chunk_seeds), 0)
    return last.tally


def test_the_sum_is_of_all_runs() -> None:
    total = tally(200)
    assert (total.seeds, total.steps, total.virtual_ms) == (200, 20_000, 800_000)
    assert total.counters["calls"] == 12_000
    assert sum(total.faults().values()) == 200 * 8
    assert total.by_profile == {"x": 100, "y": 100}
    assert [failure.seed for failure in total.failures] == list(range(10, 201, 10))
    assert total.coverage == {"common": 200, "rare": 2}


def full() -> Tally:
    """What just reaches every floor in 3,000 seeds."""
    counters = Counter({floor.patterns[0].replace("*", "x"): floor.count for floor in FLOORS})
    return Tally(seeds=3_000, counters=counters, coverage=Counter({"point": 1}))


def test_just_enough_is_enough() -> None:
    assert full().shortfalls(["point"]) == []


@pytest.mark.parametrize("floor", FLOORS, ids=lambda floor: floor.name)
def test_one_too_few_of_any_kind_is_told(floor: Floor) -> None:
    total = full()
    total.counters[floor.patterns[0].replace("*", "x")] -= 1
    assert [line.partition(":")[0] for line in total.shortfalls([])] == [floor.name]


def test_a_point_that_no_run_met_is_told() -> None:
    assert full().shortfalls(["point", "other"]) == ["never met: other"]


def test_every_kind_of_fault_has_a_floor_of_its_own() -> None:
    total = full()
    total.counters["fault.crash"] = 5_000
    total.counters["fault.new_kind"] = KIND_FLOOR - 1
    assert total.shortfalls([], floors(["crash", "new_kind"])) == ["fault new_kind: 14 of at least 15 in 3,000 seeds"]


def test_floors_grow_with_the_seeds_and_are_not_asked_of_few() -> None:
    total = full()
    total.seeds = 6_000
    assert len(total.shortfalls([])) == len(FLOORS)
    assert Tally(seeds=499).shortfalls([]) == []
    assert len(Tally(seeds=500).shortfalls([])) == len(FLOORS)


def test_below_3000_seeds_a_floor_leaves_three_standard_deviations_to_chance() -> None:
    rare = [Floor("rare", ("rare",), 75)]
    assert Tally(seeds=1_000, counters=Counter({"rare": 10})).shortfalls([], rare) == []
    assert Tally(seeds=1_000, counters=Counter({"rare": 9})).shortfalls([], rare) == [
        "rare: 9 of at least 10 in 1,000 seeds"
    ]
    assert len(Tally(seeds=3_000, counters=Counter({"rare": 74})).shortfalls([], rare)) == 1


def test_points_are_asked_for_from_3000_seeds_on() -> None:
    assert Tally(seeds=2_999).shortfalls(["point"], []) == []
    assert Tally(seeds=3_000).shortfalls(["point"], []) == ["never met: point"]


def test_a_different_run_changes_the_hash() -> None:
    one, other = Tally(), Tally()
    outcome = run(draw("x", 1))
    one.add(1, outcome)
    other.add(1, replace(outcome, trace_hash="another"))
    assert one.trace_hash != other.trace_hash


def test_profiles_draw_half_as_many_faults_again_as_the_floors_ask_for() -> None:
    """Some find nothing to strike: else chance would decide whether a campaign that found nothing is valid."""
    names = profiles.OF_ALL
    plans = [profiles.draw(names[number % len(names)], 1 + number) for number in range(1_000)]
    drawn = Counter(f"fault.{fault.kind}" for plan in plans for fault in plan.faults)
    of_faults = [floor for floor in FLOORS if floor.patterns[0].startswith("fault.")]
    assert len(of_faults) == 5
    short = {floor.name: floor.reached(drawn) for floor in of_faults if floor.reached(drawn) < floor.count * 1.5 / 3}
    assert short == {}


def test_a_campaign_over_all_asks_for_the_kinds_that_it_draws_and_for_no_others() -> None:
    """Nothing hangs, and no other manager takes an address, but in profile "proxies", whose points say so."""
    names = profiles.OF_ALL
    plans = [profiles.draw(names[number % len(names)], 1 + number) for number in range(1_000)]
    assert {fault.kind for plan in plans for fault in plan.faults} == set(profiles.KINDS_OF_ALL)
    assert of_product().kinds == profiles.KINDS_OF_ALL
    beside = {fault.kind for seed in range(100) for fault in profiles.draw("proxies", seed).faults}
    assert beside - set(profiles.KINDS_OF_ALL) == {"hang", "impostor"}

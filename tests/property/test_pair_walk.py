"""Random walks of a pair. The name of a failing test has its seed: `python -m tests.support.walk SEED` repeats it."""

from __future__ import annotations

import pytest

from tests.support.walk import Walk

SEEDS = 300


@pytest.mark.parametrize("seed", range(SEEDS))
def test_walk_loses_repeats_and_reorders_nothing_acknowledged(seed: int) -> None:
    Walk(seed).run()


def test_walks_reach_what_they_are_for() -> None:
    walks = [Walk(seed).run() for seed in range(20)]
    assert sum(walk.pair.checks.acks for walk in walks) > 200
    assert max(walk.pair.register.epoch for walk in walks) > 2
    actions = {action for walk in walks for action in walk.trace}
    assert {"crash", "cut", "lose_call", "land_late", "verdict", "read", "retry"} <= actions

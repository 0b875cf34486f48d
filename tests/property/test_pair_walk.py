"""Random walks of a pair. The name of a failing test has its seed: `python -m tests.support.walk SEED` repeats it."""

from __future__ import annotations

import pytest

from tests.support.walk import Walk
from tests.test_rules import RULES, removed

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


PLANTED = {
    "r122_ruling1_ack_waits_for_the_peers_fsync": 10,
    "ruling1_ack_waits_for_the_own_fsync": 40,
    "reliability4_p11_restart_takes_a_new_epoch": 20,
    "p10_reliability6_tail_is_cut_first": 100,
    "ruling17_a_sequence_is_executed_once": 20,
    "p14_replica_answers_by_commit": 40,
    "p2_alone_only_after_the_register": 100,
    "p3_require_then_publish": 20,
    "p4_number_above_all": 10,
    "p10_mark_before_a_transfer": 60,
}
"""Rule taken out: the number of seeds in which a walk must notice. The others need a story of their own."""


def walk_all(seeds: int) -> None:
    for seed in range(seeds):
        Walk(seed).run()


@pytest.mark.parametrize("name", PLANTED)
def test_walks_find_a_planted_bug(name: str) -> None:
    rule = next(rule for rule in RULES if rule.name == name)
    with removed(rule), pytest.raises(AssertionError):
        walk_all(PLANTED[name])

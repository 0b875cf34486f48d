"""Random walks with an operator who forces members. `python -m tests.support.forced_walk SEED` repeats one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import replica.core.mastership.copy_orders
import replica.core.mastership.following
import replica.core.replication.divergence
import replica.core.replication.sync_target
from replica.core.replication.divergence import salvage_above
from replica.core.state.shared import Shared
from tests.support.forced_walk import ForcedWalk
from tests.support.operator_walk import OperatorWalk

SEEDS = 100


@pytest.mark.parametrize("seed", range(SEEDS))
def test_invariants2_14_what_was_answered_is_there_or_salvaged(seed: int) -> None:
    ForcedWalk(seed).run()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_invariants2_14_whatever_an_operator_says_while_the_register_is_away(seed: int) -> None:
    OperatorWalk(seed).run()


def test_walks_reach_what_they_are_for() -> None:
    walks = [ForcedWalk(seed) for seed in range(30)]
    for walk in walks:
        walk.run()
    assert sum(walk.diverged > 0 for walk in walks) >= 5
    assert sum(any(m.salvaged.values()) for walk in walks for m in walk.pair.members.values()) >= 5


def nobody_judges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.core.mastership.following, "judge", lambda _shared, _begin: None)


def nothing_is_copied(patch: pytest.MonkeyPatch) -> None:
    def copy_nothing(_shared: Shared, _common: int, _why: str) -> None:
        pass

    for module in (replica.core.replication.sync_target, replica.core.mastership.copy_orders):
        patch.setattr(module, "salvage_above", copy_nothing)


def nothing_is_marked(patch: pytest.MonkeyPatch) -> None:
    def copy_unmarked(shared: Shared, common: int, why: str) -> None:
        solo_since, shared.state.solo_since = shared.state.solo_since, 0
        commit_index, shared.progress.commit_index = shared.progress.commit_index, 0
        salvage_above(shared, common, why)
        shared.state.solo_since, shared.progress.commit_index = solo_since, commit_index

    for module in (replica.core.replication.sync_target, replica.core.mastership.copy_orders):
        patch.setattr(module, "salvage_above", copy_unmarked)


def walk_all(seeds: int) -> None:
    for seed in range(seeds):
        ForcedWalk(seed).run()


@pytest.mark.parametrize(
    ("remove", "breaks"),
    [(nobody_judges, "no operator had said so"), (nothing_is_copied, "vanished"), (nothing_is_marked, "not marked")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_walks_find_a_planted_bug(remove: Callable[[pytest.MonkeyPatch], None], breaks: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        remove(patch)
        with pytest.raises(AssertionError, match=breaks):
            walk_all(60)

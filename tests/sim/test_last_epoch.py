"""The last epoch over the whole product: faults near the end of the numbers, and the named outcome at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from chaos.sim.pair.plan import Fault, Outcome
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World
from failover.register import EPOCH_LAST
from tests.sim import grids

pytestmark = pytest.mark.slow


def run(left: int, faults: Iterable[Fault], *, handoff: bool = False) -> tuple[World, Outcome]:
    """The pair is formed with so many epochs left."""
    settings = {"epoch": EPOCH_LAST - 1 - left, "wait_ms": 3_000}
    world = World(replace(grids.plan(faults, handoff=handoff), settings=settings))
    with silence():
        return world, world.run()


def again(at_ms: int, target: str) -> Fault:
    return Fault(at_ms, "crash", target, {"down_ms": 60, "power": False})


@pytest.mark.parametrize("left", [1, 2, 3])
@pytest.mark.parametrize("handoff", [False, True])
def test_every_epoch_up_to_the_last_is_as_good_as_any(left: int, handoff: bool) -> None:
    """Its leases, ids and snapshots too."""
    faults = [] if handoff else [grids.CRASH]
    world, outcome = run(left, faults, handoff=handoff)
    assert outcome.violations == []
    assert world.pair.register.epoch == EPOCH_LAST + 1 - left


def test_a_handoff_is_refused_and_the_pair_stays_whole() -> None:
    world, outcome = run(0, [], handoff=True)
    assert outcome.violations == []
    assert "handoffs.done" not in outcome.counters
    assert [handed.reasons for handed in world.pair.run.history.handed] == [("NO_EPOCH",)]


@pytest.mark.parametrize(
    "faults", [[again(200, "b")], [Fault(200, "cut", "a>b", {"for_ms": 400})]], ids=["crash", "cut"]
)
def test_a_master_that_loses_its_peer_waits_for_it(faults: list[Fault]) -> None:
    world, outcome = run(0, faults)
    assert outcome.violations == []
    assert world.pair.register.epoch == EPOCH_LAST


@pytest.mark.parametrize("faults", [[again(200, "a")], [again(200, "a"), again(230, "b")]], ids=["master", "both"])
def test_after_the_last_nobody_is_master_and_everybody_says_why(faults: list[Fault]) -> None:
    """No process ends of it, no number is used again, nothing is wiped."""
    world, outcome = run(0, faults)
    assert [line.partition(":")[0] for line in outcome.violations] == ["stuck"]
    assert "no epoch is left" in outcome.violations[0]
    assert world.pair.register.epoch == EPOCH_LAST
    assert all(not member.ended for member in world.pair.members.values())
    assert {member.domain.shared.state.data.name for member in world.pair.members.values() if member.domain} == {
        "IN_SYNC"
    }

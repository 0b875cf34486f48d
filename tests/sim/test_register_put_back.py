"""A register put back from an older copy under a running pair: members go on above it, or stop; none is wiped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.sim.pair.plan import Outcome
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World
from tests.sim import grids

pytestmark = pytest.mark.slow
COPIED_S = (0.108, 0.15, 0.42)
"""As the pair was formed, in its first epoch, and after a takeover or handoff."""
PUT_BACK_MS = range(430, 900, 47)


def run(copied_s: float, put_back_ms: int, *, takeover: bool, handoff: bool) -> tuple[World, Outcome]:
    given = grids.plan([grids.CRASH] if takeover else [], handoff=handoff, seed=put_back_ms)
    world = World(replace(given, settings={"wait_ms": 8_000}))
    world.loop.at(copied_s, None, world.pair.run.registers.snapshot)
    world.loop.at(put_back_ms / 1000, None, world.pair.run.registers.restore)
    with silence():
        return world, world.run()


@pytest.mark.parametrize("copied_s", COPIED_S)
@pytest.mark.parametrize("handoff", [False, True])
def test_a_pair_that_is_up_goes_on_above_it(copied_s: float, handoff: bool) -> None:
    for put_back_ms in PUT_BACK_MS:
        _, outcome = run(copied_s, put_back_ms, takeover=False, handoff=handoff)
        assert outcome.violations == [], put_back_ms


def wiped(world: World) -> list[str]:
    """What was acknowledged and is on no disk, nor in salvage."""
    kept = {(epoch, log_index) for each in world.pair.members.values() for _, log_index, epoch in each.machine.salvaged}
    members = world.pair.members.values()
    return [
        str(name)
        for name in world.memory.invariants.acknowledged
        if name not in kept and not any(world.memory.invariants._holds(each, name) for each in members)
    ]


def _met(copied_s: float) -> tuple[int, int]:
    """How many runs were whole in the end, and in how many a member stopped; every other end is a failure."""
    whole = stopped = 0
    for put_back_ms in PUT_BACK_MS:
        world, outcome = run(copied_s, put_back_ms, takeover=True, handoff=False)
        assert wiped(world) == [], put_back_ms
        diverged = [
            each.name for each in world.pair.members.values() if each.domain and each.domain.shared.state.diverged
        ]
        assert outcome.violations == [] or diverged, (put_back_ms, outcome.violations)
        whole, stopped = whole + (not diverged), stopped + bool(diverged)
    return whole, stopped


def test_with_one_member_away_it_goes_on_or_stops_and_wipes_nothing() -> None:
    """The register lets the other one claim what it lacks: then one of them stops (DIVERGED) for an operator."""
    met = [_met(copied_s) for copied_s in COPIED_S]
    assert sum(whole for whole, _ in met) >= 20
    assert sum(stopped for _, stopped in met) >= 1


def test_a_member_that_would_not_stop_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica.core.mastership.role.MemberRole.become_diverged", lambda *_args, **_named: None)
    found = [
        (copied_s, put_back_ms)
        for copied_s in COPIED_S
        for put_back_ms in PUT_BACK_MS
        if (met := run(copied_s, put_back_ms, takeover=True, handoff=False))[1].violations
        and not any(each.domain and each.domain.shared.state.diverged for each in met[0].pair.members.values())
    ]
    assert found

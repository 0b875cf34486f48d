"""A member that is told to stop does so in good order, in its time or not, and is back; its clients lose nothing."""

from __future__ import annotations

import pytest

from chaos.sim.pair.plan import Call, ClientPlan, Fault, Plan
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World
from replica.manager import Manager

CALLS = tuple(Call(at_ms, "enqueue", {"count": 1}) for at_ms in range(0, 3_000, 20))


def run(*faults: Fault) -> World:
    clients = (ClientPlan("caller0", "caller", CALLS, {"number": 0, "first": "a"}),)
    world = World(Plan(1, "given", faults=faults, clients=clients))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert len(world.pair.run.books.acked) == len(CALLS)
    return world


def stop_of(member: str, at_ms: int, within_ms: int) -> Fault:
    return Fault(at_ms, "stop", member, {"within_ms": within_ms, "down_ms": 100})


def test_both_stop_in_order_and_are_back() -> None:
    world = run(stop_of("a", 500, 8_000), stop_of("b", 1_500, 8_000))
    counters = world.outcome.counters
    assert counters["fault.stop"] == counters["stopped in order"] == 2
    assert [member.starts for member in world.pair.members.values()] == [2, 2]


def test_who_hangs_is_killed_in_time() -> None:
    hung = [Fault(490, "hung_disk", member, {"for_ms": 2_000}) for member in "ab"]
    world = run(*hung, *(stop_of(member, 500, 300) for member in "ab"))
    assert world.outcome.counters["stopped too late"] >= 1
    assert [member.starts for member in world.pair.members.values()] == [2, 2]


def test_who_is_down_is_not_told() -> None:
    world = run(Fault(400, "crash", "a", {"down_ms": 500, "power": False}), stop_of("a", 500, 8_000))
    assert "fault.stop" not in world.outcome.counters


def test_a_stop_that_fails_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop(_self: Manager) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(Manager, "stop", stop)
    with pytest.raises(AssertionError, match="planted"):
        run(stop_of("a", 500, 8_000))

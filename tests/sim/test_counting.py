"""What a run counts has happened: a fault that was only ordered is none, and a point that was only tried is not met."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from chaos.sim.draw.profiles import draw
from chaos.sim.pair.plan import Call, ClientPlan, Fault, Plan
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World
from tests.sim import grids

CRASH = Fault(100, "crash", "a", {"down_ms": 300, "power": False})
ARMED = {
    "late_set": Fault(0, "late_set", "b", {"by_ms": 600, "count": 1}),
    "unheard_set": Fault(0, "unheard_set", "b", {"count": 1}),
}


def counted(*faults: Fault) -> Counter[str]:
    plan = Plan(1, "given", faults=faults, clients=grids.clients(handoff=False), safety_ms=700)
    with silence():
        return Counter(World(plan).run().counters)


@pytest.mark.parametrize("kind", ARMED)
def test_a_set_that_was_never_made_was_not_struck(kind: str) -> None:
    assert counted(ARMED[kind])[f"fault.{kind}"] == 0
    assert counted(ARMED[kind], CRASH)[f"fault.{kind}"] == 1, "b asks the register when a is gone"


def test_a_sync_that_never_came_did_not_fail() -> None:
    assert counted(Fault(0, "fsync", "b", {"after": 100_000}))["fault.fsync"] == 0
    assert counted(Fault(0, "fsync", "b", {}))["fault.fsync"] == 1


def owner(*kinds: str) -> ClientPlan:
    calls = tuple(Call(at * 20, kind) for at, kind in enumerate(kinds))
    return ClientPlan("owner", "owner", calls, {"number": 9, "queue": "owned"})


@pytest.mark.parametrize(("kinds", "met"), [(("create", "delete"), 0), (("create", "delete", "create"), 1)])
def test_a_queue_is_made_again_when_it_is(kinds: tuple[str, ...], met: int) -> None:
    plan = Plan(1, "given", clients=(owner(*kinds),), safety_ms=200)
    with silence():
        assert World(plan).run().coverage.get("a queue deleted, and made again", 0) == met


@pytest.mark.parametrize(("verb", "point"), [("twice", "acknowledged twice"), ("both", "acknowledged, then rejected")])
@pytest.mark.parametrize("is_kept", [True, False])
def test_settled_twice_is_met_only_after_a_first_time(verb: str, point: str, is_kept: bool) -> None:
    sends = ClientPlan("p", "caller", (Call(0, "enqueue", {"count": 1}),), {"number": 1})
    takes = ClientPlan("t", "taker", (Call(50, "take", {"max": 1, "wait_ms": 0, "then": verb}),), {"lease_ms": 200})
    world = World(replace(draw("swarm", 1), faults=(), clients=(sends, takes), settings={}, safety_ms=500))
    if not is_kept:
        (taker,) = [each for each in world.clients if each.plan.name == "t"]
        carry_out = taker.carry_out  # type: ignore[attr-defined]

        async def refusing(call: Call, batch: object, settle: object) -> None:
            async def refused(_act: object, ranges: object) -> set[int]:
                return {first + at for first, count in ranges for at in range(count)}  # type: ignore[attr-defined]

            del settle
            await carry_out(call, batch, refused)

        taker.carry_out = refusing  # type: ignore[attr-defined]
    with silence():
        assert (world.run().coverage.get(point, 0) > 0) == is_kept

"""Two simulated pairs, and the product's link between them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.sim.draw.profiles import draw
from chaos.sim.judges.links import AT_SOURCE, AT_TARGET, AWAY, FOUND_AGAIN, KEPT, ORDERS
from chaos.sim.pair.plan import Call, ClientPlan, Plan
from chaos.sim.pair.run import FAR
from chaos.sim.tools.product import run
from chaos.sim.world.world import World
from replica.services.links.agent import Agent
from replica.services.links.carrier import Carrier
from tandemq import ambient

SETUPS = (
    ClientPlan("setup0", "setup", (Call(0, "create", {"queue": KEPT}),)),
    ClientPlan("setup1", "setup", (Call(0, "create", {"queue": ORDERS}),), {"pair": FAR}),
)


@pytest.fixture
def world() -> Iterator[World]:
    """Both pairs are whole; one client sends a message at once, and another one after two seconds."""
    puts = tuple(Call(at_ms, "put", {"count": 1, "to": ORDERS}) for at_ms in (0, 2_000))
    clients = (*SETUPS, ClientPlan("linker0", "linker", puts, {"number": 1}))
    made = World(Plan(1, "links_between", {"links": 1}, clients=clients))
    ambient.install(made.pair.run.ambient)
    try:
        assert made._is_made()
        made.clients[1].start()
        yield made
    finally:
        made.loop.bury()
        ambient.install(ambient.MACHINE)


def carrier_of(world: World) -> Carrier:
    """That of the member that serves."""
    (master,) = (each for each in world.pair.members.values() if each.is_serving)
    assert master.manager is not None
    assert master.manager._node is not None
    looking = [getattr(each, "__self__", None) for each in master.manager._node.on_tick]
    (agent,) = (each for each in looking if isinstance(each, Agent))
    (carrier,) = agent.carriers.values()
    return carrier


def test_what_a_carrier_knows_of_its_target_is_of_one_epoch(world: World) -> None:
    """Another member may have carried between two of them, and this one never heard of it."""
    world.loop.run(world.loop.now + 1.0)
    carrier = carrier_of(world)
    assert carrier.far is not None
    assert (carrier.far.last, carrier.epoch) == (1, carrier.domain.shared.state.epoch)
    carrier.far.last = 1_000  # as if it were so
    other = world.pair.members[carrier.domain.shared.peer]
    other.kill()
    world.loop.run(world.loop.now + 3.0)
    assert carrier_of(world) is carrier, "it has gone on"
    assert carrier.epoch == carrier.domain.shared.state.epoch
    assert carrier.far.last == 2, "the target was asked"
    assert world.link is not None
    assert world.link.waiting() == 0


def test_some_runs_meet_each_point_of_a_link() -> None:
    met: set[str] = set()
    for seed in range(1, 30):
        outcome = run(draw("links_between", seed))
        assert outcome.violations == []
        met.update(outcome.coverage)
        if {AT_SOURCE, AT_TARGET, AWAY, FOUND_AGAIN} <= met:
            return
    pytest.fail(f"only {met & {AT_SOURCE, AT_TARGET, AWAY, FOUND_AGAIN}}")

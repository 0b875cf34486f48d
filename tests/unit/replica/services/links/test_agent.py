"""Which transmission queues an agent looks at, at each tick."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from replica.machine.state.system_names import Destination
from replica.services.links.agent import Agent
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE
from tests.unit.replica.machine.driver import Driver

DOMAIN = 7


def test_a_transmission_queue_is_looked_at_as_long_as_it_is_there() -> None:
    """Each member of a macro queue that is at another manager has had one, and they come and go."""
    driver = Driver()
    shared = SimpleNamespace(machine=driver.master, domain=DOMAIN, serving=True)
    members: Any = SimpleNamespace(by_name={"main": SimpleNamespace(shared=shared)})
    reports: Any = None
    agent = Agent(members, reports, {})
    driver.create("SYSTEM.XMIT/west/orders")
    agent.look(0)
    assert list(agent._queues[DOMAIN].values()) == [Destination("west", queue="orders")]
    driver.queue(QUEUE_ACTION_DELETE, "SYSTEM.XMIT/west/orders")
    agent.look(0)
    assert agent._queues[DOMAIN] == {}

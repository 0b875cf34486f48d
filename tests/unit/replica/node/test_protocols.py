"""Which protocols a member speaks by what it holds, and what it makes beside an older peer (decision 0106)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replica.machine import Machine, MacroCall, ProxyCall, RightCall
from replica.machine.features.macros import CREATE, plan_macro
from replica.machine.features.proxies import CREATE as PROXY
from replica.machine.features.proxies import plan_proxy
from replica.machine.features.rights import plan_right
from replica.machine.state.rights import PRODUCE
from replica.node.protocols import PROTOCOL_MAX, PROTOCOL_MIN, SECOND, Protocols, peer_lacks, spoken
from tandemq.peer.v1 import record_pb2
from tandemq.v1.queue_admin_service_pb2 import REPLICATION_PRODUCER
from tests.unit.replica.machine.driver import Driver

NEW, OLD = Protocols(SECOND, PROTOCOL_MAX), Protocols(PROTOCOL_MIN, PROTOCOL_MAX)


def ordered(driver: Driver, plan: Callable[..., Any], call: object) -> None:
    driver.order(driver.plan(lambda: plan(driver.master.state, driver.now_ms, call)))


def sided(driver: Driver) -> None:
    driver.create("inputs", replication=REPLICATION_PRODUCER)


def macro(driver: Driver) -> None:
    ordered(driver, plan_macro, MacroCall(CREATE, "all", b"", 0))


def proxy(driver: Driver) -> None:
    ordered(driver, plan_proxy, ProxyCall(PROXY, "far", b"", 0, target="//west/orders"))


def right(driver: Driver) -> None:
    ordered(driver, plan_right, RightCall("billing", PRODUCE, "orders", False, None, "principal/ops", b"", 7))


def node_of(*machines: Machine | None, peer: int = 0) -> Any:
    paired = [SimpleNamespace(shared=SimpleNamespace(machine=machine)) for machine in machines]
    return SimpleNamespace(paired=lambda: paired, peer_protocol=peer)


def test_who_holds_what_the_first_protocol_has_speaks_both() -> None:
    driver = Driver()
    driver.create()
    driver.send(3)
    assert spoken(node_of(driver.master)) == spoken(node_of(None)) == OLD


@pytest.mark.parametrize("make", [sided, macro, proxy, right])
def test_who_holds_what_came_with_the_second_speaks_that_alone(make: Callable[[Driver], None]) -> None:
    driver = Driver()
    make(driver)
    assert (
        spoken(node_of(driver.master)) == spoken(node_of(driver.replica)) == spoken(node_of(None, driver.master)) == NEW
    )
    assert spoken(node_of(Machine.restore(driver.master.snapshot(), ("a", "b")))) == NEW, "after a start too"


def test_it_does_so_once_that_is_gone_too() -> None:
    """Its records are in the log, of which a peer that was away may be sent a part."""
    driver = Driver()
    sided(driver)
    driver.queue(record_pb2.QUEUE_ACTION_DELETE, "inputs")
    assert spoken(node_of(driver.master)) == NEW


def test_nothing_of_the_second_is_made_while_a_peer_of_the_first_is_connected() -> None:
    assert not peer_lacks(node_of(), "proxies"), "nobody is connected, and who comes is refused"
    assert not peer_lacks(node_of(peer=SECOND + 1), "proxies"), "a newer one knows it"
    said = peer_lacks(node_of(peer=PROTOCOL_MIN), "proxies")
    assert said == "one member of the pair speaks protocol 1, and proxies came with 2: upgrade it first"

"""The wires of a pair through a real Toxiproxy when something is gone or taken: what is left is healed or ended."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from chaos.network import Network, Wire
from chaos.ports import port_is_free
from chaos.toxic_relays import FoundRelays, ToxicRelays
from chaos.toxics import ToxiproxyError
from chaos.toxiproxy import Toxiproxy
from tests.support.ports import free_ports
from tests.support.toxiproxy import toxiproxy_program

pytestmark = pytest.mark.process
WIRES = (Wire("a", "b"), Wire("b", "a"), Wire("a", "witness"))


@pytest.fixture
def ports() -> list[int]:
    """Of the server, and of each wire."""
    return free_ports(1 + len(WIRES))


@pytest.fixture
def network(ports: list[int], tmp_path: Path) -> Network:
    program = toxiproxy_program()
    routes = {wire: (f"127.0.0.1:{port}", "127.0.0.1:1") for wire, port in zip(WIRES, ports[1:], strict=True)}
    return Network(routes, lambda: ToxicRelays(program, f"127.0.0.1:{ports[0]}", tmp_path / "toxiproxy.log"))


def test_what_can_be_healed_is_healed_when_one_proxy_is_gone(network: Network, ports: list[int]) -> None:
    network.start()
    try:
        for wire in WIRES:
            network.cut(*wire)
        api = Toxiproxy(f"127.0.0.1:{ports[0]}")
        api.find(str(WIRES[0])).destroy()
        with pytest.raises(ToxiproxyError, match="a-to-b") as error:
            network.heal()
        assert error.value.reason == "NOT_FOUND"
        assert [api.find(str(wire)).toxics() for wire in WIRES[1:]] == [[], []]
        api.close()
    finally:
        network.close()
    assert all(port_is_free(port) for port in ports)


def test_a_wire_whose_port_is_taken_leaves_no_other_and_no_server(network: Network, ports: list[int]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[2]))
        taken.listen()
        with pytest.raises(ToxiproxyError, match=f"proxy b-to-a at 127.0.0.1:{ports[2]}.*choose another port") as error:
            network.start()
    assert error.value.reason == "PORT_IN_USE"
    assert network.wires == {}
    assert all(port_is_free(port) for port in ports)
    network.start()  # a second try, with the port free, works
    network.close()
    assert all(port_is_free(port) for port in ports)


def test_a_server_that_is_gone_leaves_nothing_to_close(network: Network, ports: list[int]) -> None:
    network.start()
    relays = network._relays
    assert isinstance(relays, ToxicRelays)
    relays.close()  # as if it had died
    with pytest.raises(ToxiproxyError) as error:
        network.heal()
    assert error.value.reason == "SERVER_GONE"
    network.close()
    assert all(port_is_free(port) for port in ports)


def test_what_somebody_left_is_found_by_name_and_healed(network: Network, ports: list[int]) -> None:
    network.start()
    try:
        network.delay("a", "b", 0.02)
        network.break_off("a", "witness")
        found = FoundRelays(f"127.0.0.1:{ports[0]}")
        found.start()
        for wire, port in zip(WIRES, ports[1:], strict=True):
            found.open(f"127.0.0.1:{port}", "127.0.0.1:1", str(wire))
        latency = "latency_downstream, latency_upstream"
        healed = {name: ", ".join(sorted(what.split(", "))) for name, what in found.heal_what_is_left().items()}
        assert healed == {"a-to-b": latency, "b-to-a": latency, "a-to-witness": "disabled"}
        assert found.heal_what_is_left() == {}
        assert not port_is_free(ports[3]), "it listens again"
        found.close()
    finally:
        network.close()

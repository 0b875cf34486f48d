"""Ports of a test's own, for one that starts its processes itself. A `Cluster` has its own without it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from chaos.ports import PortRange


@pytest.fixture
def base_port() -> Iterator[int]:
    """Of a range that no other is given before the test is over."""
    with PortRange() as held:
        yield held.base_port


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def free_port() -> int:
    """One that nobody has now."""
    return free_ports(1)[0]

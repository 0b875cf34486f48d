"""Chooses ranges of ports for clusters, each for one holder of all on this machine; it never starts what listens there.

A range is held by a bound port of its own, at which nobody listens: the kernel gives it to one of those that ask at the
same time, wherever they come from, and takes it back with its holder's process, however that ends. What it keeps nobody
from is to listen in the range without asking here; so its ports are looked at too.
"""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from tandemq.config import member_ports, witness_port

HOST = "127.0.0.1"
# Ranges begin from here up: below the range that systems hand out to outgoing connections.
FREE_PORTS_FROM, FREE_PORTS_TO, FREE_PORTS_STEP = 20000, 32000, 30
FREE_PORTS_STRIDE = 157  # ranges between the places of two process ids that follow each other; of no factor of 400
# Distances from a member's client port: its relays to the peer and to the witness.
PEER_RELAY_OFFSET, WITNESS_RELAY_OFFSET = 4, 5
# Distances from the base port: of Toxiproxy's own interface, and of the port that holds the range.
TOXIPROXY_OFFSET, HOLDING_OFFSET = 25, 29


class NoRangeError(RuntimeError):
    """Every range is held or in use."""


class PortRange:
    """A range that was free, and is nobody else's until `release`, or until this object is gone."""

    def __init__(self) -> None:
        """Raises NoRangeError."""
        for base in base_ports():
            holding = _bound(base + HOLDING_OFFSET)
            if holding is None:
                continue
            if ports_in_use(base):
                holding.close()
                continue
            self.base_port = base
            self.release = weakref.finalize(self, holding.close)
            return
        raise NoRangeError(f"no free range of ports between {FREE_PORTS_FROM} and {FREE_PORTS_TO}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _bound(port: int) -> socket.socket | None:
    """Without SO_REUSEADDR: no second one can be bound there."""
    holding = socket.socket()
    try:
        holding.bind((HOST, port))
    except OSError:
        holding.close()
        return None
    return holding


def base_ports() -> Iterator[int]:
    """All there are. Processes begin at different places, so that what still calls a cluster that is gone does not find
    another process's in its place, and few ranges are looked at that others hold.
    """
    count = (FREE_PORTS_TO - FREE_PORTS_FROM) // FREE_PORTS_STEP
    first = os.getpid() * FREE_PORTS_STRIDE
    for step in range(count):
        yield FREE_PORTS_FROM + (first + step) % count * FREE_PORTS_STEP


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def ports_in_use(base_port: int, members: int = 2) -> list[int]:
    """Those of the cluster's ports that somebody listens on; not the one that holds the range."""
    all_ports = [member_ports(base_port, ordinal) for ordinal in range(members)]
    ports = [port for each in all_ports for port in range(each.client, each.client + WITNESS_RELAY_OFFSET + 1)]
    others = (witness_port(base_port), base_port + TOXIPROXY_OFFSET)
    return [port for port in (*ports, *others) if not port_is_free(port)]

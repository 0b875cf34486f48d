"""Hostile inputs of those who have no certificate, or one that opens nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.crowd.floods import FLOODS, flood
from chaos.crowd.silent import crowding
from chaos.crowd.wire import RawConnection
from chaos.hostile.inputs import hostile
from chaos.hostile.target import Target, address_of
from chaos.secure.impostors import Port, attempts

ENDED_S = 20.0
SILENT, CROWD_S = 600, 6.0
HANDSHAKES = 100
HALF_A_HELLO = bytes((22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3))
"""The beginning of a ClientHello of 512 bytes."""


def _ports(target: Target) -> list[str]:
    return [*target.clients.values(), *target.peers.values(), target.witness]


async def _ended(endpoints: Sequence[str], hello: bytes) -> str:
    """At all of them at a time."""

    def hold(endpoint: str) -> bool:
        with RawConnection(address_of(endpoint), hello=hello, polite=False) as connection:
            return connection.read_until_ended(ENDED_S)

    found = await asyncio.gather(*(asyncio.to_thread(hold, each) for each in endpoints))
    held = [endpoint for endpoint, is_ended in zip(endpoints, found, strict=True) if not is_ended]
    return f"{held[0]} still holds it after {ENDED_S:g} s" if held else "ended"


@hostile("HTTP/1 text at every port", "ended")
async def http_text(target: Target) -> str:
    """As a browser begins."""
    return await _ended(_ports(target), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


@hostile("100 kB at random at every port", "ended")
async def random_bytes(target: Target) -> str:
    """No protocol at all."""
    return await _ended(_ports(target), os.urandom(100_000))


@hostile("a connection that says nothing", "ended")
async def silent(target: Target) -> str:
    """At every port, one after the other."""
    return await _ended(_ports(target), b"")


@hostile("half a ClientHello, then nothing", "ended")
async def half_open(target: Target) -> str:
    """A handshake that never goes on."""
    return await _ended(_ports(target), HALF_A_HELLO)


@hostile("one byte a second", "ended")
async def slow(target: Target) -> str:
    """Of a handshake."""

    def trickle() -> str:
        with RawConnection(address_of(target.master), polite=False) as connection:
            for byte in HALF_A_HELLO * 2:
                if not connection.send(bytes((byte,))) or connection.read_until_ended(1.0):
                    return "ended"
        return "it is still held"

    return await asyncio.to_thread(trickle)


@hostile("floods in clear text", "ended")
async def plain_floods(target: Target) -> str:
    """Each of those that a client with a certificate may try."""
    for name in FLOODS:
        found = await asyncio.to_thread(flood, address_of(target.master), name, ENDED_S)
        if not found.ended:
            return f"{name} goes on after {found.frames} frames"
    return "ended"


@hostile(f"{SILENT} connections that say nothing", "ended")
async def crowd(target: Target) -> str:
    """At the master, each opened again as it is ended."""
    async with crowding(address_of(target.master), SILENT) as seen:
        await asyncio.sleep(CROWD_S)
    return "ended" if seen.ended >= SILENT else f"{seen.ended} were ended"


@hostile(f"{HANDSHAKES} handshakes without a certificate", "refused")
async def handshakes(target: Target) -> str:
    """One after the other, as fast as they are refused."""
    context = target.tls("billing")
    bare = type(context)(context.protocol)
    bare.check_hostname = False
    bare.load_verify_locations(str(Path(target.who("billing")) / "ca.pem"))
    host, port = address_of(target.master)
    for _ in range(HANDSHAKES):
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port, ssl=bare)
            said = await reader.read(1)
            writer.close()
            if said:
                return "it was let in"
    return "refused"


@hostile("a request to the HTTP port that never ends", "ended")
async def slow_http(target: Target) -> str:
    """A head without an end, a header a second."""
    endpoint = next(iter(target.https.values()))

    def trickle() -> str:
        began_s = time.monotonic()
        with RawConnection(address_of(endpoint), hello=b"GET /metrics HTTP/1.1\r\n", polite=False) as connection:
            while time.monotonic() - began_s < ENDED_S:
                if not connection.send(b"X-More: x\r\n") or connection.read_until_ended(1.0):
                    return "ended"
        return "it is still held"

    return await asyncio.to_thread(trickle)


def _impostors(wanted: str) -> None:
    async def attack(target: Target) -> str:
        ports = [Port(f"client port of {name}", endpoint) for name, endpoint in target.clients.items()]
        ports += [Port(f"peer port of {name}", endpoint, name) for name, endpoint in target.peers.items()]
        ports.append(Port("witness", target.witness))
        found = await attempts(ports, Path(target.credentials), Path(target.impostors), "pair", only=wanted)
        let_in = [each for each in found if not each.refused]
        return f"let in at {let_in[0].where}" if let_in else f"refused at {len(found)} places"

    hostile(wanted, r"refused at [1-9]\d* places")(attack)


for _who in (
    "without a certificate",
    "of TLS 1.2",
    "expired",
    "not yet valid",
    "of another authority",
    "a client as the peer",
    "the member itself as the peer",
    "a of another pair as the peer",
    *(
        f"{who} with x-tandemq-{what}"
        for who in ("billing", "a of another pair")
        for what in ("hop", "principal", "own")
    ),
    "billing as a link",
):
    _impostors(_who)

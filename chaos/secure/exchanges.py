"""Exchanges everybody's certificates, and their authority, under load; sees that each came into force."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.secure.impostors import Port
from tandemq.credentials.authority import renew, rotate
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.files import client_context

LOOK_S, BOUND_S = 0.1, 30.0


async def exchange(credentials: Path, authority: Path, people: Mapping[str, str], ports: Sequence[Port]) -> None:
    """A new certificate with a new key for everybody; returns when each port shows its own. Raises TimeoutError."""
    before = [await serial(port, credentials / "ops") for port in ports]
    for name in people:
        await asyncio.to_thread(renew, authority, credentials / name)
    await shown(ports, credentials / "ops", before)


async def exchange_authority(
    credentials: Path, authority: Path, people: Mapping[str, str], ports: Sequence[Port]
) -> list[str]:
    """In its three steps, each of them with new certificates for everybody; what each has done."""
    done = []
    for _ in range(3):
        done.append(rotate(authority).what)
        await exchange(credentials, authority, people, ports)
    return done


async def shown(ports: Sequence[Port], own: Path, before: Sequence[object]) -> None:
    """Each port shows another certificate than before."""
    async with asyncio.timeout(BOUND_S):
        for port, old in zip(ports, before, strict=True):
            while await serial(port, own) in (old, None):  # noqa: ASYNC110 - another process says nothing of it
                await asyncio.sleep(LOOK_S)


async def serial(port: Port, own: Path) -> object:
    """Of the certificate that a port shows; None: there was no handshake."""
    host, _, number = port.endpoint.rpartition(":")
    try:
        context = client_context(own)
        _, writer = await asyncio.open_connection(host, int(number), ssl=context, server_hostname=host)
    except (ssl.SSLError, OSError, BadCredentials):
        return None
    tls = writer.get_extra_info("ssl_object")
    writer.close()
    return dict(tls.getpeercert() or {}).get("serialNumber")

"""Hostile inputs that need a hand on the pair itself: certificates that end or are broken, a clock that is wrong."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from chaos.cluster import Cluster
from chaos.hostile.inputs import Attack, Input
from chaos.hostile.target import Target
from chaos.secure import exchanges
from chaos.secure.impostors import Port
from tandemq import aio
from tandemq.credentials.authority import issue
from tandemq.credentials.chosen import opener_of

LASTS, LOOK_S, BOUND_S, CLOCK_S = timedelta(seconds=3), 0.1, 40.0, 600.0
REFUSED_METRIC = re.compile(rb"(?m)^tandemq_credentials_refused (\S+)$")


def faults_of(cluster: Cluster, authority: Path, people: Mapping[str, str]) -> list[Input]:
    """Those of this pair."""
    credentials = Path(cluster.credentials).parent

    async def ends_meanwhile(target: Target) -> str:
        """A stream lives on, as gRPC has it, and nothing new begins."""
        issue(authority, people["billing"], credentials.parent / "short", lasts=LASTS)
        channel: Any = opener_of(str(credentials.parent / "short"))(target.master, ())
        async with channel:
            watch = channel.unary_stream("/tandemq.v1.QueueService/Browse")
            stream = watch(_browse())
            await stream.initial_metadata()
            await asyncio.sleep(LASTS.total_seconds() + 1)
            port = Port("client port", target.master)
            late = await _handshake(port, credentials.parent / "short")
            stream.cancel()
        return "no new connection" if not late else "let in"

    async def broken_files(target: Target) -> str:
        """Half a certificate: the last good one stays, loudly."""
        master = next(iter(target.clients))
        file = credentials / master / "cert.pem"
        good = file.read_bytes()
        page = f"http://{target.https[master]}/metrics"
        file.write_bytes(good[: len(good) // 2])
        try:
            await _metric(page, b"1.0", b"1")
            async with aio.connect(target.master, credentials=target.who("billing"), timeout=BOUND_S) as client:
                await client.send("orders", b"meanwhile")
        finally:
            file.write_bytes(good)
        await _metric(page, b"0.0", b"0")
        return "the last good one stays"

    async def exchanged(target: Target) -> str:
        """The authority itself, with both in force in between."""
        ports = [Port(name, endpoint) for name, endpoint in (*target.clients.items(), *target.peers.items())]
        done = await exchanges.exchange_authority(credentials, authority, people, ports)
        return f"{len(done)} steps"

    async def clock(target: Target) -> str:
        """The replica believes that it is ten minutes later, and then that it is ten minutes earlier."""
        assert cluster.preload is not None, "asked above"
        replica = list(target.clients)[1]
        for ahead_s in (CLOCK_S, -CLOCK_S):
            cluster.preload.hurt(replica, ahead_s=ahead_s)
            try:
                endpoint = target.clients[replica]
                async with aio.connect(endpoint, credentials=target.who("billing"), timeout=BOUND_S) as client:
                    await client.send("orders", b"whatever the time is")
                view = await cluster.status()
                if not view.whole():
                    return f"the pair is not whole with a clock {ahead_s:+g} s"
            finally:
                cluster.preload.calm(replica)
        return "served"

    found: list[tuple[str, str, Attack]] = [
        ("a certificate that ends in the middle of a stream", "no new connection", ends_meanwhile),
        ("a renewal with a broken file", "the last good one stays", broken_files),
        ("an exchange of the authority", "3 steps", exchanged),
    ]
    if cluster.preload is not None:
        found.append(("a clock that is ten minutes wrong", "served", clock))
    return [Input(*each) for each in found]


def _browse() -> bytes:
    from tandemq.v1.queue_service_pb2 import BrowseRequest

    return bytes(BrowseRequest(queue="orders").SerializeToString())


async def _handshake(port: Port, directory: Path) -> bool:
    """Whether somebody with this certificate gets a word in."""
    async with opener_of(str(directory))(port.endpoint, ()) as channel:
        call: Any = channel.unary_unary("/tandemq.v1.ManagerAdminService/GetManager")
        try:
            await call(b"", timeout=5.0)
        except grpc.aio.AioRpcError as error:
            return error.code() is not grpc.StatusCode.UNAVAILABLE
    return True


async def _metric(page: str, *values: bytes) -> None:
    """Returns when the member's page says so. Raises TimeoutError."""
    async with asyncio.timeout(BOUND_S):
        while True:
            found = REFUSED_METRIC.search(await asyncio.to_thread(_read, page))
            if found is not None and found[1] in values:
                return
            await asyncio.sleep(LOOK_S)


def _read(page: str) -> bytes:
    with urllib.request.urlopen(page, timeout=BOUND_S) as answer:
        return bytes(answer.read())

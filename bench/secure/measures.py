"""What certificates and rights cost: two real pairs, one of them with certificates, and the same client beside each.

The pair with certificates asks about rights, writes its audit log, and counts what the client sends against a quota
that is never used up. Both pairs and the clients share one machine.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers.place import BenchError
from bench.turns.figures import Bound, Figure, Single
from bench.turns.taking import in_turns, members_cpu_us
from chaos.cluster import CLIENT, WITNESS, Cluster
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.config_security import Security
from tandemq.credentials.authority import create
from tandemq.credentials.development import prepare
from tandemq.credentials.names import member
from tandemq.errors import TandemqError
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

QUEUE, LOAD, PAIR = "load", "shop", "secure"
BATCH, PAYLOAD = 100, b"x" * 1_024
NEVER = 1_000_000_000
AT_ONCE = 8
"""Calls under way while throughput is measured."""
QUOTA = f"{LOAD}=messages:{NEVER},calls:{NEVER},streams:{NEVER}"
WAIT_S = 60.0
ADMINISTRATOR = "ops"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    turns: int = 9
    batches: int = 200  # in a turn
    singles: int = 100  # in a turn, one in flight
    clients: int = 100  # that connect again after a takeover


QUICK = Size(turns=2, batches=8, singles=8, clients=4)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two pairs, with whoever sends to it. `credentials`: None where nobody is asked for any."""

    pair: Cluster
    client: aio.Client
    credentials: Path | None
    size: Size

    async def throughput(self) -> float:
        """Messages a second, in batches of 100."""
        payloads, left = [PAYLOAD] * BATCH, iter(range(self.size.batches))
        began_s = time.monotonic()

        async def worker() -> None:
            for _ in left:
                await self.client.enqueue(QUEUE, payloads)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
        taken_s = time.monotonic() - began_s
        await self._empty()
        return self.size.batches * BATCH / taken_s

    async def work(self) -> float:
        """Microseconds of both members' processors for a message, in batches of 100."""
        payloads, before = [PAYLOAD] * BATCH, members_cpu_us(self.pair)
        for _ in range(self.size.batches):
            await self.client.enqueue(QUEUE, payloads)
        taken = members_cpu_us(self.pair) - before
        await self._empty()
        return taken / self.size.batches / BATCH

    async def latency(self) -> float:
        """Milliseconds of one acknowledged message, one in flight: the median."""
        found = []
        for _ in range(self.size.singles):
            began_s = time.monotonic()
            await self.client.enqueue(QUEUE, [PAYLOAD])
            found.append(1_000 * (time.monotonic() - began_s))
        return statistics.median(found)

    async def _empty(self) -> None:
        async with aio.connect(self.pair.target, credentials=self.pair.credentials or None, timeout=WAIT_S) as client:
            await client.purge_queue(QUEUE)


@asynccontextmanager
async def plain(folder: Path, size: Size) -> AsyncIterator[Side]:
    """A pair that asks nobody who he is."""
    cluster = Cluster(folder / "plain", pair=PAIR)
    async with cluster.running(), aio.connect(cluster.target, timeout=WAIT_S) as client:
        await client.create_queue(QUEUE, QueueConfig(max_length=NEVER, max_bytes=0))
        yield Side(cluster, client, None, size)


@asynccontextmanager
async def secured(folder: Path, size: Size) -> AsyncIterator[Side]:
    """One with certificates, rights, an audit log and a quota."""
    credentials = folder / "credentials"
    create(folder / "authority")
    people = {name: member(PAIR, name) for name in ("a", "b")}
    people |= {WITNESS: "witness/witness", CLIENT: f"principal/{ADMINISTRATOR}", LOAD: f"principal/{LOAD}"}
    prepare(credentials, folder / "authority", people)
    settings = {
        name: {
            "security": Security(credentials=str(credentials / name), administrators=(ADMINISTRATOR,), quotas=(QUOTA,))
        }
        for name in ("a", "b")
    }
    cluster = Cluster(folder / "secured", pair=PAIR, secured=credentials, operators=[ADMINISTRATOR], settings=settings)
    async with cluster.running(WAIT_S), AsyncExitStack() as stack:
        async with aio.connect(cluster.target, credentials=cluster.credentials, timeout=WAIT_S) as operator:
            await operator.create_queue(QUEUE, QueueConfig(max_length=NEVER, max_bytes=0))
            await operator.grant_right(LOAD, "produce", QUEUE)
        own = credentials / LOAD
        client = await stack.enter_async_context(aio.connect(cluster.target, credentials=own, timeout=WAIT_S))
        yield Side(cluster, client, own, size)


async def enqueue(ours: Side, beside: Side) -> Figure:
    """How much of the throughput is left."""
    turns = await in_turns(ours.throughput, beside.throughput, ours.size.turns)
    what = (
        f"messages of 1 KiB a second with certificates, rights and a quota / without, batches of 100, {AT_ONCE} at once"
    )
    return Figure(what, "messages a second", Bound(0.92, at_least=True), turns)


async def processor(ours: Side, beside: Side) -> Figure:
    """The same as work of the members, which says the same whoever else uses the machine."""
    turns = await in_turns(ours.work, beside.work, ours.size.turns)
    return Figure("an acknowledged message, batches of 100, with / without", "CPU us of both members", None, turns)


async def in_flight(ours: Side, beside: Side) -> Figure:
    """How much longer one waits."""
    turns = await in_turns(ours.latency, beside.latency, ours.size.turns)
    return Figure("p50 of one acknowledged message, one in flight, with / without", "ms", Bound(1.05), turns)


async def takeover(ours: Side) -> Single:
    """From the kill of the master to the first acknowledgement, while all clients connect again."""
    found = []
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(aio.connect(ours.pair.target, credentials=ours.credentials, timeout=WAIT_S))
            for _ in range(ours.size.clients)
        ]
        for _ in range(ours.size.turns):
            await asyncio.gather(*(each.enqueue(QUEUE, [b"before"]) for each in clients))
            found.append(await _one(ours.pair, clients))
    what = f"ms from kill -9 of the master to the first acknowledgement, {ours.size.clients} clients connect again"
    return Single(what, Bound(300.0), found)


async def _one(pair: Cluster, clients: list[aio.Client]) -> float:
    view = await pair.wait_for(PairView.whole, "whole", WAIT_S)
    (master,) = view.masters()
    pair.kill(master)
    began_s = time.monotonic()
    sends = [asyncio.ensure_future(each.enqueue(QUEUE, [b"after"])) for each in clients]
    await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
    taken_ms = 1_000 * (time.monotonic() - began_s)
    answers = await asyncio.gather(*sends, return_exceptions=True)
    if failed := [each for each in answers if isinstance(each, TandemqError)]:
        raise BenchError(f"{len(failed)} sends failed over a takeover: {failed[0]}")
    await pair.restart(master)
    await pair.wait_for(PairView.whole, "whole", WAIT_S)
    return taken_ms

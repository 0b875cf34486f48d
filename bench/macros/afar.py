"""What members of macro queues at another pair are measured by, on two real pairs; a measure is turns.

Messages are received over a stream and acknowledged, one batch of the stream after the other. Rates, since what is
waited for is the other pair: of one machine, on which both pairs are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.macros.measures import NEVER, PAYLOAD, Size
from bench.turns.figures import Bound, Figure
from bench.turns.taking import in_turns
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.macros import MacroPolicy, Relationship
from tandemq.config_links import Links
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

CREDIT = 1_000
MANY = 500
"""Messages of a batch that is sent; received are as many as there are, up to the credit."""
AT_ONCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Afar:
    """Two pairs; the first one knows the second one."""

    near: aio.Client
    far: aio.Client
    there: Cluster
    size: Size

    @property
    def count(self) -> int:
        """Messages of a turn."""
        return self.size.batches * MANY

    async def received(self, sender: aio.Client, queue: str, receiver: aio.Client, name: str) -> float:
        """Messages a second that one consumer of `name` receives, reads and acknowledges; they are there before."""
        await self.sent(sender, queue)
        began = time.perf_counter()
        await self.taken(receiver, name)
        return self.count / (time.perf_counter() - began)

    async def passed(self, queue: str, name: str) -> float:
        """Messages a second that are sent to a queue here while a consumer of `name` receives them."""
        began = time.perf_counter()
        await asyncio.gather(self.taken(self.near, name), self.sent(self.near, queue))
        return self.count / (time.perf_counter() - began)

    async def sent(self, sender: aio.Client, queue: str) -> None:
        for _ in range(self.size.batches):
            await sender.enqueue(queue, [PAYLOAD] * MANY)

    async def taken(self, receiver: aio.Client, name: str) -> None:
        left, read = self.count, 0
        async with asyncio.timeout(AT_ONCE_S), receiver.consumer(name, credit_messages=CREDIT) as consumer:
            async for batch in consumer.batches():
                read += sum(len(each.payload) for each in batch)
                batch.ack()
                left -= len(batch)
                if left <= 0:
                    break
            await consumer.settled()
        assert read >= self.count * len(PAYLOAD), "a message without its payload"

    async def macro(self, name: str, *members: str) -> None:
        await self.near.create_macro(name, relationship=Relationship.CONSUMER, policy=MacroPolicy.ROUND_ROBIN)
        for member in members:
            await self.near.add_macro_member(name, member)


@asynccontextmanager
async def two_pairs(folder: Path, size: Size) -> AsyncIterator[Afar]:
    """Both, with a queue at each and a proxy of the second one's."""
    there = Cluster(folder / "there", pair="there")
    links = Links(managers=tuple(f"there={endpoint}" for endpoint in there.endpoints))
    here = Cluster(folder / "here", pair="here", settings={name: {"links": links} for name in ("a", "b")})
    async with there.running(), here.running(), aio.connect(here.target) as near, aio.connect(there.target) as far:
        for client, queue in ((near, "own"), (far, "far"), (far, "direct")):  # heads of the one are none of the other
            await client.create_queue(queue, QueueConfig(max_length=NEVER, max_bytes=0))
        await near.create_proxy("proxy", "//there/far")
        yield Afar(near, far, there, size)


async def remote(afar: Afar) -> Figure:
    """Fan-in from the other pair, beside a consumer there."""
    await afar.macro("from-afar", "proxy")
    turns = await in_turns(
        lambda: afar.received(afar.far, "far", afar.near, "from-afar"),
        lambda: afar.received(afar.far, "direct", afar.far, "direct"),
        afar.size.turns,
    )
    what = f"rate of {afar.count:,} messages of another pair by a macro queue here / by a consumer there"
    return Figure(what, "messages a second", Bound(0.5, at_least=True), turns)


async def beside_hung(afar: Afar) -> Figure:
    """A member here, beside a member at a pair that stands still, and without it."""
    await afar.macro("beside-hung", "own", "proxy")
    await afar.macro("alone", "own")
    for name in afar.there.members:
        afar.there.pause(name)
    try:
        turns = await in_turns(
            lambda: afar.passed("own", "beside-hung"),
            lambda: afar.passed("own", "alone"),
            afar.size.turns,
        )
    finally:
        for name in afar.there.members:
            afar.there.resume(name)
    what = "rate of a member here by a macro queue with a member at a pair that hangs / by one without it"
    return Figure(what, "messages a second", Bound(0.95, at_least=True), turns)

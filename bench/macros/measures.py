"""What macro queues over local members are measured by on a real pair; a measure is turns.

A message is produced in a batch of 100, delivered and acknowledged. The choices are those that look at every member:
the shortest queue for a batch, and the oldest message of all for a delivery. Processor time is that of both members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bench.peers.place import BenchError
from bench.turns.figures import Bound, Figure, Single, Turn
from bench.turns.taking import Step, in_turns, members_cpu_us
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.macros import MacroPolicy, Relationship
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

BATCH = 100
PAYLOAD = b"x" * 200
NEVER = 1_000_000_000
WAIT = timedelta(seconds=30)
AT_ONCE = 50
"""Calls that make members."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    turns: int = 9
    batches: int = 60  # in a turn
    many: int = 1_000  # members


QUICK = Size(turns=2, batches=3, many=20)


@dataclass(frozen=True, slots=True)
class World:
    """One pair."""

    pair: Cluster
    client: aio.Client
    size: Size

    async def make(self, queue: str) -> None:
        await self.client.create_queue(queue, QueueConfig(max_length=NEVER, max_bytes=0))

    async def through(self, sent: str, received: str) -> float:
        """Microseconds of a message that is sent to one name and received from another one."""
        client, payloads = self.client, [PAYLOAD] * BATCH
        before = members_cpu_us(self.pair)
        for _ in range(self.size.batches):
            await client.enqueue(sent, payloads)
            left = BATCH
            while left:
                got = await client.dequeue(received, left, wait=WAIT)
                if not len(got):
                    raise BenchError(f"{received} gave nothing for {WAIT.seconds} s, and {left} messages are there")
                left -= len(got)
                await got.ack()
        return (members_cpu_us(self.pair) - before) / self.size.batches / BATCH

    async def over(self, name: str, count: int) -> Step:
        """A turn through macro queues over so many members."""
        client = self.client
        queues = [f"{name}.{number}" for number in range(count)]
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(*map(self.make, queues[first : first + AT_ONCE]))
        ends = f"{name}.in", f"{name}.out"
        await client.create_macro(ends[0], relationship=Relationship.PRODUCER, policy=MacroPolicy.SHORTEST_QUEUE)
        await client.create_macro(ends[1], relationship=Relationship.CONSUMER, policy=MacroPolicy.CHRONOLOGICAL)
        for first in range(0, count, AT_ONCE):
            part = queues[first : first + AT_ONCE]
            await asyncio.gather(*(client.add_macro_member(end, queue) for end in ends for queue in part))
        return lambda: self.through(*ends)


async def local8(world: World, eight: Step) -> Figure:
    """A message through macro queues over eight members, beside one through a queue."""
    await world.make("one")
    turns = await in_turns(eight, lambda: world.through("one", "one"), world.size.turns)
    what = "a message through macro queues over 8 members / through a queue, in batches of 100"
    return Figure(what, "CPU us of both members", Bound(1.25), turns)


def plain(beside_local8: Sequence[Turn]) -> Single:
    what = "CPU us of both members a message through a queue, in batches of 100"
    return Single(what, None, [turn.beside for turn in beside_local8])


async def local1000(world: World, eight: Step) -> Figure:
    """A message through as many members as one may have to look at, beside one through eight."""
    many = await world.over("many", world.size.many)
    what = f"a message through macro queues over {world.size.many} members / over 8, in batches of 100"
    return Figure(what, "CPU us of both members", Bound(2.0), await in_turns(many, eight, world.size.turns))

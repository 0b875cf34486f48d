"""What units, reactions and links are measured by on real pairs; a measure is turns of two things, one after the other.

Processor time is that of both members, whoever else uses the machine; times and rates are those of a machine that
others may use.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bench.turns.figures import Bound, Figure, Turn
from bench.turns.taking import Step, in_turns, members_cpu_us
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.filtering import Where
from tandemq.client.outgoing import Outgoing
from tandemq.client.reactions import Cancel
from tandemq.errors import NotFound
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

TARGET = "west"
BATCH = 100
PAYLOAD = b"x" * 200
WAIT_S = 120.0
KEPT = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    turns: int = 9
    repeats: int = 10  # of a batch, in a turn
    singles: int = 60  # of one message in flight, in a turn
    deep: int = 1_000_000  # messages in the queue that reactions look into
    kept: int = 100_000  # reactions that are kept
    linked: int = 5_000  # messages through the link, in a turn
    workers: int = 64
    units_each: int = 10  # of a worker, in a turn


QUICK = Size(turns=2, repeats=2, singles=6, deep=2_000, kept=200, linked=300, workers=8, units_each=2)


@dataclass(frozen=True, slots=True)
class World:
    """Two pairs; messages go from the first to the second."""

    first: Cluster
    second: Cluster
    here: aio.Client
    there: aio.Client
    size: Size


async def batch_cost(world: World) -> Figure:
    """Transact of 100 acknowledgements and 200 messages in two queues, beside Settle and Produce of as many."""
    here = world.here
    for queue in ("batches", "legs", "ledger"):
        await here.create_queue(queue)
    puts = [PAYLOAD] * BATCH

    async def taken() -> list[Any]:
        for _ in range(world.size.repeats):
            await here.enqueue("batches", puts)
        return [await here.dequeue("batches", BATCH, wait=WAIT_S) for _ in range(world.size.repeats)]

    async def units() -> float:
        batches = await taken()
        before = members_cpu_us(world.first)
        for batch in batches:
            await here.transact([batch], {"legs": puts, "ledger": puts})
        return (members_cpu_us(world.first) - before) / world.size.repeats

    async with here.producer("legs") as legs, here.producer("ledger") as ledger:

        async def apart() -> float:
            batches = await taken()
            before = members_cpu_us(world.first)
            for batch in batches:
                await asyncio.gather(batch.ack(), legs.send_many(puts), ledger.send_many(puts))
            return (members_cpu_us(world.first) - before) / world.size.repeats

        turns = await in_turns(units, apart, world.size.turns)
    what = "Transact of 100 acks and 200 puts in two queues / Settle and Produce of the same"
    return Figure(what, "CPU us of both members", Bound(1.3), turns)


async def latency(world: World) -> Figure:
    """One unit in flight, of an acknowledgement and a message, beside one message in flight."""
    here, count = world.here, world.size.singles
    for queue in ("single", "after", "plain"):
        await here.create_queue(queue)

    async def one_each() -> Turn:
        await here.enqueue("single", [PAYLOAD] * count)
        units, sends = list[float](), list[float]()
        for _ in range(count):
            taken = await here.dequeue("single", wait=WAIT_S)
            units.append(await _took_ms(here.transact([taken], {"after": [PAYLOAD]})))
            sends.append(await _took_ms(here.enqueue("plain", [PAYLOAD])))
        return Turn(statistics.median(units), statistics.median(sends))

    await one_each()
    turns = [await one_each() for _ in range(world.size.turns)]
    return Figure("p50 of a unit of one ack and one put / p50 of one enqueue", "ms", Bound(1.15), turns)


async def react_by_id(world: World) -> Figure:
    """A message in a deep queue is cancelled by its id, beside one that is sent there."""
    here, count = world.here, world.size.singles
    await here.create_queue("deep", QueueConfig(reactions_enabled=True))
    await fill(here, "deep", world.size.deep)
    chance = random.Random(1)

    async def one_each() -> Turn:
        sent = [receipt.id for receipt in await here.enqueue("deep", [b"x"] * count)]
        reacted, sends = list[float](), list[float]()
        for target in chance.sample(sent, count):
            reacted.append(await _took_ms(here.react("deep", Where(ids=(target,)), Cancel())))
            sends.append(await _took_ms(here.enqueue("deep", [b"x"])))
        return Turn(statistics.median(reacted), statistics.median(sends))

    await one_each()
    turns = [await one_each() for _ in range(world.size.turns)]
    what = f"p50 of React by id at {world.size.deep:,} queued / p50 of one enqueue there"
    return Figure(what, "ms", Bound(2.0), turns)


async def sticky(world: World) -> Figure:
    """A message in a queue that many reactions are kept for, none of which fits it, beside one in a queue without."""
    here, size = world.here, world.size
    for queue in ("empty", "kept"):
        await here.create_queue(queue, QueueConfig(reactions_enabled=True))
    left = list(range(size.kept))

    async def keep() -> None:
        while left:
            number = left.pop()
            by = (
                Where(ids=(number.to_bytes(16, "big"),)),
                Where(correlation_id=f"order-{number}"),
                Where(group_id=f"customer-{number}"),
            )
            done = await here.react("kept", by[number % 3], Cancel(), sticky=KEPT)
            assert done.kept, "nothing fits it yet"

    await asyncio.gather(*(keep() for _ in range(size.workers)))
    messages = [Outgoing(PAYLOAD, {"correlation_id": f"c-{n}", "group_id": f"g-{n}"}) for n in range(BATCH)]

    async def into(queue: str) -> float:
        before = members_cpu_us(world.first)
        for _ in range(size.repeats):
            await here.enqueue(queue, messages)
        return (members_cpu_us(world.first) - before) / size.repeats / BATCH

    turns = await in_turns(lambda: into("kept"), lambda: into("empty"), size.turns)
    what = f"a message into a queue with {size.kept:,} kept reactions / into one without, batches of {BATCH}"
    return Figure(what, "CPU us of both members", Bound(1.15), turns)


async def fill(client: aio.Client, queue: str, count: int) -> None:
    async with client.producer(queue) as producer:
        for first in range(0, count, 1_000):
            await producer.send_many([b"x" * 16] * min(1_000, count - first))


async def link(world: World) -> Figure:
    """Messages per second that come to the second pair through the link, beside Transact at the slower of both."""
    here, there, count = world.here, world.there, world.size.linked
    for client in (here, there):
        await client.create_queue("direct")
    await there.create_queue("far")
    arrived = 0

    async def put(client: aio.Client, queue: str) -> None:
        """So many by units of 100, four of them unanswered at a time."""
        message = Outgoing(PAYLOAD, {"persistent": True})
        left = [BATCH] * (count // BATCH)

        async def some() -> None:
            while left:
                await client.transact([], {queue: [message] * left.pop()}, forward=queue.startswith("//"))

        await asyncio.gather(*(some() for _ in range(4)))

    async def through() -> float:
        nonlocal arrived
        began = time.perf_counter()
        await put(here, f"//{TARGET}/far")
        arrived += count
        async with asyncio.timeout(WAIT_S):
            while (await there.get_queue("far")).length < arrived:  # noqa: ASYNC110 - no event comes
                await asyncio.sleep(0.02)
        return count / (time.perf_counter() - began)

    async def at_the_slower() -> float:
        rates = []
        for client in (here, there):
            began = time.perf_counter()
            await put(client, "direct")
            rates.append(count / (time.perf_counter() - began))
        return min(rates)

    turns = await in_turns(through, at_the_slower, world.size.turns)
    what = "messages that come to the second pair through the link / by Transact at the slower pair, units of 100"
    return Figure(what, "messages/s", Bound(0.5, at_least=True), turns)


async def units_a_second(world: World) -> Step:
    """What measures a turn of many workers, each with units of one acknowledgement and two messages."""
    here, size = world.here, world.size
    for queue in ("inbox", "outbox", "archive"):
        if not await is_there(here, queue):
            await here.create_queue(queue)

    async def worker(taken: Sequence[Any]) -> None:
        for batch in taken:
            await here.transact([batch], {"outbox": [PAYLOAD], "archive": [PAYLOAD]})

    async def turn() -> float:
        count = size.workers * size.units_each
        await here.enqueue("inbox", [PAYLOAD] * count)
        taken = await asyncio.gather(*(here.dequeue("inbox", wait=WAIT_S) for _ in range(count)))
        began = time.perf_counter()
        await asyncio.gather(*(worker(taken[first :: size.workers]) for first in range(size.workers)))
        return count / (time.perf_counter() - began)

    return turn


async def _took_ms(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1e3


async def is_there(client: aio.Client, queue: str) -> bool:
    try:
        await client.get_queue(queue)
    except NotFound:
        return False
    return True

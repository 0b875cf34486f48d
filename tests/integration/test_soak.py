"""Random kills and pauses of either member under load from both sides: nothing acknowledged is lost or doubled.

Long: `make soak` runs it. A seed draws the faults; the timing of processes is the machine's, so a seed does not replay.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tests.support.clusters import quick
from tests.support.until import until

pytestmark = [pytest.mark.process, pytest.mark.long]

SECONDS = 45
QUEUE = "soak"


@dataclass
class Account:
    """What the producers were told, and what the consumer got."""

    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    received: Counter[tuple[int, int]] = field(default_factory=Counter)
    order: list[tuple[int, int]] = field(default_factory=list)
    sending: bool = True

    def order_breaks(self) -> int:
        last: dict[int, int] = {}
        breaks = 0
        for producer, number in self.order:
            breaks += number < last.get(producer, -1)
            last[producer] = number
        return breaks


async def _produce(client: aio.Client, producer_number: int, account: Account, draw: random.Random) -> None:
    producer = client.producer(QUEUE)
    number = 0
    pending: set[asyncio.Task[None]] = set()

    async def send(first: int, count: int) -> None:
        await producer.send_many([b"%d:%d" % (producer_number, each) for each in range(first, first + count)])
        account.acknowledged.extend((producer_number, each) for each in range(first, first + count))

    while account.sending:
        count = draw.choice([1, 1, 7, 50])
        pending.add(asyncio.create_task(send(number, count)))
        number += count
        if len(pending) >= 20:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        await asyncio.sleep(draw.random() * 0.01)
    await asyncio.gather(*pending)
    await producer.close()


async def _consume(client: aio.Client, account: Account) -> None:
    consumer = client.consumer(QUEUE)
    async for batch in consumer.batches():
        for payload in batch.payloads:
            producer, number = map(int, bytes(payload).split(b":"))
            if not account.received[producer, number]:
                account.order.append((producer, number))
            account.received[producer, number] += 1
        batch.ack()


async def _hurt(cluster: Cluster, draw: random.Random) -> str:
    name, act = draw.choice("ab"), draw.choice(["kill", "kill", "restart at once", "pause"])
    if act == "pause":
        cluster.pause(name)
        await asyncio.sleep(draw.random() * 4)
        cluster.resume(name)
    else:
        cluster.kill(name)
        await asyncio.sleep(draw.random() * (2 if act == "kill" else 0.3))
        await cluster.restart(name)
    return act


async def _mains(client: aio.Client) -> list[Any]:
    return [answer.status.member.domains[0] for answer in await client.pair_status() if answer.status is not None]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(seed: int, tmp_path: Path) -> None:
    draw, account = random.Random(seed), Account()
    async with quick(tmp_path).running() as cluster:
        ends = [cluster.target, cluster.target, ",".join(reversed(cluster.endpoints))]
        clients = [aio.connect(end, follow_master=not place) for place, end in enumerate(ends)]
        async with clients[0] as watcher, clients[1] as first, clients[2] as second:
            await watcher.create_queue(QUEUE)
            producers = [
                asyncio.create_task(_produce(client, number, account, random.Random(seed * 10 + number)))
                for number, client in enumerate((watcher, first, second))
            ]
            consumer = asyncio.create_task(_consume(first, account))

            async def paired() -> bool:
                mains = await _mains(watcher)
                return len(mains) == 2 and all(main.link_state == 5 for main in mains)

            acts: Counter[str] = Counter()
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                await asyncio.sleep(1 + draw.random() * 2)
                acts[await _hurt(cluster, draw)] += 1
                await until(paired, "the pair is whole again")
            account.sending = False
            await asyncio.gather(*producers)

            async def drained() -> bool:
                return (await watcher.get_queue(QUEUE)).length == 0

            await until(drained, "everything was taken")

            async def equal() -> list[Any] | None:
                mains = await _mains(watcher)
                later = any(main.state_digest_later for main in mains)
                return mains if len({(main.digest, main.state_digest) for main in mains}) == 1 and not later else None

            await until(equal, "both members hold the same")
            info = await watcher.get_queue(QUEUE)
            consumer.cancel()
    lost = [each for each in account.acknowledged if not account.received[each]]
    assert not lost, f"{len(lost)} acknowledged messages never came, the first is {lost[0]}"
    assert info.enqueued_total == len(account.received), "stored twice, or never sent"
    assert account.order_breaks() == 0
    assert sum(acts.values()) >= 5, f"too few faults to say anything: {acts}"
    assert len(account.acknowledged) > 10_000, "too little traffic to say anything"

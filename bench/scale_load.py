"""Loads a manager for scale.py. One part a process; the result is one JSON line."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
from loops import run
from machine import cpu_us

from tandemq import aio, embedded
from tandemq.client.filtering import Where
from tandemq.config import ManagerConfig
from tandemq.v1 import pair_service_pb2 as pair_pb
from tandemq.v1.pair_service_pb2_grpc import PairServiceStub
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

AHEAD = 64  # calls under way at once
AT_ONCE, BATCH, ROUNDS = 100, 1_000, 60
STREAM = 250  # batches that one producer sends ahead
HOUR_MS = 3_600_000
FILLERS = 16
BEFORE_S, STEADY_S = 5.0, 0.005


async def queues(spec: dict[str, Any]) -> dict[str, Any]:
    """`count` queues, by as many calls at once as one connection bears well."""
    numbers = iter(range(spec["count"]))
    async with aio.connect(spec["target"]) as client:

        async def worker() -> None:
            for number in numbers:
                await client.create_queue(f"{spec['prefix']}/{number}")

        await client.list_queues("nothing")  # connected
        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(AHEAD)))
        return {"value": time.perf_counter() - began}


class Deep:
    """One queue of an unpaired manager inside this process, whose processor time is all there is to measure."""

    def __init__(self, client: aio.Client, feature: str, depth: int) -> None:
        self.client, self.feature, self.depth = client, feature, depth
        self.queue, self.random, self.numbers = f"{feature[:4]}-{depth}", random.Random(depth), itertools.count()
        self.soon = timedelta(milliseconds=1)

    def attributes(self, *, filling: bool) -> dict[str, Any]:
        """What a message has; those that fill the queue stay in it."""
        match self.feature:
            case "priority":
                return {"priority": self.random.randrange(5) if filling else self.random.randrange(5, 10)}
            case "selector by id":
                return {"correlation_id": f"id-{next(self.numbers)}"}
            case "delayed":
                return {"delay": timedelta(milliseconds=self.random.randrange(HOUR_MS, 9 * HOUR_MS))} if filling else {}
            case "expiry":
                return {"ttl": timedelta(milliseconds=self.random.randrange(HOUR_MS, 9 * HOUR_MS))}
            case _:
                return {}

    async def fill(self) -> None:
        await self.client.create_queue(self.queue, QueueConfig(max_length=1 << 40))
        for _ in range(self.depth // BATCH):
            await self.client.enqueue(
                self.queue, [aio.Outgoing(b"x" * 100, self.attributes(filling=True)) for _ in range(BATCH)]
            )
        info = await self.client.get_queue(self.queue)
        assert info.length == self.depth, info

    async def use(self, rounds: int) -> float:
        """Microseconds of processor time for a message that is sent, received and acknowledged; the depth stays."""
        began = time.process_time()
        for _ in range(rounds):
            several = [self.attributes(filling=False) for _ in range(AT_ONCE)]
            await self.client.enqueue(self.queue, [aio.Outgoing(b"x" * 100, each) for each in several])
            if self.feature == "selector by id":
                for each in several:
                    await self.take(1, Where("", (), each["correlation_id"], None))
            else:
                await self.take(AT_ONCE)
        return (time.process_time() - began) / rounds / AT_ONCE * 1e6

    async def take(self, count: int, where: Where | None = None) -> None:
        got = await self.client.dequeue(self.queue, count, where=where)
        assert len(got) == count
        await got.ack()


async def deep(spec: dict[str, Any]) -> dict[str, Any]:
    """The same work in a shallow queue and in a deep one of the same manager, in turn."""
    folder = Path(spec["directory"]) / spec["feature"].replace(" ", "-")
    config = ManagerConfig(member="deep", data_dir=str(folder), server_required=False)
    async with embedded.open_manager(config) as manager, embedded.connect(manager, timeout=600) as client:
        both = [Deep(client, spec["feature"], spec[depth]) for depth in ("shallow", "deep")]
        for each in both:
            await each.fill()
            await each.use(ROUNDS // 10)
        took = [[await each.use(ROUNDS // 3) for each in both] for _ in range(3)]
    shallow, deep_ = (sorted(column)[1] for column in zip(*took, strict=True))
    return {"shallow": shallow, "deep": deep_}


async def waiters(spec: dict[str, Any]) -> dict[str, Any]:
    """`count` batches of one message wait for room in a queue of one; then it is emptied, message by message."""
    async with aio.connect(spec["target"]) as client:
        await client.create_queue("full", QueueConfig(max_length=1))
        await client.enqueue("full", [b"first"])
        producers, sent = [], []
        for number in range(0, spec["count"], STREAM):
            producer = client.producer(
                "full", max_batch_messages=1, max_unanswered_batches=STREAM, full_wait=timedelta(minutes=30)
            )
            producers.append(producer)
            places = range(number, min(number + STREAM, spec["count"]))
            sent += [producer.send_nowait(b"%d" % place) for place in places]
            while (await client.get_queue("full")).waiters < len(sent):
                pass  # each call waits for its answer
        began = cpu_us(spec["pid"])
        await asyncio.sleep(spec["idle_s"])
        idle = (cpu_us(spec["pid"]) - began) / 1e3 / spec["idle_s"]
        consumer, order = client.consumer("full", credit_messages=1), []
        start = time.perf_counter()
        async for delivery in consumer:
            order.append(delivery.payload)
            await delivery.ack_async()
            if len(order) > spec["count"]:
                break
        served_s = time.perf_counter() - start
        assert order == [b"first", *(b"%d" % place for place in range(spec["count"]))], "not in the order of arrival"
        await asyncio.gather(*sent)
        await consumer.close()
        for producer in producers:
            await producer.close()
    return {"idle": idle, "served_s": served_s}


class Steady:
    """One producer that sends a message, waits for its answer, and sends the next one a little later."""

    def __init__(self, client: aio.Client) -> None:
        self.client = client
        self.took_ms: list[float] = []
        self.alone = 0
        """Answers that named one copy."""

    async def send(self, until: asyncio.Event) -> None:
        async with self.client.producer("copied") as producer:
            while not until.is_set():
                began = time.perf_counter()
                receipt = await producer.send(b"x" * 100)
                self.took_ms.append((time.perf_counter() - began) * 1e3)
                self.alone += receipt.copies == 1
                await asyncio.sleep(STEADY_S)

    async def send_for(self, seconds: float) -> None:
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, over.set)
        await self.send(over)


async def resync(spec: dict[str, Any]) -> dict[str, Any]:
    """An operator has the replica take everything anew; until the master says that it is in step again."""
    async with (
        aio.connect(spec["target"]) as client,
        aio.connect(spec["target"]) as other,
        grpc.aio.insecure_channel(spec["replica"]) as replica,
        grpc.aio.insecure_channel(spec["master"]) as master,
    ):
        await client.create_queue("copied", QueueConfig(max_length=1 << 40))
        rounds = iter(range(spec["count"] // AT_ONCE))

        async def fill() -> None:
            async with client.producer("copied", max_batch_messages=spec["batch"]) as producer:
                for _ in rounds:
                    await producer.send_many([b"x" * 100] * AT_ONCE)

        await asyncio.gather(*(fill() for _ in range(FILLERS)))
        assert (await client.get_queue("copied")).length == spec["count"] // AT_ONCE * AT_ONCE
        before, meanwhile, over = Steady(other), Steady(other), asyncio.Event()
        await before.send_for(BEFORE_S)
        known = len(await _told(master))
        sending = asyncio.create_task(meanwhile.send(over))
        began = time.perf_counter()
        answer = await PairServiceStub(replica).Resync(pair_pb.ResyncRequest(full=True, reason="bench"))
        assert answer.done, answer.text
        told: list[str] = []
        while not any("is in step: what is acknowledged has two copies" in text for text in told):
            assert not sending.done() or sending.result()
            await asyncio.sleep(0.1)
            told = (await _told(master))[known:]
        took_s = time.perf_counter() - began
        over.set()
        await sending
    longest = sorted(meanwhile.took_ms)
    return {
        "took_s": took_s,
        "transfers": sum(text.startswith("sends everything") for text in told),
        "before_ms": max(before.took_ms),
        "longest_ms": longest[-1],
        "p99_ms": longest[len(longest) * 99 // 100],
        "sends": len(longest),
        "alone": meanwhile.alone,
    }


async def _told(member: grpc.aio.Channel) -> list[str]:
    events = (await PairServiceStub(member).ListEvents(pair_pb.ListEventsRequest(limit=10_000))).events
    return [event.text for event in events]


KINDS = {"queues": queues, "deep": deep, "waiters": waiters, "resync": resync}


async def main() -> None:
    spec = json.loads(sys.argv[1])
    print(json.dumps(await KINDS[spec["kind"]](spec)), flush=True)


if __name__ == "__main__":
    run(main())

"""Loads a pair through the SDK, used as applications use it. One workload a process; the result is one JSON line.

Nothing is acknowledged on fewer than both members, and a queue that holds fewer messages afterwards than were
acknowledged ends the run.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from loops import run
from machine import Window, resident

from tandemq import aio
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

MIN_COPIES = 2
DRAIN_MAX_S = 60
"""What is under way when a measurement ends is back within seconds; what is not by then is lost."""


def payloads(spec: dict[str, Any]) -> list[bytes]:
    return [os.urandom(spec["size"]) for _ in range(spec["frame"])]


def producer_of(client: aio.Client, spec: dict[str, Any]) -> aio.Producer:
    return client.producer(
        spec["queue"],
        min_copies=MIN_COPIES,
        max_batch_messages=spec["frame"],
        max_unanswered_batches=spec["window"],
    )


async def enqueue(client: aio.Client, spec: dict[str, Any]) -> dict[str, Any]:
    """`window` tasks, each sending a chunk and waiting for its receipts."""
    window, chunk = Window(spec), payloads(spec)
    producer = producer_of(client, spec)

    async def worker() -> None:
        while not window.over:
            began = time.perf_counter()
            await producer.send_many(chunk)
            window.answered(len(chunk), time.perf_counter() - began)

    workers = [asyncio.create_task(worker()) for _ in range(spec["window"])]
    result = await window.measure()
    await asyncio.gather(*workers)
    return {**result, "left": window.messages}


async def single(client: aio.Client, spec: dict[str, Any]) -> dict[str, Any]:
    """`tasks` tasks, each sending one message at a time; the SDK gathers them."""
    window, payload = Window(spec), os.urandom(spec["size"])
    producer = client.producer(spec["queue"], min_copies=MIN_COPIES)

    async def worker() -> None:
        while not window.over:
            began = time.perf_counter()
            await producer.send(payload)
            window.answered(1, time.perf_counter() - began)

    workers = [asyncio.create_task(worker()) for _ in range(spec["tasks"])]
    result = await window.measure()
    await asyncio.gather(*workers)
    return {**result, "left": window.messages}


async def flow(client: aio.Client, spec: dict[str, Any]) -> dict[str, Any]:
    """Both sides at work: counted is what was received and acked, with at most `backlog` messages between."""
    window, chunk = Window(spec), payloads(spec)
    producer = producer_of(client, spec)
    consumer = client.consumer(spec["queue"], credit_messages=spec["credit"])
    room, under_way = asyncio.Event(), 0

    async def worker() -> None:
        nonlocal under_way
        while not window.over:
            while under_way >= spec["backlog"]:
                room.clear()
                await room.wait()
            under_way += len(chunk)
            await producer.send_many(chunk)

    async def receive() -> None:
        nonlocal under_way
        async for batch in consumer.batches():
            count = len(batch.payloads)
            batch.ack()
            under_way -= count
            room.set()
            window.answered(count, 0.0)

    receiver = asyncio.create_task(receive())
    workers = [asyncio.create_task(worker()) for _ in range(spec["window"])]
    result, drain_max_s = await window.measure(), spec.get("drain_max_s", DRAIN_MAX_S)
    try:
        async with asyncio.timeout(drain_max_s):
            await asyncio.gather(*workers)
            while under_way > 0:
                room.clear()
                await room.wait()
            await consumer.settled()
    except TimeoutError:
        lost = f"{under_way:,} messages were sent and have not come back, or are not settled, after {drain_max_s} s"
        raise SystemExit(f"{spec['queue']}: {lost}") from None
    assert consumer.lost == 0, f"{consumer.lost} settlements were refused"
    await consumer.close()
    await receiver
    return {**result, "left": 0}


async def latency(client: aio.Client, spec: dict[str, Any]) -> dict[str, Any]:
    """One message in flight."""
    result = await single(client, {**spec, "tasks": 1})
    return {**result, "value": round(result["p50_ms"] * 1e3, 1)}


async def memory(client: aio.Client, spec: dict[str, Any]) -> dict[str, Any]:
    """Queues `count` messages twice: from a fresh start, and again when the ring of recent records is full."""
    chunk, steps = payloads(spec), []
    pid = spec["pids"]["master"]
    await client.create_queue("warm-up")
    async with client.producer("warm-up", max_batch_messages=spec["frame"]) as producer:
        await producer.send_many(chunk)
    await asyncio.sleep(1)
    for part in range(2):
        queue = f"{spec['queue']}-{part}"
        await client.create_queue(queue)
        before = resident(pid)
        async with client.producer(queue, max_batch_messages=spec["frame"], max_unanswered_batches=16) as producer:
            for _ in range(0, spec["count"], len(chunk) * 100):
                await producer.send_many(chunk * 100)
        await asyncio.sleep(1)
        after = resident(pid)
        steps.append({kind: after[kind] - before[kind] for kind in after})
    return {"steps": steps}


KINDS = {"enqueue": enqueue, "single": single, "flow": flow, "latency": latency, "memory": memory}


async def main() -> None:
    spec = json.loads(sys.argv[1])
    async with aio.connect(spec["target"]) as client:
        if spec["kind"] != "memory":
            # No length limit: a run sends more than the default of ten million messages.
            await client.create_queue(spec["queue"], QueueConfig(max_length=1 << 40, max_bytes=1 << 50))
        result = await KINDS[spec["kind"]](client, spec)
        if spec["kind"] != "memory":
            left, found = result.pop("left"), await client.purge_queue(spec["queue"])
            if left != found:
                raise SystemExit(f"{left:,} messages must be in the queue {spec['queue']}, and {found:,} are")
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    run(main())

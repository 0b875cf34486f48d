"""Tandemq through its SDK, as applications use it: batches of payloads, several unanswered; batches received and
acked.
"""

from __future__ import annotations

import asyncio
import time

import uvloop

from bench.peers.load import WAIT_S, Job
from tandemq import aio
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

CREDIT_BYTES = 64 << 20
LOOK_S = 0.05


def prepare(job: Job) -> None:
    async def work() -> None:
        async with aio.connect(job.target["servers"]) as client:
            # No length limit: a run sends more than the default of ten million messages.
            await client.create_queue(job.queue, QueueConfig(max_length=1 << 40, max_bytes=1 << 50))

    uvloop.run(work())


def produce(job: Job) -> None:
    uvloop.run(producing(job))


async def producing(job: Job) -> None:
    lanes = max(1, job.window // job.batch)

    async def lane(producer: aio.Producer) -> None:
        while not job.over:
            if not (payloads := job.take(job.batch)):
                await asyncio.sleep(WAIT_S)
                continue
            began = time.perf_counter()
            receipts = await producer.send_many(payloads)
            assert all(run.copies == 2 for run in receipts.runs), "acknowledged on one copy"
            job.answered(len(payloads), began)

    async with (
        aio.connect(job.target["servers"]) as client,
        client.producer(
            job.queue, min_copies=2, max_batch_messages=job.batch, max_unanswered_batches=lanes
        ) as producer,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(lanes):
            group.create_task(lane(producer))


def consume(job: Job) -> None:
    uvloop.run(consuming(job))


async def consuming(job: Job) -> None:
    async with aio.connect(job.target["servers"]) as client:
        consumer = client.consumer(job.queue, credit_messages=job.window, credit_bytes=CREDIT_BYTES)

        async def receive() -> None:
            async for batch in consumer.batches():
                job.received(batch.payloads)
                batch.ack()

        receiving = asyncio.create_task(receive())
        # What it waits for is told by another process: there is no event to wait for.
        while not job.done() and not receiving.done():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        if receiving.done():
            receiving.result()
        await consumer.settled()
        assert consumer.lost == 0, f"{consumer.lost} settlements were refused"
        await consumer.close()
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)

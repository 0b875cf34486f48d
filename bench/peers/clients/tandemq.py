"""Tandemq through its SDK, as applications use it: batches of payloads, several unanswered; batches received and
acked.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import uvloop

from bench.peers.clients.spread import Due, when_due
from bench.peers.load import Job, Taken
from tandemq import aio
from tandemq.client.receipts import Receipt
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
    uvloop.run(open_loop(job) if job.paced else producing(job))


async def producing(job: Job) -> None:
    lanes, copies = max(1, job.window // job.batch), job.target.get("copies", 2)

    async def send(payloads: Taken) -> None:
        receipts = await producer.send_many(payloads)
        assert all(run.copies >= copies for run in receipts.runs), "acknowledged on too few copies"
        job.answered(len(payloads), payloads.began)

    async def lane() -> None:
        while not job.over:
            if payloads := job.take(job.batch):
                await send(payloads)
            else:
                await asyncio.sleep(job.wait_s)

    async with (
        aio.connect(job.target["servers"]) as client,
        client.producer(
            job.queue, min_copies=copies, max_batch_messages=job.batch, max_unanswered_batches=lanes
        ) as producer,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(lanes):
            group.create_task(lane())


async def open_loop(job: Job) -> None:
    """As an application sends: each message by itself, with the defaults of the SDK, which gathers them."""
    copies = job.target.get("copies", 2)
    failures: list[BaseException] = []
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(aio.connect(job.target["servers"])) for _ in range(job.producers)]
        producers = [
            await stack.enter_async_context(client.producer(job.queue, min_copies=copies)) for client in clients
        ]

        def hand(number: int, message: Due) -> None:
            payload, due = message

            def answered(done: asyncio.Future[Receipt]) -> None:
                failure = done.exception()
                if failure is None and done.result().copies >= copies:
                    job.answered(1, due)
                else:
                    failures.append(failure or AssertionError("acknowledged on too few copies"))

            producers[number].send_nowait(payload).add_done_callback(answered)

        await when_due(job, job.producers, hand)
        await asyncio.gather(*(producer.flush() for producer in producers))
    if failures:
        raise failures[0]


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
        # After a fault a lease may be another's by then; whether a message is lost is told by the account.
        assert consumer.lost == 0 or job.target.get("hurt"), f"{consumer.lost} settlements were refused"
        await consumer.close()
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)

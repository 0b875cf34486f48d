"""NATS JetStream through nats-py, at the stream's leader: a work queue made of a stream with interest retention.

A consumer acknowledges a whole fetch by its last message (policy "all", which work-queue retention does not allow;
interest retention with one consumer removes what is acknowledged as well). A producer publishes message by message
with many unanswered; where the target says so, a thousand messages have one answer: in atomic batches (servers from
2.12 on), or fast ones (2.14), which store each message as it comes and answer when the last one is stored.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NoMessages
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from bench.peers.clients.spread import Due, when_due
from bench.peers.load import WAIT_S, Job

DURABLE = "bench"
FETCH_S, ANSWER_S = 0.2, 30.0
ACKS_PENDING = 50_000
FAST_START, FAST_APPEND, FAST_COMMIT = range(3)
FAST_FLOW = 500  # messages between two answers of flow, which nobody here waits for: batches are small
BATCH_ID, BATCH_SEQUENCE, BATCH_COMMIT = "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    client = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False, pending_size=16 << 20)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def at_leader(job: Job) -> AsyncIterator[Client]:
    """A connection to the server that leads the stream: each other one would hand everything on."""
    ports: dict[str, int] = job.target["servers"]
    async with connected(next(iter(ports.values()))) as client:
        cluster = (await client.jetstream().stream_info(job.queue)).cluster
        leader = cluster.leader if cluster else next(iter(ports))
    async with connected(ports[str(leader)]) as client:
        yield client


def prepare(job: Job) -> None:
    async def work() -> None:
        async with connected(next(iter(job.target["servers"].values()))) as client:
            stream = client.jetstream(timeout=ANSWER_S)
            if any(info.config.name == job.queue for info in await stream.streams_info()):
                await stream.delete_stream(job.queue)
            config = StreamConfig(
                name=job.queue,
                subjects=[job.queue],
                retention=RetentionPolicy.INTEREST,
                storage=StorageType.FILE,
                num_replicas=len(job.target["servers"]),
            )
            config.allow_atomic = job.target["batches"] == "atomic" or None  # older servers know neither
            config.allow_batched = job.target["batches"] == "fast" or None
            await stream.add_stream(config)
            # Before the first message: interest retention keeps only what somebody waits for.
            await stream.add_consumer(
                job.queue,
                ConsumerConfig(
                    durable_name=DURABLE, ack_policy=AckPolicy.ALL, max_ack_pending=ACKS_PENDING, ack_wait=300
                ),
            )

    uvloop.run(work())


def produce(job: Job) -> None:
    if job.paced:
        uvloop.run(open_loop(job))
        return
    way = {"atomic": atomically, "fast": fast}.get(job.target["batches"], each) if job.batch > 1 else each
    uvloop.run(way(job))


async def each(job: Job) -> None:
    if job.window == 1:
        await one_in_flight(job)
        return
    async with at_leader(job) as client:
        stream = client.jetstream(timeout=ANSWER_S, publish_async_max_pending=job.window)
        failures: list[BaseException] = []

        async def one(payload: bytes) -> None:
            began = time.perf_counter()
            future = await stream.publish_async(job.queue, payload)

            def answered(done: asyncio.Future[object]) -> None:
                if failure := done.exception():
                    failures.append(failure)
                else:
                    job.answered(1, began)

            future.add_done_callback(answered)

        while not job.over:
            if not (payloads := job.take(job.batch)):
                await asyncio.sleep(WAIT_S)
                continue
            for payload in payloads:
                await one(payload)
            assert not failures, failures
        await asyncio.wait_for(stream.publish_async_completed(), ANSWER_S)
        assert not failures, failures


async def open_loop(job: Job) -> None:
    """Each message by itself, on the connection of its producer, whatever is unanswered."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(at_leader(job)) for _ in range(job.producers)]
        streams = [client.jetstream(timeout=ANSWER_S, publish_async_max_pending=job.window) for client in clients]
        failures: list[BaseException] = []
        publishing: set[asyncio.Task[None]] = set()

        async def publish(number: int, payload: bytes, due: float) -> None:
            def answered(done: asyncio.Future[object]) -> None:
                if failure := done.exception():
                    failures.append(failure)
                else:
                    job.answered(1, due)

            (await streams[number].publish_async(job.queue, payload)).add_done_callback(answered)

        def hand(number: int, message: Due) -> None:
            task = asyncio.create_task(publish(number, *message))
            publishing.add(task)
            task.add_done_callback(publishing.discard)

        await when_due(job, job.producers, hand)
        await asyncio.gather(*publishing)
        for stream in streams:
            await asyncio.wait_for(stream.publish_async_completed(), ANSWER_S)
        assert not failures, failures


async def one_in_flight(job: Job) -> None:
    async with at_leader(job) as client:
        stream = client.jetstream(timeout=ANSWER_S)
        while not job.over:
            began = time.perf_counter()
            await stream.publish(job.queue, *job.take(1))
            job.answered(1, began)


async def atomically(job: Job) -> None:
    async with at_leader(job) as client:

        async def lane() -> None:
            while not job.over:
                began = time.perf_counter()
                if not (payloads := job.take(job.batch)):
                    await asyncio.sleep(WAIT_S)
                    continue
                batch = uuid.uuid4().hex
                for place, payload in enumerate(payloads[:-1], 1):
                    await client.publish(job.queue, payload, headers={BATCH_ID: batch, BATCH_SEQUENCE: str(place)})
                headers = {BATCH_ID: batch, BATCH_SEQUENCE: str(len(payloads)), BATCH_COMMIT: "1"}
                answer = json.loads((await client.request(job.queue, payloads[-1], ANSWER_S, headers=headers)).data)
                assert "error" not in answer, answer
                assert answer["count"] == len(payloads), answer
                job.answered(len(payloads), began)

        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, job.window // job.batch)):
                group.create_task(lane())


async def fast(job: Job) -> None:
    """nats-py has no call for it: what a message is to its batch stands in its reply subject."""
    async with at_leader(job) as client, asyncio.TaskGroup() as group:
        for _ in range(max(1, job.window // job.batch)):
            group.create_task(fast_lane(job, client))


async def fast_lane(job: Job, client: Client) -> None:
    inbox, answers = client.new_inbox(), asyncio.Queue[dict[str, Any]]()

    async def told(message: Msg) -> None:
        found = json.loads(message.data)
        if found.get("type") != "ack":  # of flow: so many were stored so far
            answers.put_nowait(found)

    await client.subscribe(f"{inbox}.>", cb=told)
    while not job.over:
        began = time.perf_counter()
        if not (payloads := job.take(job.batch)):
            await asyncio.sleep(WAIT_S)
            continue
        count, batch = len(payloads), f"{inbox}.{uuid.uuid4().hex}.{FAST_FLOW}.fail"
        for place, payload in enumerate(payloads, 1):
            step = FAST_COMMIT if place == count else FAST_START if place == 1 else FAST_APPEND
            await client.publish(job.queue, payload, reply=f"{batch}.{place}.{step}.$FI")
        answer = await asyncio.wait_for(answers.get(), ANSWER_S)
        assert answer.get("count") == count, answer
        job.answered(count, began)


def consume(job: Job) -> None:
    uvloop.run(consuming(job))


async def consuming(job: Job) -> None:
    async with at_leader(job) as client:
        stream = client.jetstream(timeout=ANSWER_S)
        subscription = await stream.pull_subscribe_bind(
            DURABLE, job.queue, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        last = None
        while not job.done():
            try:
                messages = await subscription.fetch(job.batch, timeout=FETCH_S)
            except (NoMessages, TimeoutError):  # its own, or the loop's where the server is late
                continue
            if not messages:  # a server that is late may end a fetch without one
                continue
            job.received([message.data for message in messages])
            last = messages[-1]
            await last.ack()
        if last is not None:
            await client.flush()

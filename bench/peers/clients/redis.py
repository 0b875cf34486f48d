"""Redis through redis-py: a stream and one consumer group. A request is a pipeline of XADD that ends in WAIT.

The pipeline is not a transaction, and each message has an id of its own. A few connections take turns, so that batches
are made while others are synced, and one sync serves several. A consumer acknowledges a batch and asks for the next in
one round trip; it does not wait for the second node, as no client here waits for its acknowledgements.
"""

from __future__ import annotations

import asyncio
import time

import redis.asyncio as asyncio_redis
import uvloop
from redis import Redis

from bench.peers.clients.spread import Due, Send, one_request_each
from bench.peers.load import Job, in_lanes

GROUP = "bench"
CONNECTIONS = 5
SYNC_MS = 10_000  # how long a copy may take before the run fails
SYNCED = ("WAIT", 1, SYNC_MS)
BLOCK_MS = 100


def connect(job: Job) -> Redis:
    return Redis(host=job.target["host"], port=job.target["port"], protocol=2)


def prepare(job: Job) -> None:
    with connect(job) as redis:
        redis.delete(job.queue)
        redis.xgroup_create(job.queue, GROUP, id="0", mkstream=True)


def produce(job: Job) -> None:
    if job.producers > 1:
        uvloop.run(produce_from_many(job))
    else:
        in_lanes(job, CONNECTIONS, produce_lane)


async def produce_from_many(job: Job) -> None:
    """Producers of their own: a connection each, one request under way on it."""
    clients = [
        asyncio_redis.Redis(host=job.target["host"], port=job.target["port"], protocol=2, single_connection_client=True)
        for _ in range(job.producers)
    ]

    def send_by(redis: asyncio_redis.Redis) -> Send:
        async def send(messages: list[Due]) -> None:
            pipeline = redis.pipeline(transaction=False)
            for payload, _ in messages:
                pipeline.execute_command("XADD", job.queue, "*", "b", payload)
            pipeline.execute_command(*SYNCED)
            check_synced((await pipeline.execute())[-1])

        return send

    await asyncio.gather(*(client.initialize() for client in clients))
    await one_request_each(job, [send_by(client) for client in clients])
    await asyncio.gather(*(client.aclose() for client in clients))


def check_synced(copies: int) -> None:
    assert copies >= 1, "the replica did not answer in time"


def produce_lane(job: Job) -> None:
    with connect(job) as redis:
        while not job.over:
            if not (payloads := job.take(job.batch)):
                time.sleep(job.wait_s)
                continue
            pipeline = redis.pipeline(transaction=False)
            for payload in payloads:
                pipeline.execute_command("XADD", job.queue, "*", "b", payload)
            pipeline.execute_command(*SYNCED)
            check_synced(pipeline.execute()[-1])
            job.answered(len(payloads), payloads.began)


def consume(job: Job) -> None:
    settled: list[bytes] = []
    with connect(job) as redis:
        while not job.done() or settled:
            pipeline = redis.pipeline(transaction=False)
            if settled:
                pipeline.execute_command("XACK", job.queue, GROUP, *settled)
                pipeline.execute_command("XDEL", job.queue, *settled)
            read = ("XREADGROUP", "GROUP", GROUP, "c", "COUNT", job.batch, "BLOCK", BLOCK_MS, "STREAMS", job.queue, ">")
            pipeline.execute_command(*read)
            found = pipeline.execute()[-1]
            entries = found[0][1] if found else []
            settled = [number for number, _ in entries]
            job.received([fields[b"b"] if isinstance(fields, dict) else fields[1] for _, fields in entries])
        redis.execute_command(*SYNCED)

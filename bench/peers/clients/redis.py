"""Redis through redis-py: a stream and one consumer group. A request is a pipeline of XADD that ends in WAIT or
WAITAOF.

The pipeline is not a transaction, and each message has an id of its own. A few connections take turns, so that batches
are made while others are synced, and one sync serves several. A consumer acknowledges a batch and asks for the next in
one round trip; it does not wait for the second node, as no client here waits for its acknowledgements.
"""

from __future__ import annotations

import time

from redis import Redis

from bench.peers.load import Job, in_lanes

GROUP = "bench"
CONNECTIONS = 5
SYNC_MS = 10_000  # how long a copy may take before the run fails
BLOCK_MS = 100


def connect(job: Job) -> Redis:
    return Redis(host=job.target["host"], port=job.target["port"], protocol=2)


def prepare(job: Job) -> None:
    with connect(job) as redis:
        redis.delete(job.queue)
        redis.xgroup_create(job.queue, GROUP, id="0", mkstream=True)


def produce(job: Job) -> None:
    in_lanes(job, CONNECTIONS, produce_lane)


def produce_lane(job: Job) -> None:
    with connect(job) as redis:
        while not job.over:
            if not (payloads := job.take(job.batch)):
                time.sleep(job.wait_s)
                continue
            pipeline = redis.pipeline(transaction=False)
            for payload in payloads:
                pipeline.execute_command("XADD", job.queue, "*", "b", payload)
            if job.target["waitaof"]:
                pipeline.execute_command("WAITAOF", 1, 1, SYNC_MS)
                local, copies = pipeline.execute()[-1]
                synced = local >= 1 and copies >= 1
            else:
                pipeline.execute_command("WAIT", 1, SYNC_MS)
                synced = pipeline.execute()[-1] >= 1
            assert synced, "the replica did not answer in time"
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
        redis.execute_command("WAIT", 1, SYNC_MS)

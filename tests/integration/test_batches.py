"""Numbered batches over real gRPC and real disks: the same messages under the same number, over kill -9 and restarts,
until they are acknowledged or nobody did so in time.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.errors import Refused, ResourceExhausted
from tandemq.v1 import batch_service_pb2 as pb
from tandemq.v1 import batch_service_pb2_grpc
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_name, raw_to, refused, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

NAME = "spark"


pair = module_pair()
client = module_client()


async def filled(client: aio.Client, count: int, size: int = 10) -> str:
    queue = new_name()
    await client.create_queue(queue)
    await client.producer(queue).send_many([f"{at}".encode().ljust(size) for at in range(1, count + 1)])
    return queue


async def content(client: aio.Client, queue: str, number: int, **part: Any) -> list[tuple[int, bytes, bytes]]:
    found: list[tuple[int, bytes, bytes]] = []
    async for page in client.read_batch(queue, NAME, number, **part):
        found += [(each.index, each.id, each.payload) for each in page]
    return found


@pytest.mark.promise
async def test_a_batch_is_the_same_after_kill_9_of_either_member(tmp_path: Path) -> None:
    """Killed while two batches are out; what is acknowledged does not come again, the rest comes in order."""
    cluster = patient(tmp_path)
    try:
        await cluster.start()
        async with aio.connect(cluster.target) as client:
            queue = await filled(client, 100)
            taken = [await client.lease_batch(queue, NAME, number, max_messages=30) for number in (1, 2)]
            before = [await content(client, queue, number) for number in (1, 2)]
            assert [[index for index, _, _ in each] for each in before] == [list(range(1, 31)), list(range(31, 61))]
            for round_ in range(2):
                master, _ = await roles(cluster)
                cluster.kill(master)
                assert [await content(client, queue, number) for number in (1, 2)] == before, f"kill {round_}"
                again = [await client.lease_batch(queue, NAME, number, max_messages=5) for number in (1, 2)]
                assert [each and (each.messages, each.lease_id) for each in again] == [
                    each and (each.messages, each.lease_id) for each in taken
                ]
                await cluster.restart(master)
            await client.ack_batch(queue, NAME, 1)
            master, _ = await roles(cluster)
            cluster.kill(master)
            await client.ack_batch(queue, NAME, 1)
            with pytest.raises(Refused, match="BATCH_GONE"):
                await content(client, queue, 1)
            assert await content(client, queue, 2) == before[1]
            await client.ack_batch(queue, NAME, 2)
            await client.lease_batch(queue, NAME, 3)
            assert [index for index, _, _ in await content(client, queue, 3)] == list(range(61, 101))
            assert (await client.get_batches(queue, NAME)).last_number == 3
    finally:
        await cluster.stop()


async def test_what_nobody_acknowledges_in_time_is_delivered_again_in_order(client: aio.Client) -> None:
    queue = await filled(client, 10)
    taken = await client.lease_batch(queue, NAME, 1, max_messages=4, lease=timedelta(milliseconds=500))
    assert taken is not None
    assert taken.messages == 4

    async def returned() -> bool:
        return (await client.get_queue(queue)).ready == 10

    await until(returned, "its lease has ended")
    for work in (client.ack_batch(queue, NAME, 1), content(client, queue, 1), client.lease_batch(queue, NAME, 1)):
        with pytest.raises(Refused, match="BATCH_GONE"):
            await work
    await client.lease_batch(queue, NAME, 2)
    assert [index for index, _, _ in await content(client, queue, 2)] == list(range(1, 11))


async def test_a_batch_is_read_in_pages_and_parts(client: aio.Client) -> None:
    queue = await filled(client, 300, size=20_000)
    assert (await client.lease_batch(queue, NAME, 1, max_messages=300)) is not None
    whole = await content(client, queue, 1)
    assert [index for index, _, _ in whole] == list(range(1, 301))
    parts = [await content(client, queue, 1, first=first, until=first + 100) for first in (0, 100, 200)]
    assert [row for part in parts for row in part] == whole
    assert await content(client, queue, 1, first=300) == []
    await client.ack_batch(queue, NAME, 1)
    assert (await client.get_queue(queue)).length == 0


async def test_numbers_are_taken_one_after_another(client: aio.Client) -> None:
    queue = await filled(client, 20)
    assert await client.lease_batch(queue, NAME, 7, max_messages=1) is not None
    with pytest.raises(Refused, match=r"BATCH_GAP.*take 8") as gap:
        await client.lease_batch(queue, NAME, 9)
    assert gap.value.metadata["last_number"] == "7"
    for number in range(8, 15):
        await client.lease_batch(queue, NAME, number, max_messages=1)
    with pytest.raises(ResourceExhausted, match="QUOTA_EXCEEDED"):
        await client.lease_batch(queue, NAME, 15, max_messages=1)
    found = await client.get_batches(queue, NAME)
    assert (found.last_number, [each.number for each in found.batches]) == (14, list(range(7, 15)))
    empty = new_name()
    await client.create_queue(empty)
    assert await client.lease_batch(empty, NAME, 1) is None
    assert (await client.get_batches(empty, NAME)).last_number == 0


async def test_bad_input_is_refused_by_name(pair: Cluster, client: aio.Client) -> None:
    queue, asked, invalid = await filled(client, 1), new_name(), grpc.StatusCode.INVALID_ARGUMENT
    await client.create_queue(asked, admin.QueueConfig(queue_type=admin.QUEUE_TYPE_TWO_WAY))
    async with raw_to(pair.endpoint("b")) as (member,):
        stub: Any = batch_service_pb2_grpc.BatchServiceStub(member.channel)

        async def lease(**fields: Any) -> Any:
            request = pb.LeaseBatchRequest(**{"queue": queue, "consumer": NAME, "number": 1} | fields)
            return await stub.LeaseBatch(request, timeout=OUTER_S)

        for words, fields in (
            ("10000 messages", {"max_messages": 10_001}),
            ("67108864 bytes", {"max_bytes": (64 << 20) + 1}),
            ("43200 s", {"lease_duration": {"seconds": 43_201}}),
            ("43200 s", {"lease_duration": {"seconds": 1 << 40}}),
            ("43200 s", {"lease_duration": {}}),
            ("numbered from 1", {"number": 0}),
        ):
            with refused("BAD_REQUEST", invalid, words):
                await lease(**fields)
        with refused("BAD_NAME", invalid, "a/b"):
            await lease(consumer="a/b")
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "nobody-made-this"):
            await lease(queue="nobody-made-this")
        with refused("REPLY_REQUIRED", grpc.StatusCode.FAILED_PRECONDITION, asked):
            await lease(queue=asked)
        with refused("BATCH_GONE", grpc.StatusCode.FAILED_PRECONDITION, "batch 5"):
            await stub.AckBatch(pb.AckBatchRequest(queue=queue, consumer=NAME, number=5), timeout=OUTER_S)
        with refused("BAD_REQUEST", invalid, "LeaseBatchRequest"):
            await member.bytes_call("/tandemq.v1.BatchService/LeaseBatch", b"\xff\xff")
        first = await lease()
        assert (await lease(max_messages=9)).batch == first.batch
        acked = pb.AckBatchRequest(queue=queue, consumer=NAME, number=1)
        assert [(await stub.AckBatch(acked, timeout=OUTER_S)).duplicate for _ in range(2)] == [False, True]

"""A queue with PRODUCER replication on the ways `tcp` and `replica` at once, over a failover: both send, both take, and
both are given the same messages in the same order.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tandemq import aio
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.client_suite.ways import to
from tests.integration.support import roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

COUNT = 150
"""By each way; what is sent when the master dies is sent once."""


async def send(client: aio.Client, way: str) -> None:
    for number in range(COUNT):
        await client.send("q", f"{number} by {way}".encode())


async def take(client: aio.Client, taken: dict[int, bytes]) -> None:
    """Everything, each index once as this process acts on it."""
    async with asyncio.timeout(OUTER_S), client.consumer("q") as consumer:
        while len(taken) < 2 * COUNT:
            delivery = await anext(consumer)
            assert delivery.index <= len(taken) + 1, "something was left out"
            taken.setdefault(delivery.index, delivery.payload)
            delivery.ack()
        await consumer.settled()


@pytest.mark.promise
@pytest.mark.requirement("R102", "R103")
async def test_both_ways_send_to_and_take_from_a_queue_with_sides_over_a_failover(tmp_path: Path) -> None:
    async with patient(tmp_path).running() as pair:
        master, replica = await roles(pair)
        async with (
            to(pair.target)() as tcp,
            to(pair.endpoint(master), follow_master=False)() as at_master,  # its side is served nowhere else
            to(pair.endpoint(replica), follow_master=False)() as by_replica,
        ):
            await tcp.create_queue("q", admin.QueueConfig(replication=admin.REPLICATION_PRODUCER))
            first: dict[int, bytes] = {}
            second: dict[int, bytes] = {}
            work = [
                asyncio.create_task(each)
                for each in (
                    send(tcp, "tcp"),
                    send(by_replica, "replica"),
                    take(at_master, first),
                    take(by_replica, second),
                )
            ]
            await until(lambda: min(len(first), len(second)) >= COUNT // 2, "both ways are at work")
            pair.kill(master)
            await until(lambda: len(second) >= COUNT, "the survivor's side goes on")
            await pair.restart(master)
            await asyncio.gather(*work)
            assert list(first.items()) == list(second.items()), "the same, in the same order"
            sent = {f"{number} by {way}".encode() for number in range(COUNT) for way in ("tcp", "replica")}
            assert set(first.values()) == sent
            assert len(first) == len(sent), "each once"
            for way in ("tcp", "replica"):
                own = [payload for payload in first.values() if payload.endswith(way.encode())]
                assert own == [f"{number} by {way}".encode() for number in range(COUNT)], "in the order of its sender"

            async def is_empty() -> bool:
                return (await tcp.get_queue("q")).length == 0

            await until(is_empty, "both sides have passed everything")

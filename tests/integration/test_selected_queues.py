"""Queues with lockstep SELECTED over real processes: priorities, and one order for both sides, whoever dies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.consumer import Consumer
from tandemq.client.reactions import Cancel
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

SELECTED = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER, lockstep=admin.LOCKSTEP_SELECTED)
HALF, ALL = 500, 1_000


class Twin:
    """A process of one side, as far as it is seen: what it has acted on, each number once."""

    def __init__(self, client: aio.Client) -> None:
        self.client = client
        self.acted: list[bytes] = []

    async def act(self, until_number: int) -> None:
        """Up to there. What comes again was settled by nobody, and comes before anything new."""
        consumer: Consumer = self.client.consumer("q", credit_messages=20)
        async with asyncio.timeout(OUTER_S), consumer:
            while len(self.acted) < until_number:
                delivery = await anext(consumer)
                assert delivery.index <= len(self.acted) + 1, f"{delivery.index} after {len(self.acted)}"
                if delivery.index == len(self.acted) + 1:
                    self.acted.append(delivery.payload)
                assert self.acted[delivery.index - 1] == delivery.payload, "the k-th stays the k-th"
                delivery.ack()
            await consumer.settled()


async def test_k5_a_reaction_finds_only_what_is_not_selected(tmp_path: Path) -> None:
    config = admin.QueueConfig(reactions_enabled=True)
    config.MergeFrom(SELECTED)
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target, timeout=OUTER_S) as client:
        await client.create_queue("q", config)
        await client.enqueue("q", [b"%d" % number for number in range(1, 31)])
        async with at(cluster, "a") as at_a, at_a.consumer("q", credit_messages=1) as consumer:
            assert (await anext(consumer)).payload == b"1"
            found = await client.react("q", "tq_index > 0", Cancel(), everything=True)
        info = await client.get_queue("q")
        assert info.length == info.last_selected == found.locked < 10
        assert found.applied == 30 - found.locked


def at(cluster: Cluster, name: str) -> aio.Client:
    return aio.connect(cluster.endpoint(name), timeout=OUTER_S, follow_master=False)


async def test_k3_two_sides_act_on_priorities_in_one_order_through_a_takeover(tmp_path: Path) -> None:
    async with (
        patient(tmp_path).running() as cluster,
        aio.connect(cluster.target, timeout=OUTER_S) as client,
        at(cluster, "a") as at_a,
        at(cluster, "b") as at_b,
    ):
        twins = {"a": Twin(at_a), "b": Twin(at_b)}
        await client.create_queue("q", SELECTED)

        async def send(first: int, last: int) -> None:
            async with client.producer("q") as producer:
                for number in range(first, last + 1):
                    producer.send_nowait(b"%d" % number, priority=number % 10)
                await producer.flush()

        master, replica = await roles(cluster)
        await send(1, HALF)
        acting = {name: asyncio.create_task(twin.act(ALL)) for name, twin in twins.items()}
        sending = asyncio.create_task(send(HALF + 1, ALL))
        await until(lambda: min(len(twin.acted) for twin in twins.values()) >= 100, "both have begun")
        cluster.kill(master)
        await sending
        await acting[replica]
        await cluster.restart(master)
        await acting[master]
        assert twins["a"].acted == twins["b"].acted
        assert sorted(map(int, twins["a"].acted)) == list(range(1, ALL + 1))
        assert twins["a"].acted[0] == b"9", "the highest priority first"
        for priority in range(10):
            of_it = [number for number in map(int, twins["a"].acted) if number % 10 == priority]
            assert of_it == sorted(of_it), "those of one priority in the order in which they were sent"

        async def is_empty() -> bool:
            return (await client.get_queue("q")).length == 0

        await until(is_empty, "what both sides have passed is gone")

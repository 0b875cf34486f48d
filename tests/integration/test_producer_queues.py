"""Queues with PRODUCER replication over real processes: each side gets the same messages in the same order, from its
own member, whatever its role is and whoever dies.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from chaos.cluster import WITNESS, Cluster
from tandemq import aio
from tandemq.client.consumer import Consumer
from tandemq.errors import AlreadyExists
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import gone, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

PRODUCER = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER)
HALF, ALL = 1_000, 2_000


class Twin:
    """A process of one side, as far as it is seen: what it has acted on, each message once."""

    def __init__(self, client: aio.Client) -> None:
        self.client = client
        self.acted: list[tuple[int, bytes]] = []

    @property
    def last(self) -> int:
        return self.acted[-1][0] if self.acted else 0

    async def act(self, until_index: int) -> None:
        """Up to there. What comes again was settled by nobody, and comes before anything new."""
        consumer: Consumer = self.client.consumer("q")
        async with asyncio.timeout(OUTER_S), consumer:
            while self.last < until_index:
                delivery = await anext(consumer)
                assert delivery.index <= self.last + 1, f"{delivery.index} after {self.last}: something was left out"
                if delivery.index == self.last + 1:
                    self.acted.append((delivery.index, delivery.payload))
                delivery.ack()
            await consumer.settled()


def at(cluster: Cluster, name: str) -> aio.Client:
    return aio.connect(cluster.endpoint(name), timeout=OUTER_S, follow_master=False)


@pytest.mark.requirement("R102")
@pytest.mark.requirement("R103")
async def test_two_sides_act_on_the_same_messages_through_a_takeover_and_a_lost_disk(tmp_path: Path) -> None:
    async with (
        patient(tmp_path).running() as cluster,
        aio.connect(cluster.target, timeout=OUTER_S) as client,
        at(cluster, "a") as at_a,
        at(cluster, "b") as at_b,
    ):
        twins = {"a": Twin(at_a), "b": Twin(at_b)}
        await client.create_queue("q", PRODUCER)

        async def send(first: int, last: int) -> None:
            async with client.producer("q") as producer:
                for number in range(first, last + 1):
                    producer.send_nowait(b"%d" % number)
                await producer.flush()

        master, replica = await roles(cluster)
        for name, twin in twins.items():  # through either member, in both in one order
            await twin.client.send("q", b"by %s" % name.encode())
        sending = asyncio.create_task(send(3, ALL))
        acting = {name: asyncio.create_task(twin.act(ALL)) for name, twin in twins.items()}
        await until(lambda: min(twin.last for twin in twins.values()) >= HALF, "both have acted on half of it")
        cluster.kill(master)
        await acting[replica]
        await sending
        await cluster.restart(master)
        await acting[master]
        assert twins["a"].acted == twins["b"].acted
        assert sorted(index for index, _ in twins["a"].acted) == list(range(1, ALL + 1))
        sent = {b"by a", b"by b", *(b"%d" % number for number in range(3, ALL + 1))}
        assert {payload for _, payload in twins["a"].acted} == sent

        async def is_empty() -> bool:
            return (await client.get_queue("q")).length == 0

        await until(is_empty, "what both sides have passed is gone")

        # A member that lost its disk goes on from its side's last mark: it took everything of the other one.
        lost = (await roles(cluster))[1]
        await gone(cluster, lost)
        shutil.rmtree(tmp_path / lost)
        await send(ALL + 1, ALL + 10)
        await cluster.restart(lost)
        await roles(cluster)
        for twin in twins.values():
            await twin.act(ALL + 10)
        assert twins["a"].acted == twins["b"].acted
        await until(is_empty, "what both sides have passed is gone")


async def test_a_side_goes_on_up_to_the_commit_index_where_nobody_is_master(tmp_path: Path) -> None:
    """K2, K4: and a second process at one member is refused."""
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target, timeout=OUTER_S) as client:
        await client.create_queue("q", PRODUCER)
        for number in range(10):
            await client.send("q", b"%d" % number)
        master, replica = await roles(cluster)
        async with at(cluster, replica) as there:
            async with there.consumer("q") as consumer:
                for index in range(1, 11):
                    assert (await anext(consumer)).index == index
                with pytest.raises(AlreadyExists, match="TWIN_TAKEN"):
                    await anext(there.consumer("q"))
            await gone(cluster, WITNESS, master)
            twin = Twin(there)
            await twin.act(10)
            assert [payload for _, payload in twin.acted] == [b"%d" % number for number in range(10)]

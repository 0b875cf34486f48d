"""The place of a side whose process is away, at a real pair: senders wait for it up to the limits, then it is lost by
name, and it begins anew when an operator says so (K6).
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.config import Limits
from tandemq.errors import Refused
from tandemq.v1 import pair_service_pb2 as pair_pb
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import raw_to, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

LENGTH = 20
CONFIG = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER, max_length=LENGTH)


async def take(client: aio.Client, count: int) -> list[int]:
    indexes: list[int] = []
    async with client.consumer("q") as consumer:
        while len(indexes) < count:
            delivery = await anext(consumer)
            indexes.append(delivery.index)
            delivery.ack()
        await consumer.settled()
    return indexes


async def events(cluster: Cluster, name: str) -> str:
    async with raw_to(cluster.endpoint(name)) as (member,):
        listed = await member.pair.ListEvents(pair_pb.ListEventsRequest(limit=1_000), timeout=OUTER_S)
    return "\n".join(event.text for event in listed.events)


async def said(exit_code: int, *words: str) -> str:
    """By a command."""
    result = await asyncio.to_thread(CliRunner().invoke, root, list(words))
    assert result.exit_code == exit_code, result.output
    return result.stdout


@pytest.mark.requirement("R103")
async def test_k6_a_side_that_is_away_holds_senders_back_and_then_loses_its_place(tmp_path: Path) -> None:
    limits = Limits(side_full_seconds=1)
    async with patient(tmp_path, limits=limits).running() as cluster, aio.connect(cluster.target, timeout=OUTER_S) as c:
        master, replica = await roles(cluster)
        await c.create_queue("q", CONFIG)
        await c.enqueue("q", [b"x"] * LENGTH)
        async with (
            aio.connect(cluster.endpoint(master), timeout=OUTER_S, follow_master=False) as near,
            aio.connect(cluster.endpoint(replica), timeout=OUTER_S, follow_master=False) as far,
        ):
            assert await take(near, LENGTH) == list(range(1, LENGTH + 1))
            await c.send("q", b"later", wait=-1)  # in line, until the other side has lost its place
            (has, lost) = sorted((await c.get_queue("q")).sides, key=lambda side: side.lost)
            assert (has.member, has.passed, has.lost) == (master, LENGTH, False)
            assert (lost.member, lost.passed, lost.lost_until) == (replica, 0, LENGTH)
            assert "limits.side_full_seconds" in lost.because
            with pytest.raises(Refused, match="SIDE_LOST") as refused:
                await take(far, 2 * LENGTH)  # what its member holds until it knows, and nothing more
            assert refused.value.metadata["lost_until"] == str(LENGTH)
            assert not refused.value.retryable
            assert f"side of queue q at {replica} has lost its place" in await events(cluster, master)
            assert "restart-side q" in await said(1, "doctor", "--no-classifier", "--target", cluster.target)
            there = ("--target", cluster.endpoint(replica))
            await said(0, "queue", "restart-side", "q", "--member", replica, *there)

            async def begins() -> bool:
                """Its member hears of it with a heartbeat."""
                try:
                    return await take(far, 1) == [LENGTH + 1]
                except Refused:
                    return False

            await until(begins, "the side begins anew with what is there")
            assert await take(near, 1) == [LENGTH + 1]

            async def is_empty() -> bool:
                return (await c.get_queue("q")).length == 0

            await until(is_empty, "both sides have passed it")
            await c.send("q", b"unread")
            async with far.consumer("q") as consumer:
                (await anext(consumer)).reject("cannot be read")
                await consumer.settled()

                async def is_reported() -> bool:
                    return f"one of them {LENGTH + 2}" in await events(cluster, replica)

                await until(is_reported, "its member says what it rejected")
            assert await take(near, 1) == [LENGTH + 2], "its twin gets it all the same"
            shown = json.loads(await said(0, "queue", "info", "q", *there, "-o", "json"))["sides"]
            assert [each["member"] for each in shown] == ["a", "b"]

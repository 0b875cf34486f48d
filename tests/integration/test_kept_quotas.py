"""What a client keeps at a pair with certificates is bounded: its queues, what is in them, who is remembered there. The
count is the same at either master, after a kill, a restart and a handoff.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config import member_ports
from tandemq.errors import Denied, ResourceExhausted, TandemqError
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.integration.support import http_get, roles
from tests.support.secured import client_of, secured, start_secured
from tests.support.until import until

pytestmark = pytest.mark.process

QUOTAS = ("billing=queues:2,stored:10000,identities:3", "shop=calls:10000")
BILLING = "principal/billing"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    cluster = secured(tmp_path, "billing", "shop", quotas=QUOTAS)
    rights = [
        (who, right, f"{who}/**") for who in ("billing", "shop") for right in ("administer", "produce", "consume")
    ]
    asyncio.run(start_secured(cluster, rights))
    yield cluster
    asyncio.run(cluster.stop())


@pytest.fixture
async def billing(pair: Cluster) -> AsyncIterator[aio.Client]:
    async with client_of(pair, "billing") as made:
        yield made


async def refused_queue(client: aio.Client, name: str) -> None:
    with pytest.raises(ResourceExhausted) as caught:
        await client.create_queue(name)
    assert (caught.value.reason, caught.value.retryable) == ("QUOTA_EXCEEDED", False)
    assert caught.value.metadata == {"quota": "queues", "limit": "2", "principal": BILLING}


async def kept(pair: Cluster, member: str) -> dict[str, float]:
    """As its metrics have it; the page is kept for a moment."""
    _, page = await http_get(member_ports(pair.base_port, ["a", "b"].index(member)).http, "/metrics")
    found = re.findall(r'(?m)^tandemq_quota_kept\{domain="main",principal="(\S+)",quota="(\w+)"\} (\S+)$', page)
    return {kind: float(count) for who, kind, count in found if who == BILLING}


async def test_queues_are_counted_over_a_kill_a_restart_and_a_handoff(pair: Cluster, billing: aio.Client) -> None:
    master, replica = await roles(pair)
    await billing.create_queue("billing/one")
    async with client_of(pair, "billing", pair.endpoint(replica), follow_master=False) as there:
        await there.create_queue("billing/two")  # carried to the master, whose it is all the same
        await refused_queue(there, "billing/three")
    await refused_queue(billing, "billing/three")
    assert (await billing.get_queue("billing/two")).config.owner == BILLING
    async with client_of(pair, "shop") as shop:
        for name in ("one", "two", "three"):
            await shop.create_queue(f"shop/{name}")  # nobody else is held back

    pair.kill(master)
    await refused_queue(billing, "billing/three")
    await billing.delete_queue("billing/one")
    await billing.create_queue("billing/three")
    await refused_queue(billing, "billing/four")
    await pair.restart(master)
    await pair.wait_ready()
    await refused_queue(billing, "billing/four")
    async with client_of(pair, "ops") as ops:

        async def handed_over() -> bool:
            return (await ops.handoff(to=master, reason="to count there too")).done

        await until(handed_over)
    await refused_queue(billing, "billing/four")
    for member in (master, replica):

        async def same(member: str = member) -> bool:
            return await kept(pair, member) == {"queues": 2, "stored": 0, "identities": 0}

        await until(same, f"{member} counts so too")


async def test_a_producer_waits_for_room_in_its_quota_and_loses_nothing(pair: Cluster, billing: aio.Client) -> None:
    await billing.create_queue("billing/one")
    await billing.create_queue("billing/two")
    sent, found = [b"%04d" % number + b"x" * 996 for number in range(30)], []

    async def send() -> None:
        async with billing.producer("billing/one") as producer:
            for payload in sent:
                await producer.send(payload)

    sending = asyncio.create_task(send())
    async with client_of(pair, "ops") as ops:

        async def full() -> bool:
            return (await ops.get_queue("billing/one")).length == 10

        await until(full, "the quota is used up")
    with pytest.raises(ResourceExhausted) as caught:
        async with client_of(pair, "billing", timeout=2.0) as other:
            await other.enqueue("billing/two", [b"x"])
    assert caught.value.metadata["quota"] == "stored"
    master, _ = await roles(pair)
    pair.kill(master)
    async with billing.consumer("billing/one", credit_messages=5) as consumer:
        async for delivery in consumer:
            found.append(bytes(delivery.payload))
            delivery.ack()
            if len(found) == len(sent):
                break
    await sending
    assert found == sent


async def test_one_more_client_id_is_refused_and_those_that_are_known_go_on(pair: Cluster, billing: aio.Client) -> None:
    await billing.create_queue("billing/one")
    async with client_of(pair, "billing") as one, client_of(pair, "billing") as two:
        producers = [client.producer("billing/one") for client in (billing, one, two)]
        for producer in producers:
            await producer.send(b"x")
        with pytest.raises(TandemqError, match="QUOTA_EXCEEDED: 3 clients have sent"):
            async with client_of(pair, "billing", timeout=2.0) as more, more.producer("billing/one") as fourth:
                await fourth.send(b"x")
        master, _ = await roles(pair)
        pair.kill(master)
        for producer in producers:
            await producer.send(b"y")
            await producer.close()


async def a_client_takes_over_no_queue_of_another(pair: Cluster, billing: aio.Client) -> None:
    """Not by any call that it may make about the queue."""
    master, _ = await roles(pair)
    own = QueueConfig(owner="principal/shop")
    async with client_of(pair, "shop", pair.endpoint(master), follow_master=False) as shop:
        await billing.close_queue("billing/one")  # opened first, an instance brings its options
        for taking in (
            shop.open_replicated_queue("billing/one", options=own),
            shop.update_queue("billing/one", own, []),
            shop.update_queue("billing/one", own, ["owner"]),
        ):
            with pytest.raises(Denied, match="cannot say whose queue it is"):
                await taking
        await shop.open_replicated_queue("billing/one", options=QueueConfig(max_length=5))
    found = (await billing.get_queue("billing/one")).config
    assert (found.owner, found.max_length) == (BILLING, 5)


async def test_nobody_but_an_administrator_says_whose_a_queue_is(pair: Cluster, billing: aio.Client) -> None:
    for owner in ("principal/shop", "principal/ops"):
        with pytest.raises(Denied, match="cannot say whose queue it is"):
            await billing.create_queue("billing/one", config=QueueConfig(owner=owner))
    await billing.create_queue("billing/one", config=QueueConfig(owner=BILLING))
    for owner in ("principal/shop", ""):
        with pytest.raises(Denied, match="cannot say whose queue it is"):
            await billing.update_queue("billing/one", QueueConfig(owner=owner), ["owner"])
    async with client_of(pair, "ops") as ops:
        await ops.grant_right("shop", "administer", "billing/**")
        await a_client_takes_over_no_queue_of_another(pair, billing)
        await ops.create_queue("billing/two", config=QueueConfig(owner=BILLING))
        await refused_queue(billing, "billing/three")
        await ops.update_queue("billing/two", QueueConfig(), ["owner"])
        assert (await ops.get_queue("billing/two")).config.owner == ""
        await billing.create_queue("billing/three")
        await ops.create_queue("ours")
        assert (await ops.get_queue("ours")).config.owner == "", "an administrator's counts for nobody"

"""Statistics of queues and managers as a client, the command line and a scrape see them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from replica.operations.metrics_queues import QUEUES_MAX
from tandemq import aio, embedded
from tandemq.config import Limits, ManagerConfig, member_ports
from tandemq.errors import ResourceExhausted
from tandemq.v1 import manager_admin_service_pb2 as manager_pb
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1.common_pb2 import DATA_STATE_SOLE, ROLE_MASTER
from tests.integration.support import http_get, stopped_at_end
from tests.support.clusters import quick
from tests.support.until import until

pytestmark = pytest.mark.slow

LIMIT_SERIES = 20_000


@pytest.fixture
def config(tmp_path: Path, base_port: int) -> ManagerConfig:
    client, peer, http = (f"127.0.0.1:{port}" for port in member_ports(base_port, 0))
    return ManagerConfig(
        member="solo", data_dir=str(tmp_path), listen_client=client, listen_peer=peer, listen_http=http
    )


@pytest.fixture
async def client(config: ManagerConfig) -> AsyncIterator[aio.Client]:
    async with embedded.open_manager(config), aio.connect(config.listen_client) as client:
        yield client


async def used(client: aio.Client) -> None:
    """A queue that has seen everything once, and one that nobody uses."""
    await client.create_queue("orders", admin.QueueConfig(max_length=4))
    await client.create_queue("calls", admin.QueueConfig(queue_type=admin.QUEUE_TYPE_TWO_WAY))
    await client.create_alias("bestellungen", "orders")
    await client.enqueue("orders", [b"1", b"2", b"3"])
    await (await client.dequeue("orders")).ack()
    await (await client.dequeue("orders")).release()


async def filled(client: aio.Client, queue: str) -> None:
    """Until the store takes no more."""
    for _ in range(100):
        await client.enqueue(queue, [bytes(1 << 20)] * 3)


@pytest.mark.process
async def test_what_is_shown_as_ready_can_be_received(tmp_path: Path) -> None:
    async with stopped_at_end(quick(tmp_path)) as pair:
        await pair.start()
        async with aio.connect(pair.endpoint("a")) as client:
            await client.create_queue("q")
            pair.pause("b")  # the replica: nothing is committed before it is given up
            sending = asyncio.ensure_future(client.enqueue("q", [b"1"]))
            while not (await client.get_queue("q")).ready:
                if sending.done():  # it may come between the look and this line: the next look has it
                    await sending
            assert [message.payload for message in await client.dequeue("q")] == [b"1"]
            await sending
            pair.resume("b")


async def command(config: ManagerConfig, *arguments: str) -> dict[str, object]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tandemq", *arguments, "--target", config.listen_client, "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    found: dict[str, object] = json.loads(said)
    return found


@pytest.mark.requirement("R048", "R062", "R126")
async def test_r126_statistics_of_a_queue(client: aio.Client, config: ManagerConfig) -> None:
    await used(client)
    async with client.producer("bestellungen") as producer, client.consumer("orders", credit_messages=1) as consumer:
        await producer.send(b"4")
        await anext(consumer)
        info = await client.get_queue("orders")
        assert (info.state, info.role, info.data_state) == (admin.QUEUE_STATE_OPEN, ROLE_MASTER, DATA_STATE_SOLE)
        assert (info.length, info.highest_length, info.config.max_length) == (3, 3, 4)
        assert (info.enqueued_total, info.acked_total, info.released_total) == (4, 1, 1)
        assert (info.consumers, info.producers, info.local_clients, info.remote_clients) == (1, 1, 2, 0)
        assert info.HasField("mean_process_time")
        shown = await command(config, "queue", "stats", "orders")
    assert (shown["enqueued_total"], shown["released_total"], shown["max_length"]) == (4, 1, 4)
    assert (shown["role"], shown["local_clients"], shown["consumers"]) == ("MASTER", 2, 1)
    assert "annotation" not in shown
    rows = (await command(config, "queue", "stats"))["queues"]
    assert isinstance(rows, list)
    assert [row["name"] for row in rows] == ["calls", "orders"]


@pytest.mark.requirement("R043", "R062")
async def test_r043_statistics_of_a_manager(client: aio.Client, config: ManagerConfig) -> None:
    await used(client)
    async with client.producer("orders") as producer, client.consumer("orders", credit_messages=1) as consumer:
        await producer.send(b"4")
        await anext(consumer)
        found = await client.manager_info()
        counts, clients, messages = found.stats.queue_counts, found.stats.client_counts, found.stats.message_counts
        assert (found.state, found.queues, found.clients) == (manager_pb.MANAGER_STATE_OPEN, 2, 2)
        assert (found.stats.macro_queues, counts.unreplicated, counts.replicated, counts.two_way) == (0, 2, 0, 1)
        assert (counts.open, counts.not_open, counts.aliases) == (2, 0, 1)
        assert (clients.consumers, clients.producers, clients.local, clients.remote) == (1, 1, 2, 0)
        assert (messages.total, messages.ready + messages.leased, messages.bytes) == (3, 3, 3)
        assert messages.leased > 0
        assert (found.stats.totals.enqueued, found.stats.totals.acked, found.stats.totals.released) == (4, 1, 1)
        shown = await command(config, "manager", "info")
    assert (shown["state"], shown["queues"], shown["clients"]) == ("OPEN", 2, 2)
    stats = shown["stats"]
    assert isinstance(stats, dict)
    assert (stats["client_counts"]["consumers"], stats["totals"]["released"]) == (1, 1)


async def test_totals_are_there_after_a_restart_and_clients_are_not(config: ManagerConfig) -> None:
    for round_ in range(2):
        async with embedded.open_manager(config), aio.connect(config.listen_client) as client:
            if not round_:
                await used(client)
                await client.delete_queue("orders")
            stats = (await client.manager_info()).stats
            assert (stats.totals.enqueued, stats.totals.acked, stats.client_counts.local) == (3, 1, 0)


async def test_metrics_say_the_same_and_are_bounded(client: aio.Client, config: ManagerConfig) -> None:
    await used(client)
    for first in range(0, QUEUES_MAX + 50, 50):  # a few at once: each has its own deadline
        await asyncio.gather(*(client.create_queue(f"many/{first + number}") for number in range(50)))
    unit = client.unit()
    await unit.enqueue("many/0", [b"never"])
    await unit.rollback()
    port = int(config.listen_http.rpartition(":")[2])
    status, page = await http_get(port, "/metrics")
    assert status == 200
    for line in (
        'tandemq_queues{domain="local"} 1052.0',
        'tandemq_units_total{domain="local",outcome="rolled_back"} 1.0',
        'tandemq_units_total{domain="local",outcome="committed"} 0.0',
        'tandemq_messages{domain="local",state="ready"} 2.0',
        'tandemq_message_events_total{domain="local",event="enqueued"} 3.0',
        'tandemq_message_events_total{domain="local",event="released"} 1.0',
        'tandemq_clients{kind="consumer",place="local"} 0.0',
        'tandemq_waiters{domain="local"} 0.0',
    ):
        assert f"\n{line}\n" in page
    series = [line for line in page.splitlines() if not line.startswith("#")]
    assert sum(line.startswith("tandemq_queue_messages{") for line in series) == QUEUES_MAX
    assert len(series) < LIMIT_SERIES


@pytest.mark.requirement("R094")
async def test_r094_a_full_store_is_failed_and_a_full_queue_is_not(config: ManagerConfig) -> None:
    config = msgspec.structs.replace(config, limits=Limits(map_bytes=24 << 20, journal_bytes=1 << 20))
    async with embedded.open_manager(config), aio.connect(config.listen_client) as client:
        await client.create_queue("small", admin.QueueConfig(max_length=1))
        await client.create_queue("big")
        await client.enqueue("small", [b"1"])
        with pytest.raises(ResourceExhausted, match="QUEUE_FULL"):
            await client.enqueue("small", [b"2"])
        assert (await client.get_queue("small")).state == admin.QUEUE_STATE_OPEN
        assert (await client.manager_info()).state == manager_pb.MANAGER_STATE_OPEN
        with pytest.raises(ResourceExhausted, match="STORAGE_FULL"):
            await filled(client, "big")
        assert (await client.get_queue("big")).state == admin.QUEUE_STATE_FAILED
        assert (await client.manager_info()).state == manager_pb.MANAGER_STATE_FAILED
        await client.delete_queue("big")  # the way out

        async def is_open() -> bool:
            return (await client.get_queue("small")).state == admin.QUEUE_STATE_OPEN

        await until(is_open, "there is room again")

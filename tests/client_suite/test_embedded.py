"""A manager inside an application: no socket of any kind, and as many of them as one likes."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from chaos.ports import PortRange
from tandemq import aio, embedded
from tandemq.config import ConfigError, ManagerConfig, member_ports
from tandemq.errors import InDoubt, TandemqError
from tests.client_suite.operations import bodies
from tests.client_suite.ways import inside, settings_of, short_folder, to
from tests.integration.support import gone
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = [pytest.mark.slow]


def sockets() -> set[str]:
    """What this process has open and is a socket."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # paths of what may be gone by now
        try:
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
        except FileNotFoundError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


@pytest.mark.requirement("R008", "R033")
async def test_not_one_socket_is_opened(tmp_path: Path) -> None:
    before = sockets()
    async with embedded.open_manager(inside(tmp_path)) as manager, embedded.connect(manager) as client:
        await client.create_queue("orders")
        async with client.producer("orders") as producer, client.consumer("orders") as consumer:
            await producer.send(b"over a stream")
            await (await anext(consumer)).ack_async()
        await client.enqueue("orders", [b"by a call"])
        assert await bodies(client, "orders") == [b"by a call"]
        assert sockets() - before == set()
        assert manager.ports == {}
        assert manager.config.endpoint == ""


@pytest.mark.requirement("R002")
async def test_several_managers_live_in_one_process(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        clients = []
        for place, name in enumerate(("one", "two")):
            base_port = stack.enter_context(PortRange()).base_port
            client, peer, http = (f"127.0.0.1:{port}" for port in member_ports(base_port, 0))
            config = ManagerConfig(
                member=name,
                data_dir=str(tmp_path / name),
                listen_client=client,
                listen_peer=peer,
                listen_http=http,
            )
            manager = await stack.enter_async_context(embedded.open_manager(config))
            assert manager.ports["client"] == int(client.rpartition(":")[2])
            clients.append(await stack.enter_async_context(aio.connect(client)))
            clients.append(await stack.enter_async_context(embedded.connect(manager)))
            await clients[-1].create_queue("orders")
            await clients[-1].enqueue("orders", [name.encode()] * (place + 1))
        manager = await stack.enter_async_context(embedded.open_manager(inside(tmp_path / "three")))
        three = await stack.enter_async_context(embedded.connect(manager))
        assert await three.list_queues() == []
        found = [await bodies(client, "orders") for client in clients]
    assert found == [[b"one"], [b"one"], [b"two", b"two"], [b"two", b"two"]]


async def test_what_it_holds_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    for round_ in range(3):
        async with embedded.open_manager(inside(tmp_path)) as manager, embedded.connect(manager) as client:
            if round_ == 0:
                await client.create_queue("orders")
            await client.enqueue("orders", [b"%d" % round_])
            assert await bodies(client, "orders") == [b"%d" % each for each in range(round_ + 1)]


async def test_a_call_under_way_when_it_stops_is_in_doubt(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(AsyncExitStack())
        async with embedded.open_manager(inside(tmp_path)) as manager:
            asking = await client.enter_async_context(embedded.connect(manager, timeout=0.5))
            await asking.create_queue("orders")
            waiting = asyncio.ensure_future(asking.dequeue("orders", wait=timedelta(minutes=1)))
            done, _ = await asyncio.wait({waiting}, timeout=0.05)
            assert not done
        waiting.cancel()
        with pytest.raises(InDoubt):
            await asking.get_queue("orders")
    with pytest.raises(RuntimeError, match="start the manager first"):
        embedded.connect(type(manager)(manager.config))


@pytest.mark.requirement("R002", "R051")
def test_a_blocking_program_needs_no_event_loop_of_its_own(tmp_path: Path) -> None:
    for _ in range(2):  # the directory is free again
        with embedded.open_client(inside(tmp_path)) as client:
            client.create_queue("orders")
            early, short = client.dequeue_ahead("orders"), client.dequeue_ahead("orders", wait=0.02)
            assert len(short.result(OUTER_S)) == 0, "its wait ended"
            assert not early.done()
            client.enqueue("orders", [b"x"])
            batch = early.result(OUTER_S)
            assert batch.payloads == [b"x"]
            batch.ack()
            assert client.get_queue("orders").length == 0
            client.delete_queue("orders")
            with pytest.raises(TandemqError, match="QUEUE_NOT_FOUND"):
                client.dequeue_ahead("orders").result(OUTER_S)
            client.create_queue("orders")
            given_up = client.dequeue_ahead("orders")
            assert not given_up.done()
        assert given_up.cancelled()
        with embedded.open_client(inside(tmp_path)) as client:
            client.delete_queue("orders")
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.get_queue("orders")
    with pytest.raises(ConfigError), embedded.open_client(ManagerConfig(member="", data_dir=str(tmp_path))):
        pass


@pytest.mark.process
@pytest.mark.requirement("R008")
async def test_a_socket_outlives_the_kill_of_its_manager(tmp_path: Path) -> None:
    """What the killed process left in its place is cleared, and a client that was connected goes on."""

    async with AsyncExitStack() as stack:
        folder = await stack.enter_async_context(short_folder())
        cluster = patient(tmp_path, members=("solo",), settings=settings_of(folder, "solo"))
        await stack.enter_async_context(cluster.running())
        client = await stack.enter_async_context(to(f"unix:{folder / 'solo'}")())
        await client.create_queue("orders")
        await client.enqueue("orders", [b"1"])
        await gone(cluster, "solo")
        assert (folder / "solo").is_socket()
        cluster.spawn("solo")
        await client.enqueue("orders", [b"2"])
        assert await bodies(client, "orders") == [b"1", b"2"]


async def test_a_queue_of_large_messages_is_browsed_page_by_page(tmp_path: Path, base_port: int) -> None:
    """Twenty of them are more than a frame may hold; each is seen once, in order, and so by a filter."""
    sent = [bytes([number]) * (1 << 20) for number in range(20)]
    client_port, peer, http = (f"127.0.0.1:{port}" for port in member_ports(base_port, 0))
    folder = str(tmp_path)
    config = ManagerConfig(
        member="a", data_dir=folder, listen_client=client_port, listen_peer=peer, listen_http=http
    )  # fmt: skip
    async with embedded.open_manager(config), aio.connect(client_port) as client:
        await client.create_queue("large")
        for payload in sent:
            await client.enqueue("large", [payload])
        for where in ("", "tq_index > 0"):
            assert [message.payload async for message in client.browse("large", where=where)] == sent
            assert len([message async for message in client.browse("large", max_messages=7, where=where)]) == 7

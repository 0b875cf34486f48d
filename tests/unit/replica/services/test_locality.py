"""Who is on this host, and what others are refused: through a manager's handlers, from callers as gRPC names them."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from replica.manager import Manager
from replica.services.locality import is_here
from tandemq import aio, embedded, retry
from tandemq.config import ManagerConfig
from tandemq.errors import TandemqError
from tandemq.finding.target import Target
from tandemq.v1 import queue_admin_service_pb2 as admin

FAR = "ipv4:192.0.2.7:4711"  # an address that no host has
HERE_ONLY = admin.QueueConfig(remote_clients_allowed=False)


def own_address() -> str:
    """What another host would see of this one; its loopback address where there is no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@pytest.mark.parametrize(
    ("peer", "here"),
    [
        ("unix:", True),
        ("unix:/run/a.sock", True),
        ("inproc:direct", True),
        ("ipv4:127.0.0.1:4711", True),
        ("ipv4:127.3.2.1:4711", True),
        ("ipv6:%5B::1%5D:4711", True),
        ("ipv6:[::1]:4711", True),
        (f"ipv4:{own_address()}:4711", True),
        (FAR, False),
        ("ipv6:%5B2001:db8::7%5D:4711", False),
        ("ipv6:%5Bfe80::7%25eth9%5D:4711", False),
    ],
)
def test_a_caller_is_on_this_host_when_its_address_is(peer: str, here: bool) -> None:
    assert is_here(peer) is here


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    config = ManagerConfig(member="here", data_dir=str(tmp_path), server_required=False)
    async with embedded.open_manager(config) as opened:
        yield opened


def called_from(manager: Manager, peer: str) -> aio.Client:
    target = Target(("inproc:here",), "test")
    return aio.Client(target, retry.Policy(total_s=5.0), open_channel=lambda *_: manager.channel(peer))


async def reason(call: Awaitable[object]) -> str:
    with pytest.raises(TandemqError) as caught:
        await call
    assert "remote_clients_allowed = false" in caught.value.message
    assert "here" in caught.value.message
    return caught.value.reason


async def received(client: aio.Client, queue: str) -> bytes:
    async with client.consumer(queue) as consumer:
        return (await anext(consumer)).payload


async def produced(client: aio.Client, queue: str) -> object:
    async with client.producer(queue) as producer:
        return await producer.send(b"x")


async def browsed(client: aio.Client, queue: str) -> list[bytes]:
    return [message.payload async for message in client.browse(queue)]


async def journalled(client: aio.Client, queue: str) -> list[int]:
    await client.journal_head([queue])
    return [len(page) async for page in client.read_journal([queue])]


CALLS: dict[str, Callable[[aio.Client, str], Awaitable[object]]] = {
    "enqueue": lambda client, queue: client.enqueue(queue, [b"x"]),
    "produce": produced,
    "dequeue": lambda client, queue: client.dequeue(queue),
    "consume": received,
    "browse": browsed,
    "journal": journalled,
}


@pytest.mark.requirement("R013", "R033")
@pytest.mark.parametrize("name", CALLS)
async def test_a_queue_of_its_own_host_refuses_others(manager: Manager, name: str) -> None:
    async with embedded.connect(manager) as near, called_from(manager, FAR) as far:
        for queue, config in (("open", None), ("own", HERE_ONLY)):
            info = await near.create_queue(queue, config)
            assert info.config.remote_clients_allowed is (config is None)
            await near.enqueue(queue, [b"x"])
        await CALLS[name](far, "open")
        assert await reason(CALLS[name](far, "own")) == "REMOTE_NOT_ALLOWED"
        await CALLS[name](near, "own")
        assert await browsed(near, "own") in ([b"x"], [b"x", b"x"]), "nothing was taken by the other"


@pytest.mark.requirement("R013")
async def test_who_reads_the_journal_of_every_queue_from_elsewhere_is_refused_at_such_a_row(manager: Manager) -> None:
    async with embedded.connect(manager) as near, called_from(manager, FAR) as far:
        await near.create_queue("open")
        assert [row.queue async for page in far.read_journal(domain="local") for row in page.rows() if row.queue] == [
            "open"
        ]
        await near.create_queue("own", HERE_ONLY)

        async def read() -> list[int]:
            return [len(page) async for page in far.read_journal(domain="local")]

        assert await reason(read()) == "REMOTE_NOT_ALLOWED"
        assert [len(page) async for page in near.read_journal(domain="local")]


@pytest.mark.requirement("R013")
async def test_a_producer_whose_stream_is_open_is_refused_from_the_change_on(manager: Manager) -> None:
    async with embedded.connect(manager) as near, called_from(manager, FAR) as far:
        await near.create_queue("q")
        async with far.producer("q") as producer:
            await producer.send(b"1")
            await near.update_queue("q", HERE_ONLY, ["remote_clients_allowed"])
            assert await reason(producer.send(b"2")) == "REMOTE_NOT_ALLOWED"
            await near.update_queue("q", admin.QueueConfig(remote_clients_allowed=True), ["remote_clients_allowed"])
            await producer.send(b"3")
        assert await browsed(near, "q") == [b"1", b"3"]

"""The flood guard: which connections it knows, that it leaves the loop to others, and that it ends nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator

import grpc
import grpc.aio
import pytest

from chaos.crowd.floods import HELLO
from chaos.crowd.wire import RawConnection
from tandemq.edge import guard as module
from tandemq.edge.guard import Connection, FloodGuard, _Turn
from tests.support.until import OUTER_S

CROWD = 40


@contextlib.contextmanager
def listening(host: str) -> Iterator[socket.socket]:
    with socket.create_server((host, 0)) as listener:
        yield listener


@contextlib.contextmanager
def pair(listener: socket.socket, host: str, from_port: int = 0) -> Iterator[tuple[RawConnection, socket.socket]]:
    """A connection and what the listener took."""
    with RawConnection((host, listener.getsockname()[1]), port=from_port) as connection:
        accepted, _ = listener.accept()
        with accepted:
            yield connection, accepted


async def test_each_twin_is_a_connection_of_its_own() -> None:
    with listening("") as first, listening("") as second, pair(first, "127.0.0.1") as (one, one_taken):
        port = one.socket.getsockname()[1]
        with (
            pair(second, "127.0.0.1", port) as (_, at_another_port),
            pair(first, "127.0.0.2", port) as (_, at_another_address),
        ):
            here, there = first.getsockname()[1], second.getsockname()[1]
            found = await FloodGuard([here, there])._connections(_Turn())
            assert {each: seen.descriptor for each, seen in found.items()} == {
                Connection("127.0.0.1", port, "127.0.0.1", here): one_taken.fileno(),
                Connection("127.0.0.1", port, "127.0.0.1", there): at_another_port.fileno(),
                Connection("127.0.0.1", port, "127.0.0.2", here): at_another_address.fileno(),
            }


async def test_a_descriptor_that_is_another_connections_by_now_is_left_alone() -> None:
    with listening("127.0.0.1") as listener:
        guard = FloodGuard([listener.getsockname()[1]])
        with pair(listener, "127.0.0.1") as (_, flooding):
            [(connection, seen)] = (await guard._connections(_Turn())).items()
            with pair(listener, "127.0.0.1") as (honest, taken):
                os.dup2(taken.fileno(), flooding.fileno())
                assert guard._received(connection, seen.descriptor) is None
                guard._end(connection, seen.descriptor, "it floods")
                assert guard.ended == 0
                honest.read()
                assert not honest.ended


def listed(guard: FloodGuard) -> int:
    """Connections that gRPC can be asked about."""
    count = 0
    for server in guard._servers:
        page = module._page(server, 0)
        while page is not None and page.socket_ref:
            count += len(page.socket_ref)
            page = None if page.end else module._page(server, page.socket_ref[-1].socket_id + 1)
    return count


@pytest.fixture
async def crowded() -> AsyncIterator[FloodGuard]:
    """Over a server with CROWD connections that said hello; its looks are called by the test."""
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    guard = FloodGuard([port])
    guard._servers = module._servers()
    with contextlib.ExitStack() as close:
        for _ in range(CROWD):
            connection = close.enter_context(RawConnection(("127.0.0.1", port), hello=HELLO))
            await asyncio.to_thread(connection.read, OUTER_S)
        async with asyncio.timeout(OUTER_S):  # gRPC answers a connection before it lists it
            while True:
                if listed(guard) >= CROWD:
                    break
                await asyncio.sleep(0)
        yield guard
    await server.stop(0)


async def turns_of(guard: FloodGuard, passed_s: float) -> int:
    """How often the loop went on with something else during one look."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    await guard.look(passed_s)
    task.cancel()
    return turns


async def test_the_loop_goes_on_between_connections(crowded: FloodGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    """With slices of no time: after each descriptor, and after each socket that gRPC was asked about."""
    monkeypatch.setattr(module, "SLICE_S", 0.0)
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    assert await turns_of(crowded, 1.0) >= CROWD
    crowded._seen.clear()
    assert await turns_of(crowded, 0.0) >= 3 * CROWD  # to see it, to find it, to ask about it
    assert len(crowded._watched) == CROWD


async def test_a_suspect_is_searched_for_once(crowded: FloodGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = []
    page = module._page
    monkeypatch.setattr(module, "_page", lambda server, first: pages.append(first) or page(server, first))
    await crowded.look(0.0)
    assert len(crowded._watched) == CROWD
    assert pages
    pages.clear()
    crowded._seen.clear()  # everything is suspect again
    await crowded.look(0.0)
    assert not pages
    assert crowded.ended == 0


def test_what_grpc_does_not_know_any_more_is_nothing() -> None:
    """A connection that went between two questions once ended the guard."""
    assert module._socket(1 << 40) is None
    assert module._page(1 << 40, 0) is None

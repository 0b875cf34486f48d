"""The edge of a gRPC port, tried with raw sockets: each argument of the C core that is said to do something does it
here, or a guard of ours does. A gRPC release that changes it fails these.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from chaos.crowd.floods import FLOODS, HELLO, Ending, flood, flood_on
from chaos.crowd.wire import PREFACE, Kind, RawConnection, call, frame
from failover import wire
from replica.listen import ports
from tandemq.edge.guard import FloodGuard
from tandemq.edge.options import HANDSHAKE_MS, STREAMS_MAX, bounded
from tests.support.until import OUTER_S

pytestmark = [pytest.mark.slow, pytest.mark.wide]
WATCH = b"/grpc.health.v1.Health/Watch"
REFUSED_STREAM = 7
SERVERS = {"member": ports.SERVER_OPTIONS, "witness": wire.SERVER_OPTIONS}


class Served(NamedTuple):
    port: int
    other_port: int
    guard: FloodGuard

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port


@contextlib.asynccontextmanager
async def serving(of: str, connections_max: int = 100) -> AsyncIterator[Served]:
    server = grpc.aio.server(options=[*SERVERS[of], bounded(connections_max)])
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    ports = [server.add_insecure_port("0.0.0.0:0") for _ in range(2)]
    await server.start()
    guard = FloodGuard(ports)
    guard.start()
    try:
        yield Served(*ports, guard)
    finally:
        guard.stop()
        await server.stop(0)


async def check_answers(port: int) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        await stub.Check(health_pb2.HealthCheckRequest(), timeout=OUTER_S, wait_for_ready=True)


@pytest.mark.parametrize("of", SERVERS)
async def test_whoever_says_nothing_more_is_closed(of: str) -> None:
    """Nothing; half a preface; a preface; a preface and SETTINGS, then nothing."""
    begun = (b"", PREFACE[:10], PREFACE, HELLO)
    async with serving(of) as served:
        silent = [RawConnection(served.address, hello=hello, polite=False) for hello in begun]
        with contextlib.ExitStack() as close:
            for each in silent:
                close.enter_context(each)
            ended = await asyncio.gather(*(asyncio.to_thread(each.read_until_ended, OUTER_S) for each in silent))
        assert ended == [True] * len(begun), HANDSHAKE_MS
        await check_answers(served.port)


async def while_answering(honest: RawConnection, does: Callable[..., Ending], *arguments: object) -> Ending:
    """A flood may last, and whoever answers no ping of the server is ended as silent."""
    flooding = asyncio.ensure_future(asyncio.to_thread(does, *arguments))
    while not flooding.done():
        await asyncio.to_thread(honest.read, 0.2)
    return await flooding


@pytest.mark.parametrize("of", SERVERS)
@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_ends_its_connection_and_nobody_elses(of: str, name: str) -> None:
    async with serving(of) as served:
        with RawConnection(served.address, hello=HELLO + frame(Kind.HEADERS, 4, 1, call(WATCH))) as honest:
            await asyncio.to_thread(honest.read, OUTER_S)  # the server's SETTINGS, and acknowledges them
            ending = await while_answering(honest, flood, served.address, name, OUTER_S)
            assert ending.ended, ending
            honest.read()
            assert not honest.ended
            await check_answers(served.port)


@pytest.mark.parametrize("twin", ["at another port", "at another address"])
@pytest.mark.parametrize("floods", ["the first", "the second"])
async def test_a_quiet_twin_hides_no_flood(twin: str, floods: str) -> None:
    """Two connections from one remote port; the guard once knew one of them, whichever has the higher descriptor."""
    async with serving("member") as served:
        second = ("127.0.0.1", served.other_port) if twin == "at another port" else ("127.0.0.2", served.port)
        with RawConnection(served.address, hello=HELLO) as one:
            await asyncio.to_thread(one.read, OUTER_S)  # the server has taken it
            with RawConnection(second, hello=HELLO, port=one.socket.getsockname()[1]) as other:
                await asyncio.to_thread(other.read, OUTER_S)
                flooding, quiet = (one, other) if floods == "the first" else (other, one)
                ending = await while_answering(quiet, flood_on, flooding, "settings", OUTER_S)
                assert ending.ended, ending
                quiet.read()
                assert not quiet.ended
        assert served.guard.ended == 1


async def test_connections_beyond_the_bound_are_closed_at_once() -> None:
    async with serving("member", connections_max=10) as served:
        with contextlib.ExitStack() as close:
            inside = [close.enter_context(RawConnection(served.address, hello=HELLO)) for _ in range(10)]
            for each in inside:
                await asyncio.to_thread(each.read, OUTER_S)
                assert each.settings == 1
            beyond = close.enter_context(RawConnection(served.address, polite=False))
            assert await asyncio.to_thread(beyond.read_until_ended, OUTER_S)
            assert beyond.settings == 0
            inside[0].socket.shutdown(socket.SHUT_RDWR)
            await check_answers(served.port)


async def test_a_connection_has_a_bound_on_streams() -> None:
    begins = b"".join(frame(Kind.HEADERS, 4, 2 * number + 1, call(WATCH)) for number in range(STREAMS_MAX + 5))
    async with serving("member") as served:
        with RawConnection(served.address, hello=HELLO) as connection:
            await asyncio.to_thread(connection.read, OUTER_S)
            assert connection.settings == 1, "and said that it knows them: until then the server names another reason"
            await asyncio.to_thread(connection.send, begins)
            async with asyncio.timeout(OUTER_S):
                while sum(connection.resets.values()) < 5:
                    await asyncio.to_thread(connection.read, 1.0)
            assert connection.resets == {REFUSED_STREAM: 5}
            assert not connection.ended


async def test_pings_of_a_keepalive_are_no_flood() -> None:
    """At the pace of our own clients, and no call is open."""
    async with serving("member") as served:
        options = [("grpc.keepalive_time_ms", 1_000), ("grpc.keepalive_permit_without_calls", 1)]
        options += [("grpc.http2.max_pings_without_data", 0)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}", options=options) as channel:
            await channel.channel_ready()
            state = channel.get_state()
            changed = asyncio.ensure_future(channel.wait_for_state_change(state))
            await asyncio.wait([changed], timeout=12)  # for as long as this nothing may come
            changed.cancel()
            assert channel.get_state() is grpc.ChannelConnectivity.READY


async def test_a_busy_client_is_no_flood() -> None:
    """Many megabytes of messages over one connection."""
    request = health_pb2.HealthCheckRequest(service="x" * 60_000)
    async with serving("witness") as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for _ in range(40):
            await served.guard.look(0.001)  # everything is suspect
            calls = [stub.Check(request, timeout=OUTER_S) for _ in range(10)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert {isinstance(each, grpc.aio.AioRpcError) and each.code() for each in answers} == {
                grpc.StatusCode.NOT_FOUND
            }
        assert served.guard.ended == 0

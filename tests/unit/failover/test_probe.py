"""What a look at an address sees of a listener that answers, refuses, says nothing, or says something else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from failover.probe import ANSWER_BYTES_MAX, Sight, look
from tests.support.until import OUTER_S

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[str]:
    ends: list[asyncio.StreamWriter] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(writer)
        await serve(reader, writer)

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in ends:
            writer.close()


def says(*parts: bytes, ends: bool) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        assert request.startswith(b"GET /livez HTTP/1.0\r\nHost: 127.0.0.1:")
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if ends:
            writer.close()

    return serve


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("parts", [(b"HTTP/1.0 200 OK\r\nX: y\r\n",), (b"HTT", b"P/1.0 200 ", b"OK\r\n")])
async def test_a_member_answers_with_its_first_line_whether_it_hangs_up_or_not(
    parts: tuple[bytes, ...], ends: bool
) -> None:
    async with listening(says(*parts, ends=ends)) as address:
        seen = await look(address, OUTER_S, http=True)
    assert (seen.address, seen.sight, seen.text) == (address, Sight.ANSWERS, "HTTP/1.0 200 OK")


@pytest.mark.parametrize(
    ("parts", "ends", "line"),
    [
        ((b"SSH-2.0-x\r\n",), False, "SSH-2.0-x"),
        ((b"x" * ANSWER_BYTES_MAX,), False, "x" * ANSWER_BYTES_MAX),
        ((), True, ""),
    ],
)
async def test_who_speaks_something_else_is_silent(parts: tuple[bytes, ...], ends: bool, line: str) -> None:
    async with listening(says(*parts, ends=ends)) as address:
        seen = await look(address, OUTER_S, http=True)
    assert (seen.sight, seen.text) == (Sight.SILENT, f"no HTTP: {line!r}")


async def test_who_says_nothing_is_silent_when_the_time_is_over_and_answers_where_a_connection_is_enough() -> None:
    async with listening(says(ends=False)) as address:
        seen = await look(address, 0.2, http=True)
        assert (seen.sight, seen.text) == (Sight.SILENT, "no answer in time")
        assert (await look(address, OUTER_S, http=False)).sight is Sight.ANSWERS


async def test_where_nobody_listens_it_is_refused() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        seen = await look(f"127.0.0.1:{held.getsockname()[1]}", OUTER_S)
    assert (seen.sight, seen.text) == (Sight.REFUSES, "nobody listens")


@pytest.mark.parametrize("address", ["127.0.0.1:no", "127.0.0.1:"])
async def test_what_is_no_address_shows_nothing(address: str) -> None:
    assert (await look(address, OUTER_S)).sight is Sight.BLIND

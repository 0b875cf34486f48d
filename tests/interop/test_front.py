"""What the front counts as broken: connections that a member ended, whatever passed over them then."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from tests.interop.front import Front
from tests.support.until import OUTER_S


async def _reset(writer: asyncio.StreamWriter) -> None:
    """As a killed process leaves a connection."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _run(case: str) -> int:
    """One connection through a front to one member, ended as the case says; what the front counted."""
    met: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def on_connection(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.put_nowait(writer)

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with server, Front({"a": f"{host}:{port}"}, prefer="a") as front:
        reader, writer = await asyncio.open_connection(*front.address.split(":"))
        member = await met.get()
        if case == "the client goes":
            writer.close()
        elif case == "the member goes":
            member.close()
        else:  # more is on its way to the client than it reads: only what it sends shows that the member is gone
            reader._transport.pause_reading()  # type: ignore[attr-defined]  # there is no public one
            member.write(bytes(1 << 25))
            await asyncio.sleep(0)
            await _reset(member)
            writer.write(bytes(1 << 16))
        await asyncio.gather(*front._connections)
        for each in (writer, member):  # the front has ended; nobody else ends the other side of it
            each.transport.abort()
        return front.broken


@pytest.mark.parametrize(
    ("case", "broken"),
    [("the client goes", 0), ("the member goes", 1), ("the member dies while the client sends", 1)],
)
def test_what_a_member_ends_is_counted_and_nothing_else(case: str, broken: int) -> None:
    assert asyncio.run(asyncio.wait_for(_run(case), OUTER_S)) == broken

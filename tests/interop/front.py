"""One address in front of both members, in place of a load balancer or a Kubernetes Service: it passes bytes on.

A connection goes to the preferred member if that accepts it, else to the other one, and stays there until either side
ends it. It counts what members broke, so that a fault which nobody felt does not pass for one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 16


class Front:
    """For one event loop: `async with Front(endpoints, prefer="a") as front:`."""

    def __init__(self, endpoints: Mapping[str, str], prefer: str) -> None:
        self._order = sorted(endpoints, key=lambda name: name != prefer)
        self._endpoints = endpoints
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.broken = 0  # connections that a member ended, and not the client

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None):
        assert self._server is not None
        self._server.close()
        for each in self._connections:
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            if (member := await self._dial()) is None:
                return
            from_member, to_member = member
            with contextlib.closing(to_member):
                up = asyncio.create_task(_pump(reader, to_member, "client", "member"))
                down = asyncio.create_task(_pump(from_member, writer, "member", "client"))
                try:
                    ended, _ = await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
                    self.broken += all(pump.result() == "member" for pump in ended)
                finally:
                    up.cancel()
                    down.cancel()
                    await asyncio.gather(up, down, return_exceptions=True)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for name in self._order:
            host, _, port = self._endpoints[name].rpartition(":")
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(host, int(port))
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, source: str, sink: str) -> str:
    """Until one side ends it; which one that was. A member that dies also ends what is being written to it."""
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            try:
                writer.write(chunk)
                await writer.drain()
            except OSError:
                return sink
    except OSError:
        pass
    return source

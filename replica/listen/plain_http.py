"""One connection to the HTTP port in clear text; decides nothing. Beside it stands `http_tls.Secured`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket


class Plain:
    """One connection in clear text. The socket is its opener's to close."""

    who = ""

    def __init__(self, client: socket.socket) -> None:
        self._client = client

    async def receive(self, count: int) -> bytes:
        """Some bytes; none: it has ended."""
        return await asyncio.get_running_loop().sock_recv(self._client, count)

    async def send(self, data: bytes) -> None:
        """All of it."""
        await asyncio.get_running_loop().sock_sendall(self._client, data)

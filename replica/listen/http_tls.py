"""TLS of the HTTP port, with the member's certificate, and who reads metrics there; it serves nothing.

Probes have no certificate and need none. Metrics name queues: whoever reads them has the right to observe.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.files import server_context
from tandemq.credentials.names import who_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from tandemq.credentials.files import Credentials

HANDSHAKE_S = 5.0
CLOSE_S = 1.0
"""For the other side to say that it has read to the end."""


class HttpTls:
    """Of one manager. Belongs to the thread of its HTTP port."""

    def __init__(self, credentials: Credentials, observes: Callable[[str], bool]) -> None:
        """`observes`: whether one may read metrics, by `principal/NAME` or `member/PAIR/NAME`; from any thread."""
        self._credentials, self._observes = credentials, observes
        self._made = credentials.generation()
        self._context = server_context(credentials.directory)

    def context(self) -> ssl.SSLContext:
        """With the certificate of now; with the last good one where the files are being exchanged."""
        if (generation := self._credentials.generation()) != self._made:
            try:
                self._context, self._made = server_context(self._credentials.directory), generation
            except BadCredentials:
                return self._context
        return self._context

    async def connected(self, client: socket.socket) -> Secured:
        """The connection, when its handshake is done. Raises OSError."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, protocol = await loop.connect_accepted_socket(
            lambda: asyncio.StreamReaderProtocol(reader),
            client,
            ssl=self.context(),
            ssl_handshake_timeout=HANDSHAKE_S,
            ssl_shutdown_timeout=CLOSE_S,
        )
        return Secured(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    def problem_of(self, who: str) -> str:
        """Why that one may not read metrics; empty: it may."""
        if not who:
            return "metrics want a certificate: tandemq:principal/NAME, of the authority of this pair"
        if not self._observes(who):
            return f"{who} has not the right to observe the pair; an administrator grants it: `tandemq right grant`"
        return ""


class Secured:
    """One connection over TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def who(self) -> str:
        """By its certificate; empty: it has shown none, or one that names nobody here."""
        found = self._writer.get_extra_info("peercert") or {}
        return who_of(value for kind, value in found.get("subjectAltName", ()) if kind == "URI")

    async def receive(self, count: int) -> bytes:
        """Some bytes; none: it has ended."""
        return await self._reader.read(count)

    async def send(self, data: bytes) -> None:
        """All of it."""
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        """Nothing more is said."""
        self._writer.close()
        await self._writer.wait_closed()

    def abort(self) -> None:
        """At once."""
        self._writer.transport.abort()

"""Serves /livez, /readyz, /role/... and /metrics over HTTP, with TLS or without, from a thread of its own, so that a
scrape never waits for the loop nor stalls it.

One request a connection, by HTTP/1.1, parsed by h11 (docs/decisions/0035-edge.md), which is imported when somebody
first connects; what makes metrics is when they are first asked for. Each connection is one task that owns its socket:
it ends with the answer, after a time, or when there is one connection too many, and the socket is closed in that
moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import select
import socket
import ssl
import threading
import time
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from replica.listen.plain_http import Plain
from tandemq.edge.descriptors import HTTP_CONNECTIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import h11
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    from replica.listen.http_tls import HttpTls, Secured

ROLES = MappingProxyType({"/role/master": "MASTER", "/role/replica": "REPLICA"})
"""For load balancers and operators that ask for one role: 200 where the member is ready in it."""
LIVE = ("/livez", "/healthz")
"""The second name is what probes are configured with in many places."""
PATHS = (*LIVE, "/readyz", *ROLES, "/metrics")
METHODS = ("GET", "HEAD")
LIFE_S = 15.0
"""Of a connection, whatever it does: also of one that sends or reads a byte a second."""
SILENCE_S = 5.0
"""Without a whole request."""
LINGER_S, LINGER_BYTES_MAX = 1.0, 256 << 10
"""What a client still sends behind its request is read and thrown away: a socket that is closed before it resets the
connection, and the client may never see the answer.
"""
FRESH_S = 0.1
"""Metrics are made once for all who ask within this time."""
PAGES_MAX = 4
"""Of metrics, by content type, of which a client may name any version."""
BACKLOG = 128
"""Beyond it a connection attempt waits a second for the next one: probes should not."""
HEAD_BYTES_MAX = 16 << 10
READ_BYTES = 16 << 10
STOP_S = 2.0
log = logging.getLogger("tandemq.http")


class HttpAnswer(NamedTuple):
    """What is said to one request."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class HttpServer:
    """The third port of a member."""

    def __init__(
        self,
        host: str,
        port: int,
        ready: Callable[[], tuple[bool, dict[str, Any]]],
        collectors: Callable[[], Sequence[Collector]] = tuple,
        tls: HttpTls | None = None,
    ) -> None:
        """`tls`: None: in clear text, and everybody reads metrics."""
        self._ready = ready
        self._tls = tls
        self._collectors = collectors
        """Called in its thread, when metrics are first asked for: their library is not loaded before."""
        self._registry: CollectorRegistry | None = None
        [(family, kind, proto, _, address), *_] = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)
        self._socket = socket.socket(family, kind, proto)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self._stopping, self._stop_end = socket.socketpair()
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        """One a client, in the order in which they came. Of the thread alone."""
        self._metrics: dict[str, tuple[float, bytes]] = {}
        """By content type: when they were made (time.monotonic), and what they are."""
        self._thread = threading.Thread(target=self._serve, name="tandemq-http", daemon=True)

    @property
    def port(self) -> int:
        """Bound port."""
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Serve."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        self._stop_end.close()
        if self._thread.is_alive():
            self._thread.join(2 * STOP_S)
        self._stopping.close()
        self._socket.close()

    # -- in the thread ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        readable, _, _ = select.select([self._socket, self._stopping], [], [])
        if self._stopping in readable:
            return
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        self._stopping.setblocking(False)
        self._socket.setblocking(False)
        accepting = asyncio.create_task(self._accept())
        await asyncio.get_running_loop().sock_recv(self._stopping, 1)
        accepting.cancel()
        await asyncio.gather(accepting, *map(self._end, list(self._connections)), return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._socket)
            except OSError as error:  # no descriptor is left, or whoever connected has gone
                log.warning("the HTTP port cannot accept: %s", error)
                await asyncio.sleep(FRESH_S)
                continue
            while len(self._connections) >= HTTP_CONNECTIONS_MAX:
                await self._end(next(iter(self._connections)))
            task = asyncio.create_task(self._serve_client(client))
            self._connections[task] = client
            task.add_done_callback(self._on_end)

    async def _end(self, connection: asyncio.Task[None]) -> None:
        """Its socket is closed when this returns."""
        connection.cancel()
        await asyncio.wait([connection])
        self._close(connection)

    def _close(self, connection: asyncio.Task[None]) -> None:
        """Not in the task: one that is cancelled before its first step never enters it."""
        client = self._connections.pop(connection, None)
        if client is not None:
            client.close()

    def _on_end(self, connection: asyncio.Task[None]) -> None:
        self._close(connection)
        if not connection.cancelled() and (error := connection.exception()) is not None:
            log.error("a request to the HTTP port could not be answered", exc_info=error)

    async def _serve_client(self, client: socket.socket) -> None:
        """A client that goes, stalls or says nonsense is not news."""
        with contextlib.suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(LIFE_S):
                await self._answer_client(client)

    async def _answer_client(self, client: socket.socket) -> None:
        if self._tls is None:
            await self._answer_at(Plain(client))
            client.shutdown(socket.SHUT_WR)
            await _linger(Plain(client))
            return
        try:
            secured = await self._tls.connected(client)
        except ssl.SSLError:  # a scanner, or a client that does not know our authority
            return
        try:
            await self._answer_at(secured)
            await secured.end()
        finally:
            secured.abort()

    async def _answer_at(self, client: Plain | Secured) -> None:
        import h11

        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        bodiless = False
        try:
            async with asyncio.timeout(SILENCE_S):
                while (event := connection.next_event()) is h11.NEED_DATA:
                    connection.receive_data(await client.receive(READ_BYTES))
        except h11.RemoteProtocolError as error:
            answer = self._json(error.error_status_hint, {"error": str(error)})
        else:
            if not isinstance(event, h11.Request):
                return  # it has gone
            answer = self._answer(event, client.who)
            bodiless = event.method == b"HEAD"
        await client.send(_bytes_of(connection, answer, bodiless=bodiless))

    def _answer(self, request: h11.Request, who: str) -> HttpAnswer:
        path = request.target.decode("latin-1").partition("?")[0]
        method = request.method.decode("latin-1")
        if path not in PATHS:
            return self._json(404, {"error": f"try {', '.join(PATHS)}"})
        if method not in METHODS:
            status, headers, body = self._json(405, {"error": f"only {' and '.join(METHODS)}"})
            return HttpAnswer(status, [*headers, ("allow", ", ".join(METHODS))], body)
        if path in LIVE:
            return self._json(200, {"live": True})
        if path == "/metrics":
            if self._tls is not None and (problem := self._tls.problem_of(who)):
                return self._json(403, {"error": problem})
            return self._metrics_as(next((value for name, value in request.headers if name == b"accept"), b""))
        ready, facts = self._ready()
        fits = ready and (path == "/readyz" or facts["role"] == ROLES[path])
        return self._json(200 if fits else 503, {"ready": ready, **facts})

    def _metrics_as(self, accept: bytes) -> HttpAnswer:
        from prometheus_client.exposition import choose_encoder

        if self._registry is None:
            self._registry = _registry_of(self._collectors())
        try:
            encode, content_type = choose_encoder(accept.decode("latin-1"))
        except (TypeError, ValueError):  # a version in there is no version: whatever everybody can read
            encode, content_type = choose_encoder("")
        made_at, body = self._metrics.get(content_type, (-FRESH_S, b""))
        if time.monotonic() - made_at >= FRESH_S:
            body = encode(self._registry)
            if len(self._metrics) >= PAGES_MAX:
                self._metrics.clear()
            self._metrics[content_type] = time.monotonic(), body
        return HttpAnswer(200, [("content-type", content_type)], body)

    @staticmethod
    def _json(status: int, body: dict[str, Any]) -> HttpAnswer:
        return HttpAnswer(status, [("content-type", "application/json")], json.dumps(body).encode() + b"\n")


async def _linger(client: Plain) -> None:
    async with asyncio.timeout(LINGER_S):
        left = LINGER_BYTES_MAX
        while left > 0 and (thrown_away := await client.receive(READ_BYTES)):
            left -= len(thrown_away)


def _registry_of(collectors: Sequence[Collector]) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return registry


def _bytes_of(connection: h11.Connection, answer: HttpAnswer, *, bodiless: bool) -> bytes:
    """The whole response."""
    import h11

    headers = [*answer.headers, ("content-length", str(len(answer.body))), ("connection", "close")]
    parts = (
        h11.Response(status_code=answer.status, headers=headers, reason=HTTPStatus(answer.status).phrase),
        h11.Data(data=b"" if bodiless else answer.body),
        h11.EndOfMessage(),
    )
    return b"".join(connection.send(part) or b"" for part in parts)

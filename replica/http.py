"""Serves /livez, /readyz, /role/... and /metrics over HTTP from a thread of its own, so that a scrape never waits for
the loop nor stalls it.

The server is Hypercorn (docs/decisions/0035-edge.md), imported when somebody first connects. What it leaves open is
bounded here, at the socket: the number of connections, and how long each may last.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from tandemq.edge.descriptors import HTTP_CONNECTIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.registry import Collector

ROLES = {"/role/master": "MASTER", "/role/replica": "REPLICA"}
"""For load balancers and operators that ask for one role: 200 where the member is ready in it."""
PATHS = ("/livez", "/readyz", *ROLES, "/metrics")
METHODS = ("GET", "HEAD")
LIFE_S = 15.0
"""Of a connection, whatever it does: also of one that sends or reads a byte a second."""
SILENCE_S = 5.0
"""Without a whole request."""
LOOK_S = 1.0
HEAD_BYTES_MAX = 16 << 10
STOP_S = 2.0


class BoundedListener(socket.socket):
    """Listens, and keeps at most `connections_max` connections: the oldest one is shut when there is one too many."""

    connections_max = HTTP_CONNECTIONS_MAX

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._accepted: dict[socket.socket, float] = {}
        """In the order in which they came; when (time.monotonic)."""

    def accept(self) -> tuple[socket.socket, Any]:
        """As of every socket."""
        accepted, address = super().accept()
        self.shut_old(time.monotonic() - LIFE_S)
        while len(self._accepted) >= self.connections_max:
            _shut(oldest := next(iter(self._accepted)))
            del self._accepted[oldest]
        self._accepted[accepted] = time.monotonic()
        return accepted, address

    def shut_old(self, before: float) -> None:
        """Shut what came before then; forget what is closed."""
        for each, came in list(self._accepted.items()):
            if each.fileno() < 0 or came < before:
                _shut(each)
                del self._accepted[each]


def _shut(accepted: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed, or its client has gone
        accepted.shutdown(socket.SHUT_RDWR)


class HttpServer:
    """The third port of a member."""

    def __init__(
        self, host: str, port: int, ready: Callable[[], tuple[bool, dict[str, Any]]], *collectors: Collector
    ) -> None:
        self._ready = ready
        self._registry = CollectorRegistry(auto_describe=False)
        for collector in collectors:
            self._registry.register(collector)
        [(family, kind, proto, _, address), *_] = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)
        self._socket = BoundedListener(family, kind, proto)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
            self._socket.listen(HTTP_CONNECTIONS_MAX)
        except OSError:
            self._socket.close()
            raise
        self._stopping, self._told = socket.socketpair()
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
        self._told.close()
        if self._thread.is_alive():
            self._thread.join(2 * STOP_S)
        self._stopping.close()
        self._socket.close()

    # -- in the thread ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        readable, _, _ = select.select([self._socket, self._stopping], [], [])
        if self._stopping in readable:
            return
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # asks the socket itself to accept
            runner.run(self._serve_with_hypercorn())

    async def _serve_with_hypercorn(self) -> None:
        from hypercorn.asyncio import serve
        from hypercorn.config import Config, Sockets

        listener = self._socket

        class Ours(Config):
            def create_sockets(self) -> Sockets:
                return Sockets([], [listener], [])

        config = Ours()
        config.errorlog = config.accesslog = None  # scrapes are not news, nor are clients that hang up
        config.keep_alive_timeout, config.read_timeout = SILENCE_S, int(SILENCE_S)
        config.graceful_timeout = STOP_S / 2
        config.h11_max_incomplete_size = HEAD_BYTES_MAX
        config.include_server_header = False
        sweeping = asyncio.create_task(self._sweep())
        try:
            await serve(self._app, config, shutdown_trigger=self._until_stopped, mode="asgi")
        finally:
            sweeping.cancel()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._socket.shut_old(time.monotonic() - LIFE_S)

    async def _until_stopped(self) -> None:
        self._stopping.setblocking(False)
        await asyncio.get_running_loop().sock_recv(self._stopping, 1)
        self._socket.shut_old(time.monotonic())

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            status, headers, body = self._answer(scope)
            headers.append((b"content-length", str(len(body)).encode()))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            body = b"" if scope["method"] == "HEAD" else body
            await send({"type": "http.response.body", "body": body})
        else:
            await send({"type": "websocket.close"})

    def _answer(self, scope: Any) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        path = scope["path"]
        if path not in PATHS:
            return self._json(404, {"error": f"try {', '.join(PATHS)}"})
        if scope["method"] not in METHODS:
            status, headers, body = self._json(405, {"error": f"only {' and '.join(METHODS)}"})
            return status, [*headers, (b"allow", ", ".join(METHODS).encode())], body
        if path == "/livez":
            return self._json(200, {"live": True})
        if path == "/metrics":
            accept = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"), "")
            encode, content_type = choose_encoder(accept)
            return 200, [(b"content-type", content_type.encode())], encode(self._registry)
        ready, facts = self._ready()
        fits = ready and (path == "/readyz" or facts["role"] == ROLES[path])
        return self._json(200 if fits else 503, {"ready": ready, **facts})

    @staticmethod
    def _json(status: int, body: dict[str, Any]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        return status, [(b"content-type", b"application/json")], json.dumps(body).encode() + b"\n"


async def _live(receive: Any, send: Any) -> None:
    """Nothing begins or ends with the server."""
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})

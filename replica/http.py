"""Serves /livez, /readyz, /role/... and /metrics over HTTP from a thread of its own, so that a scrape never waits for
the loop nor stalls it.
"""

from __future__ import annotations

import json
import threading
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import make_wsgi_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

    from prometheus_client.registry import Collector

ROLES = {"/role/master": "MASTER", "/role/replica": "REPLICA"}
"""For load balancers and operators that ask for one role: 200 where the member is ready in it."""
PATHS = ("/livez", "/readyz", *ROLES, "/metrics")


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 32


class _Quiet(WSGIRequestHandler):
    timeout = 5
    """A client that sends nothing frees its thread."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class names it so
        """Scrapes are not news."""


class HttpServer:
    """The third port of a member."""

    def __init__(
        self, host: str, port: int, ready: Callable[[], tuple[bool, dict[str, Any]]], *collectors: Collector
    ) -> None:
        self._ready = ready
        registry = CollectorRegistry(auto_describe=False)
        for collector in collectors:
            registry.register(collector)
        self._metrics = make_wsgi_app(registry)
        self._server = make_server(host, port, self._app, server_class=_Server, handler_class=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, name="tandemq-http", daemon=True)

    @property
    def port(self) -> int:
        """Bound port."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def _app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            page: Iterable[bytes] = self._metrics(environ, start_response)
            return page
        if path == "/livez":
            return self._json(start_response, "200 OK", {"live": True})
        if path in ("/readyz", *ROLES):
            ready, facts = self._ready()
            fits = ready and (path == "/readyz" or facts["role"] == ROLES[path])
            return self._json(
                start_response, "200 OK" if fits else "503 Service Unavailable", {"ready": ready, **facts}
            )
        return self._json(start_response, "404 Not Found", {"error": f"try {', '.join(PATHS)}"})

    @staticmethod
    def _json(start_response: StartResponse, status: str, body: dict[str, Any]) -> list[bytes]:
        data = json.dumps(body).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
        return [data]

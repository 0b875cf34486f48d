"""The HTTP port: what it answers, and what it does with clients that take their time."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from replica import http as module
from replica.http import HttpServer
from tandemq.edge.descriptors import HTTP_CONNECTIONS_MAX

BOUND_S = 60


@pytest.fixture
def server() -> Iterator[HttpServer]:
    ready: tuple[bool, dict[str, Any]] = (True, {"role": "MASTER", "epoch": 3})
    found = HttpServer("127.0.0.1", 0, lambda: ready)
    found.start()
    yield found
    found.stop()
    assert not found._thread.is_alive()


def ask(port: int, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=BOUND_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_it_answers_get_and_head_and_says_so_to_others(server: HttpServer) -> None:
    assert [ask(server.port, "GET", path)[0] for path in ("/livez", "/readyz", "/role/master", "/metrics")] == [200] * 4
    assert ask(server.port, "GET", "/role/replica")[0] == 503
    assert ask(server.port, "GET", "/nothing")[0] == 404
    status, headers, body = ask(server.port, "HEAD", "/readyz")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) == len(ask(server.port, "GET", "/readyz")[2]) > 0
    for method in ("POST", "PUT", "DELETE", "TRACE", "OPTIONS", "PATCH"):
        status, headers, _ = ask(server.port, method, "/livez")
        assert (status, headers["allow"]) == (405, "GET, HEAD"), method


def test_a_client_that_sends_half_a_request_is_closed(server: HttpServer) -> None:
    halves = []
    for half in (b"", b"GET /liv", b"GET /livez HTTP/1.1\r\nHost: x\r\n"):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=BOUND_S)
        client.sendall(half)
        halves.append(client)
    for client in halves:
        with client:
            while client.recv(4096):
                pass


def test_a_client_that_sends_a_byte_now_and_then_is_closed(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The silence between two bytes is short, so only the bound on the whole life ends it."""
    monkeypatch.setattr(module, "LIFE_S", 0.5)
    monkeypatch.setattr(module, "SILENCE_S", BOUND_S)
    with socket.create_connection(("127.0.0.1", server.port), timeout=BOUND_S) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nX")
        assert client.recv(4096) == b""


def test_one_too_many_takes_the_place_of_the_oldest(server: HttpServer) -> None:
    crowd = [socket.create_connection(("127.0.0.1", server.port), timeout=BOUND_S)]
    try:
        crowd[0].sendall(b"GET /livez HTTP/1.1\r\nX")
        address = ("127.0.0.1", server.port)
        crowd += [socket.create_connection(address, timeout=BOUND_S) for _ in range(HTTP_CONNECTIONS_MAX)]
        assert ask(server.port, "GET", "/livez")[0] == 200
        assert crowd[0].recv(4096) == b""
        assert len(server._socket._accepted) <= HTTP_CONNECTIONS_MAX
    finally:
        for client in crowd:
            client.close()


def test_it_stops_with_clients_that_have_said_nothing(server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=BOUND_S) as client:
        assert ask(server.port, "GET", "/livez")[0] == 200
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert client.recv(4096) == b""
        stopping.join(BOUND_S)
        assert not stopping.is_alive()


def test_slow_and_wrong_clients_write_nothing_to_stderr(server: HttpServer, capfd: pytest.CaptureFixture[str]) -> None:
    for wrong in (b"\x00\xff\r\n\r\n", b"GET /livez HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnothing"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=BOUND_S) as client:
            client.sendall(wrong)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass
    assert ask(server.port, "GET", "/livez")[0] == 200
    assert capfd.readouterr().err == ""


def test_its_library_is_not_imported_before_somebody_connects() -> None:
    text = "import sys, replica.http; sys.exit('hypercorn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0

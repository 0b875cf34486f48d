"""The HTTP port: what it answers, and what it does with clients that take their time."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replica.listen import http as module
from replica.listen.http import HttpServer
from tandemq.edge.descriptors import HTTP_CONNECTIONS_MAX
from tests.support.until import OUTER_S, until_sync


@pytest.fixture
def server() -> Iterator[HttpServer]:
    ready: tuple[bool, dict[str, Any]] = (True, {"role": "MASTER", "epoch": 3})
    found = HttpServer("127.0.0.1", 0, lambda: ready)
    found.start()
    yield found
    found.stop()
    assert not found._thread.is_alive()


def ask(port: int, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=OUTER_S)
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


def test_a_client_that_sends_half_a_request_is_closed(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole life is long, so only the bound on the silence ends it."""
    assert module.SILENCE_S < module.LIFE_S
    monkeypatch.setattr(module, "SILENCE_S", 0.1)
    monkeypatch.setattr(module, "LIFE_S", OUTER_S)
    halves = []
    for half in (b"", b"GET /liv", b"GET /livez HTTP/1.1\r\nHost: x\r\n"):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=OUTER_S)
        client.sendall(half)
        halves.append(client)
    for client in halves:
        with client:
            while client.recv(4096):
                pass


def test_a_client_that_sends_a_byte_now_and_then_is_closed(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The silence between two bytes is short, so only the bound on the whole life ends it."""
    monkeypatch.setattr(module, "LIFE_S", 0.5)
    monkeypatch.setattr(module, "SILENCE_S", OUTER_S)
    with socket.create_connection(("127.0.0.1", server.port), timeout=OUTER_S) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nX")
        assert client.recv(4096) == b""


def test_one_too_many_takes_the_place_of_the_oldest(server: HttpServer) -> None:
    crowd = [socket.create_connection(("127.0.0.1", server.port), timeout=OUTER_S)]
    try:
        crowd[0].sendall(b"GET /livez HTTP/1.1\r\nX")
        address = ("127.0.0.1", server.port)
        crowd += [socket.create_connection(address, timeout=OUTER_S) for _ in range(HTTP_CONNECTIONS_MAX)]
        assert ask(server.port, "GET", "/livez")[0] == 200
        with contextlib.suppress(ConnectionResetError):  # what it had sent may not have been read
            assert crowd[0].recv(4096) == b""
        assert len(server._connections) <= HTTP_CONNECTIONS_MAX
    finally:
        for client in crowd:
            client.close()


def test_it_stops_with_clients_that_have_said_nothing(server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=OUTER_S) as client:
        assert ask(server.port, "GET", "/livez")[0] == 200
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert client.recv(4096) == b""
        stopping.join(OUTER_S)
        assert not stopping.is_alive()


def test_slow_and_wrong_clients_write_nothing_to_stderr(server: HttpServer, capfd: pytest.CaptureFixture[str]) -> None:
    for wrong in (b"\x00\xff\r\n\r\n", b"GET /livez HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnothing"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=OUTER_S) as client:
            client.sendall(wrong)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass
    assert ask(server.port, "GET", "/livez")[0] == 200
    assert capfd.readouterr().err == ""


H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
PIPELINED = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1000


@pytest.mark.parametrize(
    "wanted", [PIPELINED, H2_PREFACE + SETTINGS * 300, b"GET /livez HTTP/1.1\r\nX: " + b"x" * 40_000]
)
def test_a_connection_leaves_nothing_behind_whatever_it_sends(
    server: HttpServer, wanted: bytes, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Some read what they are told, others go at once, some of them with a reset."""
    for turn in range(30):
        with socket.create_connection(("127.0.0.1", server.port), timeout=OUTER_S) as client:
            if turn % 3 == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(ConnectionError):
                client.sendall(wanted)
                while turn % 3 == 1 and client.recv(65536):
                    pass

    def is_rid_of_them() -> bool:
        return ask(server.port, "GET", "/livez")[0] == 200 and not server._connections

    until_sync(is_rid_of_them, "no connection is left")
    assert (capfd.readouterr().err, caplog.records) == ("", [])


def test_one_request_is_answered_and_what_follows_is_not(server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=OUTER_S) as client:
        client.sendall(PIPELINED)
        client.shutdown(socket.SHUT_WR)
        told = b""
        while data := client.recv(65536):
            told += data
    assert told.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in told.lower()


def test_descriptors_stay_within_the_bound(server: HttpServer) -> None:
    """They are closed when one takes the place of another, not when its client notices."""
    assert ask(server.port, "GET", "/livez")[0] == 200
    crowd = []
    try:
        for _ in range(4 * HTTP_CONNECTIONS_MAX):
            crowd.append(socket.create_connection(("127.0.0.1", server.port), timeout=OUTER_S))
            crowd[-1].sendall(b"GET /livez HTTP/1.1\r\nX")
        assert ask(server.port, "GET", "/livez")[0] == 200
        kept = len(server._connections)
        assert kept <= HTTP_CONNECTIONS_MAX
        ours = {client.getsockname() for client in crowd}
        held = [name for name in peers_of_this_process() if name in ours]
        assert len(held) <= HTTP_CONNECTIONS_MAX
    finally:
        for client in crowd:
            client.close()


def peers_of_this_process() -> Iterator[Any]:
    """Remote ends of all sockets that are open here."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            copy = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue  # no socket, or gone
        with copy, contextlib.suppress(OSError):
            yield copy.getpeername()


@pytest.mark.parametrize("accept", ["text/plain;version=a", "application/openmetrics-text;version=1.a", "x\xff,;=,"])
def test_metrics_are_given_whatever_is_accepted(server: HttpServer, accept: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=OUTER_S)
    with contextlib.closing(connection):
        connection.putrequest("GET", "/metrics")
        connection.putheader("Accept", accept.encode("latin-1"))
        connection.endheaders()
        assert connection.getresponse().status == 200


def test_a_fault_of_ours_is_logged_and_ends_that_connection_alone(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> tuple[bool, dict[str, Any]]:
        raise KeyError("planted")

    server = HttpServer("127.0.0.1", 0, broken)
    server.start()
    try:
        with pytest.raises(http.client.RemoteDisconnected):
            ask(server.port, "GET", "/readyz")
        assert ask(server.port, "GET", "/livez")[0] == 200
    finally:
        server.stop()
    assert [record.getMessage() for record in caplog.records] == ["a request to the HTTP port could not be answered"]


def test_metrics_are_made_once_for_all_who_ask_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Counting:
        def collect(self) -> Iterator[Any]:
            made.append(1)
            return iter(())

    monkeypatch.setattr(module, "FRESH_S", float(OUTER_S))
    server = HttpServer("127.0.0.1", 0, lambda: (True, {}), lambda: [Counting()])
    server.start()
    try:
        for _ in range(5):
            assert ask(server.port, "GET", "/metrics")[0] == 200
    finally:
        server.stop()
    assert len(made) == 1


def test_what_clients_accept_fills_no_memory(server: HttpServer) -> None:
    for version in range(3 * module.PAGES_MAX):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=OUTER_S)
        with contextlib.closing(connection):
            connection.request(
                "GET", "/metrics", headers={"Accept": f"application/openmetrics-text;version={version}.0"}
            )
            assert connection.getresponse().status == 200
    assert 0 < len(server._metrics) <= module.PAGES_MAX


def test_its_library_is_not_imported_before_somebody_connects() -> None:
    text = "import sys, replica.listen.http; sys.exit('h11' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0

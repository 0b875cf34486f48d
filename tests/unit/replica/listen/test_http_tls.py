"""The HTTP port with certificates: probes need none, and metrics are for whoever may observe."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from replica.listen.http import HttpServer
from replica.listen.http_tls import HttpTls
from tandemq.cli.doctor.asking import metrics_of
from tandemq.credentials.authority import create, issue
from tandemq.credentials.files import Credentials, client_context
from tests.support.until import OUTER_S, until_sync

NAME = "a.orders.member.tandemq"


class Port:
    """An HTTP port of member a, and who comes to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        create(folder / "authority")
        create(folder / "other")
        for who in ("member/orders/a", "principal/prometheus", "principal/billing"):
            issue(folder / "authority", who, self.of(who))
        issue(folder / "other", "principal/prometheus", self.of("stranger"))
        tls = HttpTls(Credentials(self.of("member/orders/a")), lambda who: who == "principal/prometheus")
        self.server = HttpServer("127.0.0.1", 0, lambda: (True, {"role": "MASTER"}), tls=tls)

    def of(self, who: str) -> Path:
        return self.folder / who.rpartition("/")[2]

    def context(self, who: str = "") -> ssl.SSLContext:
        if who:
            return client_context(self.of(who))
        return ssl.create_default_context(cadata=(self.folder / "authority" / "ca.pem").read_text())

    def ask(self, path: str, context: ssl.SSLContext) -> str:
        plain = socket.create_connection(("127.0.0.1", self.server.port), timeout=OUTER_S)
        with plain, context.wrap_socket(plain, server_hostname=NAME) as tls:
            tls.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            assert tls.version() == "TLSv1.3"
            found = b""
            while piece := tls.recv(1 << 16):
                found += piece
        return found.decode()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[Port]:
    found = Port(tmp_path)
    found.server.start()
    yield found
    found.server.stop()
    assert not found.server._thread.is_alive()


def test_probes_need_no_certificate(port: Port) -> None:
    for path in ("/livez", "/healthz", "/readyz", "/role/master"):
        assert port.ask(path, port.context()).startswith("HTTP/1.1 200 "), path


def test_metrics_are_for_whoever_may_observe(port: Port) -> None:
    assert "certificate" in (answer := port.ask("/metrics", port.context()))
    assert answer.startswith("HTTP/1.1 403 ")
    assert "principal/billing has not the right to observe" in port.ask("/metrics", port.context("billing"))
    assert port.ask("/metrics", port.context("prometheus")).startswith("HTTP/1.1 200 ")


def test_a_certificate_of_another_authority_is_refused_in_the_handshake(port: Port) -> None:
    stranger = port.context()
    stranger.load_cert_chain(port.of("stranger") / "cert.pem", port.of("stranger") / "key.pem")
    try:
        answer = port.ask("/livez", stranger)
    except OSError:  # as OpenSSL reports it
        answer = ""
    assert answer == ""
    assert port.ask("/livez", port.context()).startswith("HTTP/1.1 200 ")


def test_plain_text_and_silence_harm_nobody(port: Port) -> None:
    silent = [socket.create_connection(("127.0.0.1", port.server.port)) for _ in range(5)]
    with socket.create_connection(("127.0.0.1", port.server.port), timeout=OUTER_S) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP" not in plain.recv(1 << 16)
    assert port.ask("/livez", port.context()).startswith("HTTP/1.1 200 ")
    for each in silent:
        each.close()


def test_a_renewed_certificate_is_shown_and_a_broken_one_is_not(port: Port) -> None:
    member = port.of("member/orders/a")

    def ends() -> object:
        plain = socket.create_connection(("127.0.0.1", port.server.port), timeout=OUTER_S)
        with plain, port.context().wrap_socket(plain, server_hostname=NAME) as tls:
            return (tls.getpeercert() or {})["notAfter"]

    before = ends()
    issue(port.folder / "authority", "member/orders/a", member, lasts=timedelta(days=7))
    until_sync(lambda: ends() != before, "the new one is shown")
    now = ends()
    (member / "cert.pem").write_text("half a fi")
    assert ends() == now


def test_the_doctor_reads_metrics_as_the_member_itself(port: Port) -> None:
    shown = port.of("principal/prometheus")
    page = metrics_of(f"127.0.0.1:{port.server.port}", OUTER_S, shown, NAME)
    assert page == b""

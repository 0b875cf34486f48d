"""`tandemq dev` with certificates, by hand: nobody without one gets a word in, a client may do what it was granted, the
same before and after a kill -9 of the master, and what it was refused stands in the audit log. The user types nothing.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.fork_server import ForkServer
from tandemq.cli.context import read
from tests.integration.home import Home
from tests.support.until import OUTER_S, until_sync

pytestmark = [pytest.mark.process, pytest.mark.slow]

FIRST_WORD = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@pytest.fixture
def home(tmp_path: Path, commands: ForkServer) -> Home:
    made = Home(tmp_path, commands)
    made.environment.pop("TANDEMQ_CREDENTIALS", None)
    return made


def as_client(home: Home, folder: str) -> Home:
    """The same user's programs, with other credentials."""
    made = Home(home.folder, home.commands)
    made.environment = {**home.environment, "TANDEMQ_CREDENTIALS": str(home.folder / folder)}
    return made


def handshake(port: int) -> str:
    """What OpenSSL's own client sees who has no certificate."""
    words = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-alpn", "h2", "-msg"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=OUTER_S, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")


def said_to(port: int, word: bytes) -> bytes:
    """What a port answers to somebody without TLS, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=OUTER_S) as connection:
        connection.sendall(word)
        return connection.recv(1)


def roles(home: Home) -> dict[str, str]:
    view = json.loads(home.run("pair", "status", "-o", "json", code=None))  # 1: the pair is not whole
    return {
        member["name"]: next((each["role"] for each in member["domains"] if each["name"] == "main"), "")
        for member in view["members"]
    }


def refused(billing: Home) -> None:
    """Whatever it was not granted."""
    for words in (
        ("msg", "receive", "orders"),
        ("queue", "create", "another"),
        ("backup", "create", "orders.tqb"),
        ("pair", "handoff"),
    ):
        assert "error: PERMISSION_DENIED" in billing.run(*words, code=1), words


def lines(home: Home, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in home.run(*words, "-o", "jsonl").splitlines()]


def test_a_client_may_do_what_it_was_granted_before_and_after_a_kill(home: Home) -> None:
    with home.dev() as base:
        seen = handshake(base)
        assert "TLSv1.3" in seen
        assert re.search(r"<<< TLS 1.3, Handshake .* CertificateRequest", seen), seen
        assert said_to(base, FIRST_WORD) == b""
        stranger = Home(home.folder, home.commands)
        stranger.environment["TANDEMQ_CONFIG_HOME"] = str(home.folder / "nobody")
        told = stranger.run("queue", "ls", "--target", f"127.0.0.1:{base}", "--timeout", "1s", code=3)
        assert "wants a certificate" in told

        home.run("queue", "create", "orders")
        home.run("cert", "issue", "billing", "--out", "D")
        home.run("right", "grant", "billing", "produce", "orders")
        billing = as_client(home, "D")
        billing.run("msg", "send", "orders", "first")
        refused(billing)
        context = read(home.folder / "pair" / "context.toml")
        master = next(name for name, role in roles(home).items() if role == "MASTER")
        os.kill(context["pids"][master], signal.SIGKILL)
        until_sync(lambda: list(roles(home).values()).count("MASTER") == 1, "the other one is master")
        billing.run("msg", "send", "orders", "second")
        refused(billing)
        home.run("dev", "--data-dir", str(home.folder / "pair"), "restart", master)
        assert [each["body"] for each in lines(home, "msg", "browse", "orders")] == ["first", "second"]
        audited = lines(home, "audit", "ls", "--outcome", "PERMISSION_DENIED")
        assert {each["principal"] for each in audited} == {"principal/billing"}
        for method in ("QueueService/Dequeue", "QueueAdminService/CreateQueue", "PairService/GetPairStatus"):
            assert {each["object"] for each in audited if each["method"] == method}, audited


def test_nothing_is_typed_whatever_a_program_calls_the_pair(home: Home) -> None:
    """By its endpoints, one of them, another name of this host, or not at all; also by a drill, and the next time."""
    program = """
import sys, tandemq
with tandemq.connect(sys.argv[1] or None) as client:
    with client.producer("orders") as producer:
        producer.send(b"x")
"""
    with home.dev() as base:
        first = serials(home.folder)
        home.run("queue", "create", "orders")
        both = f"127.0.0.1:{base},127.0.0.1:{base + 10}"
        for target in ("", both, f"127.0.0.1:{base + 10}", f"localhost:{base}"):
            words = [sys.executable, "-c", program, target]
            subprocess.run(words, env=home.environment, timeout=OUTER_S, check=True)
        home.run("queue", "ls", "--target", both)
        home.run("queue", "info", "//dev/orders")
        home.run("witness", "status")
        home.run("doctor")
        home.run("doctor", "--target", f"127.0.0.1:{base}")
        assert '"IN_SYNC"' in home.run("pair", "status", "-o", "json")
        home.run("drill", "run", "kill-master", "--repeat", "1", "--report-dir", str(home.folder / "report"))
    with home.dev():
        assert serials(home.folder) == first, "they are made once"
        assert [each["body"] for each in lines(home, "msg", "browse", "orders")] == ["x"] * 4


def test_a_pair_may_be_plain_and_have_certificates_by_turns(home: Home) -> None:
    for options in (("--insecure",), ("--secure",), ("--insecure",)):
        with home.dev(*options) as base:
            if options == ("--insecure",):
                assert said_to(base, FIRST_WORD) != b""
            home.run("queue", "create", "orders", code=None)  # there is one the second time
            home.run("msg", "send", "orders", options[0].strip("-"))
            assert ("credentials" in read(home.folder / "pair" / "context.toml")) is (options[0] == "--secure")
    with home.dev():
        found = [each["body"] for each in lines(home, "msg", "browse", "orders")]
        assert found == ["insecure", "secure", "insecure"]


def serials(folder: Path) -> list[bytes]:
    found = sorted((folder / "pair" / "credentials").glob("*/cert.pem"))
    assert len(found) == 4
    return [each.read_bytes() for each in found]

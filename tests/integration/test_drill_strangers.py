"""Drills at a target that is not ours: refused with what is there, nothing hurt, nothing left that runs or listens."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.ports import TOXIPROXY_OFFSET
from tests.integration.home import Home
from tests.support.clusters import patient
from tests.support.toxiproxy import toxiproxy_program

pytestmark = pytest.mark.process


def refuses(home: Home, *arguments: str) -> str:
    """What a drill says that is not begun; it leaves no report."""
    said = home.run("drill", "run", *arguments, code=2)
    assert "Traceback" not in said
    assert not (home.folder / "build" / "drill" / "report.html").exists()
    return " ".join(said.split())


@contextmanager
def http_server() -> Iterator[tuple[str, list[str]]]:
    """Its address, and what it was asked."""
    asked: list[str] = []

    class Noting(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            asked.append(format % args)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Noting)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_http_server_a_silent_one_and_nobody(home: Home) -> None:
    with http_server() as (stranger, _), socket.create_server(("127.0.0.1", 0)) as mute:
        said = refuses(home, "kill-master", "--target", stranger)
        assert f"{stranger}: nobody answers there who speaks gRPC" in said
        silent = f"127.0.0.1:{mute.getsockname()[1]}"
        said = refuses(home, "kill-master", "--target", silent)
        assert re.search(f"{silent}: (no answer within 2 s|nobody answers there)", said)
    said = refuses(home, "kill-master", "--target", "127.0.0.1:1")
    assert "nobody answers at 127.0.0.1:1" in said
    assert "is not host:port" in refuses(home, "kill-master", "--target", "here:no:port")


@pytest.mark.long
async def test_a_witness_and_a_manager_without_a_peer_are_no_pair(home: Home) -> None:
    cluster = patient(home.folder / "pair")
    async with cluster.running():
        said = refuses(home, "kill-master", "--target", cluster.witness_endpoint)
        assert "a gRPC server answers there, but it is no member of a pair" in said
        assert (await cluster.status()).whole()
        assert all(child.running for child in cluster.children.values())
    solo = patient(home.folder / "solo", members=("solo",))
    async with solo.running():
        said = refuses(home, "kill-master", "--target", solo.endpoint("solo"))
        assert f"a drill needs a pair; at {solo.endpoint('solo')} there is solo" in said
        assert solo.children["solo"].running


@pytest.mark.long
async def test_members_of_two_pairs_are_no_pair(home: Home) -> None:
    """One is master and the other a replica in sync: together they look whole, and a fault of one would hurt another's
    pair."""
    ours = patient(home.folder / "ours")
    async with ours.running(), (theirs := patient(home.folder / "theirs")).running():
        hooks = home.folder / "hooks.toml"
        hooks.write_text('kill = ["true"]\nstart = ["true"]\n')
        target = f"{ours.endpoint('a')},{theirs.endpoint('b')}"
        said = refuses(home, "kill-master", "--target", target, "--hooks", str(hooks))
        assert f"members of two pairs: a is {ours.endpoint('a')} (pair " in said
        assert "nothing was sent and nothing was hurt" in said


# -- Toxiproxy of a development pair -----------------------------------------------------------------------------------


def toxiproxy_at(port: int) -> int:
    """The process id of the server that takes orders there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = path.read_bytes().split(b"\0")
            if b"toxiproxy" in words[0] and b"%d" % port in words:
                found.append(int(path.parent.name))
    [one] = found
    return one


@pytest.mark.long
def test_the_toxiproxy_of_dev_was_gone_before_the_drill(home: Home) -> None:
    toxiproxy_program()
    with home.dev("--chaos") as base:
        os.kill(toxiproxy_at(base + TOXIPROXY_OFFSET), signal.SIGKILL)
        said = refuses(home, "partition-peer")
        assert re.search("SERVER_GONE: Toxiproxy at 127.0.0.1:[0-9]+ does not answer", said)
        assert "nothing was hurt" in said


@pytest.mark.long
def test_the_toxiproxy_of_dev_dies_in_the_middle(home: Home) -> None:
    """Its connections went with it: the drill says so, ends, and leaves the processes of the pair running."""
    drill = home.folder / "mine.toml"
    drill.write_text(
        'name = "mine"\nrepeat = 1\n[steady]\nwarm_up_s = 1\n[[method]]\nfault = "flap"\nfor_s = 600\n'
        "[rollback]\nwithin_s = 3\npause_s_max = 60\n"
    )
    toxiproxy_program()
    with home.dev("--chaos") as base:
        process = home.start("drill", "run", str(drill), "--report-dir", "report")
        assert process.stdout is not None
        assert any(re.search("round 1", line) for line in process.stdout)
        os.kill(toxiproxy_at(base + TOXIPROXY_OFFSET), signal.SIGKILL)
        said, _ = process.communicate()
        assert process.returncode == 3, said
        assert "Traceback" not in said
        assert re.search("it went wrong, all is healed now: SERVER_GONE: Toxiproxy at 127.0.0.1:[0-9]+ does", said)
        assert "NOT HEALED" in said
        assert "Future exception" not in said
        journal = [json.loads(line) for line in (home.folder / "report" / "journal.jsonl").read_text().splitlines()]
        [wrong_s, healed_s] = [each["t"] for each in journal if each.get("phase") == "rollback"]
        assert healed_s - wrong_s < 30.0  # its clients, which wait up to 75 s for answers, are not waited for
        told = home.run("dev", "--data-dir", str(home.folder / "pair"), "status", "-o", "json")
        assert all(each["running"] for each in json.loads(told)["processes"]), told

"""`tandemq doctor` at real pairs, half ones, strangers and nothing: what it says, and what is in its bundle."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from storage.disk import open_disk
from tandemq import aio
from tandemq.config import Failover
from tests.integration.support import is_alone, new_name, raw_to
from tests.support.clusters import quick
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process
TOKEN, PAYLOAD, PROPERTY = "tok-8f3a91", b"payload-of-nobody-else", "property-of-nobody-else"
COMMAND = ("/usr/bin/decide", "--target", "q1.example", "--token", TOKEN)


class Doctor:
    """The command, as a user types it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        own = {"TANDEMQ_CONFIG_HOME": str(home), "NO_COLOR": "1", "TANDEMQ_FAILOVER_COMMAND": ",".join(COMMAND)}
        self.environment = {**os.environ, **own}
        self.environment.pop("TANDEMQ_TARGET", None)

    def __call__(self, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "tandemq", "doctor", "--timeout", "1s", *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=OUTER_S, check=False, cwd=self.home
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*arguments, "-o", "json", code=code))
        return found


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    home = tmp_path / "home"
    home.mkdir()
    return Doctor(home)


def lines(found: dict[str, Any], check: str, about: str = "") -> list[tuple[str, str]]:
    rows = [each for each in found["findings"] if each["check"] == check and about in each["about"]]
    return [(each["level"], each["what"]) for each in rows]


def parts_of(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        files = {entry.name.partition("/")[2]: archive.extractfile(entry) for entry in archive}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


async def test_a_pair_that_is_well_and_one_that_lost_a_member(tmp_path: Path, doctor: Doctor) -> None:
    cluster = quick(tmp_path / "pair", failover=Failover(command=COMMAND))
    configs = [f"--config={cluster.config_file(name)}" for name in cluster.members]
    logs = [f"--log={cluster.children[name].log}" for name in cluster.members]
    async with cluster.running():
        async with raw_to(*cluster.endpoints) as members:
            queue = new_name("orders")
            await members[0].create(queue)
        async with aio.connect(cluster.target) as client:
            await client.send(queue, PAYLOAD, properties={"p": PROPERTY})
        found = doctor.json(*configs)
        assert found["counts"]["fail"] == 0, found
        for check in ("members", "roles", "in-sync", "epochs", "versions", "clocks", "register", "classifier", "store"):
            assert {level for level, _ in lines(found, check)} == {"ok"}, lines(found, check)
        assert "valid; values:" in lines(found, "config", "member a")[0][1]
        assert "1 of TANDEMQ_FAILOVER_COMMAND" in lines(found, "config", "member a")[0][1]
        assert len(lines(found, "fsync")) == 2

        whole = tmp_path / "whole.tar.gz"
        doctor("--bundle", str(whole), *configs, *logs)
        parts = parts_of(whole)
        for name in ("a", "b"):
            assert json.loads(parts[f"members/{name}/status.json"])["member"]["name"] == name
            assert queue in parts[f"members/{name}/queues.json"]
            assert "tandemq_epoch" in parts[f"members/{name}/metrics.txt"]
            assert f'"member": "{name}"' in parts[f"members/{name}/events.jsonl"]
            assert f'"member": "{name}"' in parts[f"logs/{name}.log"]
            assert f"data/{name}/events.jsonl" in parts
            command = [
                each for each in json.loads(parts[f"config/{name}.json"])["settings"] if "command" in each["key"]
            ]
            assert command[0]["value"] == [*COMMAND[:4], "(redacted)"]
        assert "q1.example" in parts["environment.json"]  # names of hosts stay
        assert json.loads(parts["manifest.json"])["outcome"] == "complete"
        together = "".join(parts.values())
        for secret in (TOKEN, PAYLOAD.decode(), PROPERTY):
            assert secret not in together

        found = doctor.json("--target", cluster.witness_endpoint, code=1)
        assert "it is no member of a pair" in lines(found, "members")[0][1]
        doctor.environment["TANDEMQ_WITNESS_ADDRESS"] = cluster.endpoint("a")
        found = doctor.json(configs[0], code=1)
        no_witness = "a gRPC server answers there, but it is no witness"
        assert [what for level, what in lines(found, "authority") if level == "fail"] == [no_witness]
        del doctor.environment["TANDEMQ_WITNESS_ADDRESS"]

        cluster.kill("b")
        await cluster.wait_for(lambda view: is_alone(view, "a"), "a goes on alone")
        half = tmp_path / "half.tar.gz"
        found = doctor.json("--bundle", str(half), *configs, code=1)
        assert lines(found, "members", "member b")[0][0] == "fail"
        assert "nobody answers" in lines(found, "members", "member b")[0][1]
        assert lines(found, "store", "member b")[0] == ("warn", lines(found, "store", "member b")[0][1])
        assert "nobody runs on it" in lines(found, "store", "member b")[0][1]
        assert "free for it" in lines(found, "ports", "member b")[0][1]
        assert lines(found, "in-sync")[0][0] == "warn"
        assert "members/b/status.json" in found["bundle"]["missing"]
        assert '"member":"b"' in parts_of(half)["data/b/events.jsonl"].replace(" ", "")  # from its directory

        cluster.pause("a")  # hangs: it has its directory and its ports, and says nothing
        found = doctor.json(configs[0], code=1)
        assert lines(found, "members", "member a") == []
        assert ("fail", f"{cluster.endpoint('a')}: no answer within 1 s") in lines(found, "members")
        assert "has it" in lines(found, "store")[0][1]
        assert "does not say how it does" in lines(found, "ports")[0][1]


# -- strangers and nothing ---------------------------------------------------------------------------------------------


@contextmanager
def http_server() -> Iterator[str]:
    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_with_nothing_at_all_it_says_so(doctor: Doctor) -> None:
    found = doctor.json()
    assert lines(found, "members")[0][0] == "skipped"
    assert lines(found, "config")[0][0] == "skipped"
    bundle = doctor.home / "case.tar.gz"
    assert "written: " in doctor("--bundle", str(bundle), "-o", "table")
    parts = parts_of(bundle)
    assert {"manifest.json", "findings.json", "environment.json", "pair.json"} == parts.keys()


def test_strangers_are_named_as_such(doctor: Doctor, tmp_path: Path) -> None:
    with http_server() as stranger, silent_server() as silent:
        [(level, what)] = lines(doctor.json("--target", stranger, code=1), "members")
        assert (level, "nobody answers there who speaks gRPC" in what) == ("fail", True)
        [(level, what)] = lines(doctor.json("--target", silent, code=1), "members")
        assert level == "fail"
        assert "no answer within 1 s" in what or "nobody answers there" in what
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{probe.getsockname()[1]}"
        [(level, what)] = lines(doctor.json("--target", free, code=1), "members")
        assert (level, "nobody answers" in what) == ("fail", True)


def test_configurations_that_cannot_work_are_findings(doctor: Doctor, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[managr]\nmember = 'a'\n")
    found = doctor.json(f"--config={wrong}", "--config=/nowhere/a.toml", code=1)
    assert [level for level, _ in lines(found, "config")] == ["fail", "fail"]
    assert "did you mean manager?" in lines(found, "config")[0][1]
    assert "no such file" in lines(found, "config")[1][1]


def test_a_place_that_is_somebody_elses_is_told(doctor: Doctor, tmp_path: Path) -> None:
    """Another member's directory, a damaged one, and a port that another program has."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        ports = f"listen_client = '{taken}'\nlisten_peer = '127.0.0.1:1'\nlisten_http = '127.0.0.1:2'\n"
        for name in ("a", "c"):
            text = f"[manager]\nmember = '{name}'\ndata_dir = '{tmp_path}/{name}'\n"
            (tmp_path / f"{name}.toml").write_text(text + ports)
        open_disk(tmp_path / "a", map_bytes=32 << 20, pair="orders", member="b", ballast_bytes=0).close()
        (tmp_path / "c").mkdir()
        (tmp_path / "c" / "data.mdb").write_bytes(b"no store" * 1024)
        found = doctor.json(f"--config={tmp_path}/a.toml", f"--config={tmp_path}/c.toml", code=1)
        [(level, what)] = lines(found, "ports", "member a")
        assert (level, f"another has listen_client {taken}" in what) == ("fail", True)
        [(level, what)] = lines(found, "store", "member a")
        assert (level, "is of member b of pair 'orders', this is a" in what) == ("fail", True)
        [(level, what)] = lines(found, "store", "member c")
        assert (level, "LMDB cannot" in what) == ("fail", True)


def test_bad_input_is_refused_before_anything_is_done(doctor: Doctor) -> None:
    there = doctor.home / "there.tar.gz"
    there.write_text("mine")
    assert "is there already" in doctor("--bundle", str(there), code=5)
    assert "is no directory" in doctor("--bundle", "/nowhere/x.tar.gz", code=5)
    assert there.read_text() == "mine"
    assert "at least 256KiB" in doctor("--bundle", "x.tar.gz", "--max-size", "1KiB", code=2)
    assert "add --bundle FILE" in doctor("--log", "a.log", code=2)
    assert "--target" in doctor("--target", "host:port:7600:x", code=2)
    missing = doctor("--bundle", "y.tar.gz", "--log", "/nowhere/a.log", "-o", "table")
    assert "could not be had: logs/a.log" in missing
    assert "Example: tandemq doctor" in doctor("--help")


def test_the_size_limit_holds_and_says_what_it_cut(doctor: Doctor) -> None:
    log = doctor.home / "big.log"
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    found = doctor.json("--bundle", "small.tar.gz", "--log", str(log), "--max-size", "256KiB")
    assert found["bundle"]["outcome"] == "cut"
    assert found["bundle"]["cut"] == ["logs/big.log"]
    parts = parts_of(doctor.home / "small.tar.gz")
    assert sum(map(len, parts.values())) <= 256 << 10
    assert parts["logs/big.log"].endswith("line 99999\n")
    [entry] = [each for each in json.loads(parts["manifest.json"])["files"] if each["name"] == "logs/big.log"]
    assert entry["outcome"] == "tail"

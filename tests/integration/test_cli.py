"""The command line against real processes: a development pair is used, hurt, restarted and stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaos.fork_server import ForkServer
from tandemq.cli.context import read
from tests.support.until import OUTER_S, until_sync

pytestmark = [pytest.mark.process, pytest.mark.slow]


@dataclass(frozen=True)
class Dev:
    """A running `tandemq dev` and the environment in which commands find it."""

    process: subprocess.Popen[str]
    folder: Path
    environment: dict[str, str]
    commands: ForkServer

    def run(self, *arguments: str, code: int | None = 0, stdin: str = "") -> str:
        """What it said on stdout, or where it ended with another code on stderr; `code` None: it may end with any."""
        done = self.commands.run(["tandemq", *arguments], environment=self.environment, stdin=stdin, timeout=OUTER_S)
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done.stderr if code else done.stdout

    def lines(self, *arguments: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.run(*arguments, "-o", "jsonl").splitlines()]

    def say_until(self, pattern: str) -> str:
        """Reads what the supervisor says until a line matches; pytest's own timeout is the bound."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"dev ended without saying {pattern!r}")

    def roles(self) -> dict[str, str]:
        view = json.loads(self.run("pair", "status", "-o", "json", code=None))  # 1: the pair is not whole
        return {
            member["name"]: next((d["role"] for d in member["domains"] if d["name"] == "main"), "")
            for member in view["members"]
        }


@pytest.fixture
def dev(tmp_path: Path, base_port: int, commands: ForkServer) -> Iterator[Dev]:
    environment = {**os.environ, "TANDEMQ_CONFIG_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
    environment.pop("TANDEMQ_TARGET", None)
    folder = tmp_path / "pair"
    process = subprocess.Popen(
        [sys.executable, "-m", "tandemq", "dev", "--data-dir", str(folder), "--base-port", str(base_port)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        running = Dev(process, folder, environment, commands)
        running.say_until(r"ready: a at")
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=OUTER_S)


def test_messages_travel_through_the_command_line(dev: Dev) -> None:
    dev.run("queue", "create", "orders", "--lease", "60s")
    sent = json.loads(dev.run("msg", "send", "orders", "first", "second", "--property", "k=v", "-o", "json"))
    assert (sent["acknowledged"], sent["last_index"], sent["copies"]) == (2, 2, 2)
    sent = json.loads(dev.run("msg", "send", "orders", "--lines", "-", "-o", "json", stdin="third\n\nfifth\n"))
    assert (sent["acknowledged"], sent["last_index"]) == (3, 5)

    browsed = dev.lines("msg", "browse", "orders")
    assert [row["body"] for row in browsed] == ["first", "second", "third", "", "fifth"]
    released = dev.lines("msg", "receive", "orders", "--count", "2")
    assert [(row["index"], row["delivery_count"], row["properties"]) for row in released] == [
        (1, 1, {"k": "v"}),
        (2, 1, {"k": "v"}),
    ]
    removed = dev.lines("msg", "receive", "orders", "--count", "0", "--ack")
    assert [row["index"] for row in removed] == [1, 2, 3, 4, 5]
    assert dev.lines("msg", "receive", "orders") == []
    info = json.loads(dev.run("queue", "info", "orders", "-o", "json"))
    assert (info["length"], info["last_index"], info["open_members"]) == (0, 5, ["a", "b"])

    assert "QUEUE_EXISTS" in dev.run("queue", "create", "orders", code=1)
    assert "QUEUE_NOT_FOUND" in dev.run("msg", "send", "nope", "x", code=1)
    dev.run("queue", "update", "orders", "--no-enqueue")
    assert "ENQUEUE_DISABLED" in dev.run("msg", "send", "orders", "x", code=1)
    dev.run("queue", "rm", "orders", code=2)
    dev.run("queue", "rm", "orders", "--yes")
    assert json.loads(dev.run("queue", "ls", "-o", "json"))["queues"] == []


def test_what_the_command_line_sends_is_found_deferred_and_stored_once(dev: Dev) -> None:
    dev.run("queue", "create", "parcels")
    for body, weight in (("light", ":=1"), ("heavy", ":=3"), ("very", ":=2.5"), ("text", "=3")):
        dev.run("msg", "send", "parcels", body, "--property", f"weight{weight}", "--property", "fragile:=true")
    found = dev.lines("msg", "browse", "parcels", "--where", "weight > 2 AND fragile")
    assert [row["body"] for row in found] == ["heavy", "very"]
    assert [row["properties"] for row in found] == [{"fragile": True, "weight": weight} for weight in (3, 2.5)]
    found = dev.lines("msg", "browse", "parcels", "--where", "weight = '3'")
    assert [row["body"] for row in found] == ["text"]

    dev.run("queue", "create", "orders")
    once = ("msg", "send", "orders", "17", "--dedup-id", "order-17", "-o", "json")
    first, again = json.loads(dev.run(*once)), json.loads(dev.run(*once))
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert first["last_index"] == again["last_index"] == 1

    dev.run("queue", "create", "reminders")
    moment = datetime.now(UTC) + timedelta(seconds=1)
    dev.run("msg", "send", "reminders", "far", "--deliver-at", "2100-01-01T00:00:00+01:00")
    dev.run("msg", "send", "reminders", "soon", "--deliver-at", moment.isoformat())
    [got] = dev.lines("msg", "receive", "reminders", "--wait", "20s", "--ack")
    assert got["body"] == "soon"
    assert datetime.now(UTC) >= moment
    assert dev.lines("msg", "receive", "reminders") == []
    said = dev.run("msg", "send", "reminders", "x", "--deliver-at", "next week", code=2)
    assert "2030-12-24T18:00:00+01:00" in said


def test_a_member_that_died_is_reported_and_restarted_when_told_to(dev: Dev) -> None:
    dev.run("queue", "create", "orders")
    dev.run("msg", "send", "orders", "before")
    master = next(name for name, role in dev.roles().items() if role == "MASTER")
    os.kill(read(dev.folder / "context.toml")["pids"][master], signal.SIGKILL)
    said = dev.say_until("died")
    assert f"{master} died (signal 9)" in said
    assert f"tandemq dev --data-dir {dev.folder} restart {master}" in said
    sent = json.loads(dev.run("msg", "send", "orders", "after", "-o", "json"))
    assert (sent["last_index"], sent["copies"]) == (2, 1)
    assert dev.roles()[master] == ""

    dev.run("dev", "--data-dir", str(dev.folder), "restart", master)
    until_sync(lambda: sorted(dev.roles().values()) == ["MASTER", "REPLICA"], "whole again")
    assert [row["body"] for row in dev.lines("msg", "receive", "orders", "--count", "2", "--ack")] == [
        "before",
        "after",
    ]
    assert "no process is called c" in dev.run("dev", "--data-dir", str(dev.folder), "restart", "c", code=1)
    assert "DIRECTORY_IN_USE" in dev.run("dev", "--data-dir", str(dev.folder), code=1)


def test_a_member_that_runs_is_left_alone_where_its_configuration_is_none_it_could_start_with(dev: Dev) -> None:
    """Else it was ended first, and did not come back."""
    pids = read(dev.folder / "context.toml")["pids"]
    file = dev.folder / "b.toml"
    good = file.read_text(encoding="utf-8")
    assert "routes = []" in good
    file.write_text(good.replace("routes = []", 'routes = ["north=north"]'), encoding="utf-8")
    said = dev.run("dev", "--data-dir", str(dev.folder), "restart", "b", code=1)
    assert "links.routes = 'north=north': write NAME=MANAGER" in said
    assert "nothing was done to it" in said
    os.kill(pids["b"], 0)
    assert sorted(dev.roles().values()) == ["MASTER", "REPLICA"]
    file.write_text(good, encoding="utf-8")
    dev.run("dev", "--data-dir", str(dev.folder), "restart", "b")
    assert read(dev.folder / "context.toml")["pids"]["b"] != pids["b"]


def test_an_operator_moves_the_master_reads_why_and_asks_the_witness(dev: Dev) -> None:
    answer = json.loads(dev.run("pair", "handoff", "--dry-run", "-o", "json"))
    assert (answer["done"], answer["master"], answer["dry_run"]) == (True, "a", True)
    answer = json.loads(dev.run("pair", "handoff", "--to", "b", "--reason", "kernel update", "-o", "json"))
    assert (answer["done"], answer["master"], answer["epoch"]) == (True, "b", 2)
    assert dev.roles() == {"a": "REPLICA", "b": "MASTER"}
    assert "BAD_REQUEST" in dev.run("pair", "handoff", "--to", "c", code=1)

    said = json.loads(dev.run("pair", "why", "-o", "json"))
    assert said["what"] == "b became master in epoch 2, by a handoff (kernel update)"
    assert "An operator at principal/developer at ipv4:127.0.0.1" in said["who"]
    assert "Now b serves with two copies." in dev.run("pair", "why", "-o", "table")
    events = dev.lines("pair", "history", "--domain", "main")
    roles = [event["facts"]["to"] for event in events if event["kind"] == "ROLE" and event["member"] == "b"]  # type: ignore[index]
    assert (roles[:2], roles[-1]) == (["PROBE", "REPLICA"], "MASTER")
    assert "b is MASTER now" in dev.run("pair", "history", "-o", "table")
    assert json.loads(dev.run("pair", "history", "--member", "a", "--limit", "1", "-o", "json"))["events"]

    dev.run("pair", "failover", "--force", code=2)  # which member?
    refusal = dev.run("pair", "failover", "--force", "--member", "a", code=1)
    assert "nothing was done. a holds everything up to" in refusal
    assert "--accept-loss-after" in refusal
    dev.run("pair", "decide", "assume", "--member", "a", "--reason", "x", code=2)  # no terminal, no --yes
    refusal = dev.run("pair", "decide", "assume", "--member", "a", "--reason", "x", "--yes", code=1)
    assert "nothing waits for a verdict here" in refusal

    registers = json.loads(dev.run("witness", "status", "-o", "json"))["registers"]
    assert [(r["domain"], r["epoch"], r["holder"]) for r in registers if r["domain"] == "main"] == [("main", 2, "b")]
    set_epoch = ("witness", "set-epoch", "--pair", registers[0]["pair"], "--holder", "b", "--reason", "test")
    dev.run(*set_epoch, "--epoch", "9", code=2)  # no terminal, no --yes
    answer = json.loads(dev.run(*set_epoch, "--epoch", "9", "--yes", "-o", "json"))
    assert (answer["before"]["epoch"], answer["after"]["epoch"], answer["after"]["holder"]) == (2, 9, "b")
    assert "REFUSED" in dev.run(*set_epoch, "--epoch", "1", "--yes", code=1)
    stranger = [*set_epoch[:5], "zz", *set_epoch[6:]]
    assert "its members are a and b" in dev.run(*stranger, "--epoch", "20", "--yes", code=1)


def test_orders_go_to_the_member_that_is_named(dev: Dev) -> None:
    paused = json.loads(dev.run("pair", "pause", "--reason", "tonight", "-o", "json"))["members"]
    assert paused == [{"member": "a", "paused": True}, {"member": "b", "paused": True}]
    resumed = json.loads(dev.run("pair", "resume", "--member", "b", "-o", "json"))["members"]
    assert resumed == [{"member": "b", "paused": False}]
    view = json.loads(dev.run("pair", "status", "-o", "json"))
    assert [member["automation_paused"] for member in view["members"]] == [True, False]
    table = dev.run("pair", "status", "-o", "table")
    assert "automation paused" in table
    assert "if the peer dies now: a stops acknowledging and waits, because automation is paused here" in table
    assert "automation is paused at a" in dev.run("pair", "why", "-o", "table")
    refusal = dev.run("pair", "maintenance", "on", "--member", "b", code=1)
    assert "automation is paused at a: without b it would serve nobody" in refusal
    some = f"{view['members'][0]['endpoint']},127.0.0.1:1"
    partial = dev.run("pair", "resume", "--target", some, code=1)
    assert "127.0.0.1:1 was not reached" in partial
    dev.run("pair", "resume")

    for order in (("handoff", "--to", "nosuch"), ("handoff", "--hold", "0s"), ("resync", "--member", "a")):
        assert "next: " in dev.run("pair", *order, code=1)
    assert "next: " in dev.run("pair", "resolve", "--keep", "a", "--member", "b", "--reason", "x", "--yes", code=1)
    dev.run("pair", "maintenance", "on", code=2)  # which member?
    answer = json.loads(dev.run("pair", "maintenance", "on", "--member", "b", "--reason", "disk", "-o", "json"))
    assert (answer["member"], answer["maintenance"]) == ("b", True)
    assert dev.roles()["b"] == "MAINTENANCE"
    answer = json.loads(dev.run("pair", "maintenance", "off", "-o", "json"))
    assert (answer["member"], answer["maintenance"]) == ("b", False)
    until_sync(lambda: dev.roles() == {"a": "MASTER", "b": "REPLICA"}, "b follows again")

    dev.run("queue", "create", "orders")
    dev.run("msg", "send", "orders", "compared")
    compared = json.loads(dev.run("pair", "verify", "-o", "json"))
    assert compared["equal"], compared
    assert compared["records"] > 0
    lines = dev.run("pair", "watch", "--events", "--count", "2", "--interval", "200ms", "-o", "jsonl").splitlines()
    assert sum("members" in json.loads(line) for line in lines) == 2


def test_nothing_outlives_a_supervisor_that_is_killed(dev: Dev) -> None:
    pids = read(dev.folder / "context.toml")["pids"]
    dev.process.kill()
    dev.process.wait()
    until_sync(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.values()), f"the ends of {pids}")
    assert "UNREACHABLE" in dev.run("pair", "status", code=3)

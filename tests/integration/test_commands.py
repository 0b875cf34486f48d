"""R127-R131: a pair whose members ask a classifier command, in real processes, with and without a third voice."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from failover.classifier import Event
from failover.journal import FILE_NAME, read
from tandemq.config import Failover
from tandemq.v1 import pair_service_pb2 as pb
from tests.integration.support import gone, master_of, member_view, new_name, raw_to, sdk, stopped_at_end
from tests.support.clusters import quick
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

QUICK = {"call_ms": 1000, "total_ms": 2000, "attempts": 1, "cold_start_ms": 500}


def command(tmp_path: Path, text: str) -> tuple[str, ...]:
    """A script that decides."""
    path = tmp_path / "decide"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return (str(path),)


# Says what a script that is right about a dead peer would say: 20 to a master, 21 to a replica.
MASTER_ITSELF = """grep -q '"self":{[^}]*"role":"MASTER'"""
"""What the peer said of itself is in the event too."""
BY_ROLE = f"if {MASTER_ITSELF}; then exit 20; else exit 21; fi"


@asynccontextmanager
async def started(cluster: Cluster) -> AsyncIterator[None]:
    await cluster.start()
    yield


async def role_of(cluster: Cluster, name: str) -> str:
    view = await member_view(cluster, name)
    main = view.domain("main") if view is not None else None
    return main.role if main is not None else "?"


async def why_of(cluster: Cluster, name: str) -> str:
    view = await member_view(cluster, name)
    main = view.domain("main") if view is not None else None
    return main.last_change if main is not None else "?"


def journal(cluster: Cluster, name: str) -> list[dict[str, object]]:
    text = (cluster.data_dir / name / "classifier.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def events(cluster: Cluster, name: str) -> list[Event]:
    """What a member's classifier was asked, oldest first."""
    place = cluster.data_dir / name / FILE_NAME
    return [call.event for call in read(place).calls] if place.exists() else []


@pytest.mark.requirement("R127", "R130")
async def test_a_pair_without_a_third_voice_forms_and_a_command_makes_the_replica_master(tmp_path: Path) -> None:
    failover = Failover(classifier="command", command=command(tmp_path, BY_ROLE), accept_unproven=True, **QUICK)
    cluster = quick(tmp_path / "pair", witnessed=False, failover=failover)
    async with stopped_at_end(cluster), started(cluster), raw_to(cluster.endpoint("b")) as (b,):
        queue = new_name()
        await b.create(queue)
        await b.send(queue, b"one", b"two")
        old = master_of(await cluster.status())
        assert old == "a"
        cluster.kill("a")
        await gone(cluster, "a")
        await b.send(queue, b"three")
        assert await role_of(cluster, "b") == "MASTER"
        await cluster.restart("a")
        await cluster.wait_for(lambda view: view.whole() and view.equal(), "both hold the same")
        assert await b.take(queue, 3) == [b"one", b"two", b"three"]
        said = [
            line for line in journal(cluster, "b") if line.get("verdict") == "ASSUME_MASTERSHIP" or "answer" in line
        ]
        assert said, "every call is journalled"


async def test_a_command_is_given_the_clients_and_what_happened_before(tmp_path: Path) -> None:
    """pair-protocol.md 4.3: how many clients are attached, last verdicts and changes of role, newest last."""
    failover = Failover(classifier="command", command=command(tmp_path, "exit 23"), **QUICK)
    cluster = quick(tmp_path / "pair", witnessed=False, failover=failover)

    def asked_twice() -> list[Event]:
        found = events(cluster, "a")
        return found[:2] if len(found) > 1 else []

    async with stopped_at_end(cluster), started(cluster), sdk(cluster) as client:
        await client.create_queue(queue := new_name())
        await client.producer(queue).send(b"its stream stays open")
        cluster.kill("b")
        first, second = await until(asked_twice, "a has asked again")
    assert [first.clients, first.peer_left] == [1, False]
    roles = [re.sub(r"^\S+Z main: a is (\w+) now: .*", r"\1", line) for line in first.recent]
    assert roles == ["PROBE", "MASTER", "MASTER_SUSPENDED"]
    assert second.recent[: len(first.recent)] == first.recent
    assert "main: verdict WAIT by command" in second.recent[-1], "what came of the first question"


async def test_a_command_is_given_that_the_peer_left_in_good_order(tmp_path: Path) -> None:
    failover = Failover(classifier="command", command=command(tmp_path, "exit 20"), accept_unproven=True, **QUICK)
    cluster = quick(tmp_path / "pair", witnessed=False, failover=failover)
    async with stopped_at_end(cluster), started(cluster), raw_to(cluster.endpoint("b")) as (b,):
        order = pb.SetMaintenanceRequest(on=True, confirmed=True, reason="new disk")
        assert (await b.pair.SetMaintenance(order, timeout=OUTER_S)).on
        (asked, *_) = await until(lambda: events(cluster, "a"), "a has asked about its peer")
    assert [asked.kind, asked.peer_left] == ["PEER_LOST", True]


async def test_without_anybody_to_ask_the_survivor_waits_and_says_what_to_do(tmp_path: Path) -> None:
    cluster = quick(tmp_path / "pair", witnessed=False)
    async with stopped_at_end(cluster), started(cluster):
        cluster.kill("a")
        await gone(cluster, "a")

        async def advised() -> bool:
            return "tandemq pair decide" in await why_of(cluster, "b")

        await until(advised, "b says what to do")
        assert await role_of(cluster, "b") == "PROBE"


@pytest.mark.parametrize(
    "text", ["exit 0", "exit 1", "sleep 60", "kill -9 $$", "yes; exit 21", "exit 20", "echo {}; exit 21"]
)
@pytest.mark.requirement("R130")
async def test_what_is_no_fitting_answer_never_promotes(tmp_path: Path, text: str) -> None:
    """Exit 0 above all: a script that does nothing must not make a second master."""
    failover = Failover(classifier="command", command=command(tmp_path, text), accept_unproven=True, **QUICK)
    cluster = quick(tmp_path / "pair", witnessed=False, failover=failover)
    async with stopped_at_end(cluster), started(cluster):
        cluster.kill("a")
        await gone(cluster, "a")

        async def asked_twice() -> bool:
            path = cluster.data_dir / "b" / "classifier.jsonl"
            return path.exists() and path.read_text().count("PEER_LOST") >= 2

        await until(asked_twice, "b has asked, got no fitting answer, and asked again")
        assert await role_of(cluster, "b") == "PROBE"


async def test_two_wrong_verdicts_end_in_diverged_never_in_silence(tmp_path: Path) -> None:
    """Class C: nothing prevents it, everything shows it (pair-protocol.md 4.4, invariant 2)."""
    failover = Failover(classifier="command", command=command(tmp_path, BY_ROLE), accept_unproven=True, **QUICK)
    cluster = quick(tmp_path / "pair", witnessed=False, failover=failover, relayed=True)
    async with stopped_at_end(cluster), started(cluster), raw_to(*cluster.endpoints) as (a, b):
        queue = new_name()
        await a.create(queue)
        cluster.network.cut("a", "b")

        async def both_serve() -> bool:
            return [await role_of(cluster, name) for name in "ab"] == ["MASTER", "MASTER"]

        await until(both_serve, "both were told to go on")
        await a.send(queue, b"at a")
        await b.send(queue, b"at b")
        cluster.network.heal()

        async def diverged() -> bool:
            return "DIVERGED" in [await role_of(cluster, name) for name in "ab"]

        await until(diverged, "the two histories are noticed")


@pytest.mark.requirement("R131")
async def test_a_failed_instance_ends_and_the_other_takes_over(tmp_path: Path) -> None:
    """R129, R131: it stops serving; a restart begins with looking for the peer and a state transfer."""
    isolated = f"if {MASTER_ITSELF}; then exit 22; else exit 21; fi"
    failover = Failover(classifier="command", command=command(tmp_path, isolated), accept_unproven=True, **QUICK)
    cluster = quick(tmp_path / "pair", witnessed=False, failover=failover, relayed=True)
    async with stopped_at_end(cluster), started(cluster), raw_to(cluster.endpoint("b")) as (b,):
        queue = new_name()
        await b.create(queue)
        cluster.network.cut("a", "b")

        async def ended() -> bool:
            return not cluster.children["a"].running

        await until(ended, "a ends")
        assert cluster.children["a"].ending == "exit code 1"
        assert "failed instance" in cluster.children["a"].tail()
        await b.send(queue, b"goes on")
        cluster.network.heal()
        await cluster.restart("a")
        await cluster.wait_for(lambda view: view.whole() and view.equal(), "a is replica")
        assert await role_of(cluster, "b") == "MASTER"


async def test_a_member_that_is_the_failed_instance_again_and_again_stays_out(tmp_path: Path) -> None:
    """4.3: three times in ten minutes, then an operator has to look."""
    text = 'if grep -q \'"member": *"a"\'; then exit 22; else exit 23; fi'
    failover = Failover(classifier="command", command=command(tmp_path, text), **QUICK)
    cluster = quick(tmp_path / "pair", witnessed=False, failover=failover, relayed=True)
    async with stopped_at_end(cluster), started(cluster):
        cluster.network.cut("a", "b")

        async def ended() -> bool:
            return not cluster.children["a"].running

        for times in range(3):
            await until(ended, f"a ends, time {times + 1}")
            process = cluster.children["a"].process
            assert process is not None
            assert process.stdin is not None
            process.stdin.close()
            cluster.spawn("a")

        async def out() -> bool:
            return await role_of(cluster, "a") == "MAINTENANCE"

        await until(out, "a stays out")
        assert "failed instance 3 times" in await why_of(cluster, "a")
        cluster.network.heal()
        assert cluster.children["a"].running

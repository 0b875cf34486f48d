"""Pairs whose members ask a command who lives: a good one is obeyed, a wrong one is named, counted and harmless."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from failover.classifier import Verdict
from failover.journal import RecordedCall, read
from failover.runner import CANCELLED
from tandemq.cli import root
from tandemq.config import Failover
from tests.failover.support import COMMANDS, WRONG, is_alive, script
from tests.integration.matrix import becomes, role
from tests.integration.support import raw_to, stopped_at_end
from tests.support.clusters import quick
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.slow]

KINDS = ("exits 0", "dies of SIGKILL", "hangs", "answers another event", "contradicts its exit code", "floods stdout")
"""The others are for the command's own tests; each here costs a pair the time of two calls."""
GOOD = (COMMANDS / "decide.py").read_text()
LIMITS = {"call_ms": 300, "attempts": 2, "total_ms": 700}


@asynccontextmanager
async def pair(folder: Path, text: str, *, witnessed: bool = False, **failover: Any) -> AsyncIterator[Cluster]:
    """Whole, a is the master; both ask a command with this text."""
    settings = {"command": (script(folder, text),), "hand_over_at_stop": False, **LIMITS, **failover}
    async with stopped_at_end(
        quick(folder / "pair", failover=Failover(classifier="command", **settings), witnessed=witnessed)
    ) as cluster:
        await cluster.start()
        async with raw_to(cluster.endpoint("a")) as [member]:
            await member.create("q")
        await becomes(cluster, "a", "MASTER")
        yield cluster


def calls(cluster: Cluster, name: str) -> list[RecordedCall]:
    directory = cluster.data_dir / name
    return read(directory).calls if (directory / "classifier.jsonl").exists() else []


async def journalled(cluster: Cluster, name: str, reason: str, verdict: Verdict | None, after: int = 0) -> RecordedCall:
    """The first call that fits, leaving out the first `after` ones."""

    async def found() -> RecordedCall | None:
        fits = (c for c in calls(cluster, name)[after:] if c.answer.verdict is verdict and reason in c.answer.reason)
        return next(fits, None)

    call: RecordedCall = await until(found, f"{name} journals {verdict} because {reason!r}")
    return call


async def replayed(cluster: Cluster, name: str, command: str) -> int:
    arguments = ["classifier", "replay", str(cluster.data_dir / name), "-o", "json", "--", command]
    result = await asyncio.to_thread(CliRunner().invoke, root, arguments)
    return result.exit_code


async def metrics(cluster: Cluster, name: str) -> list[str]:
    return (await asyncio.to_thread(_scrape, cluster.config(name).listen_http)).splitlines()


def _scrape(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=OUTER_S) as answer:
        return str(answer.read().decode())


async def test_a_command_that_is_not_there_is_named_at_the_start(tmp_path: Path) -> None:
    async with pair(tmp_path, "exit 23\n", command=("/no/such/decide",)) as cluster:

        async def named() -> bool:
            text = (cluster.data_dir / "logs" / "a.log").read_text()
            return "classifier command is not ready: /no/such/decide: not found" in text

        await until(named, "the log names it")


async def test_a_good_command_is_obeyed_journalled_and_replayable(tmp_path: Path) -> None:
    async with pair(tmp_path, GOOD, accept_unproven=True, call_ms=5_000, total_ms=10_000) as cluster:
        cluster.kill("a")
        await becomes(cluster, "b", "MASTER")
        call = await journalled(cluster, "b", "the copy is good", Verdict.ASSUME_MASTERSHIP)
        assert (call.event.member, call.event.peer, call.event.pair) == ("b", "a", "pair")
        assert [part.name for part in call.event.domains] == ["main"]

        async def told() -> bool:
            return [outcome.effect for outcome in calls(cluster, "b")[-1].outcomes] == ["claim"]

        await until(told, "the journal says what became of it")
        assert await replayed(cluster, "b", str(COMMANDS / "decide.py")) == 0
        assert await replayed(cluster, "b", script(tmp_path, "exit 23\n", "other")) == 1


async def test_a_wrong_command_is_named_logged_counted_and_harmless(tmp_path: Path) -> None:
    """A call has two seconds, where the command's own test gives it 0.3: a busy machine starts a shell late."""
    async with pair(tmp_path, "exit 1\n", accept_unproven=True, call_ms=2_000, total_ms=5_000) as cluster:
        cluster.kill("a")
        for wrong in map(WRONG.__getitem__, KINDS):
            before = len(calls(cluster, "b"))
            script(tmp_path, wrong.text, "next")
            (tmp_path / "next").replace(tmp_path / "decide")
            # The id in a wrong command's own text is that of another test; what is said of it is the same.
            reason = wrong.reason.partition(", asked was")[0].replace("0.3 s", "2 s")
            await journalled(cluster, "b", reason, None, before)
            assert await role(cluster, "b") != "MASTER"
        assert all(call.answer.verdict is None for call in calls(cluster, "b"))
        logged = (cluster.data_dir / "logs" / "b.log").read_text()
        assert "NO_ANSWER after" in logged
        counted = [line for line in await metrics(cluster, "b") if line.startswith("tandemq_classifier_")]
        (count,) = (line for line in counted if 'verdict="NO_ANSWER"' in line)
        assert count.startswith('tandemq_classifier_calls_total{classifier="command"')
        assert float(count.split()[-1]) >= len(KINDS)
        assert "tandemq_classifier_journal_lost_total 0.0" in counted
        assert "it says WAIT on stdout and exits with 21" in logged
        script(tmp_path, "exit 21\n", "next")  # a shell: Python may need longer than these have to start
        (tmp_path / "next").replace(tmp_path / "decide")
        await becomes(cluster, "b", "MASTER")


async def test_in_mode_observe_it_is_journalled_and_the_witness_is_obeyed(tmp_path: Path) -> None:
    async with pair(tmp_path, "exit 23\n", witnessed=True, mode="observe") as cluster:
        cluster.kill("a")
        await becomes(cluster, "b", "MASTER")
        call = await journalled(cluster, "b", "", Verdict.WAIT)
        assert call.answer.by == "command"
        assert call.event.authority == "witness"


@pytest.mark.promise
async def test_a_verdict_that_comes_after_the_peer_is_dropped_with_its_processes(tmp_path: Path) -> None:
    text = f"trap '' TERM\necho $$ > {tmp_path}/pid\nsleep 600 &\nwait\nexit 21\n"
    async with pair(tmp_path, text, accept_unproven=True, call_ms=60_000, total_ms=60_000) as cluster:
        cluster.pause("a")

        async def asked() -> int:
            file = tmp_path / "pid"
            return int(file.read_text() or 0) if file.exists() else 0

        pid = await until(asked, "b asks")
        cluster.resume("a")
        await journalled(cluster, "b", CANCELLED, None)

        async def gone() -> bool:
            return not is_alive(pid)

        await until(gone, "the command has been ended")
        assert await role(cluster, "b") != "MASTER"

"""The growth benchmark at tiny sizes on real pairs: figures are complete, and what is planted is refused."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.document import Document
from bench.growth.faults import HANDOFF, KILL, whole_again
from bench.growth.plan import Curve, Point
from bench.growth.points import Running
from bench.growth.report import COSTS, cost
from bench.growth.run import hurt, in_turns, measure_faults
from bench.peers.adapters.tandemq import Tandemq
from bench.peers.contract import Setting
from bench.peers.figures import NOISY_CORES, refusals
from bench.peers.place import BenchError, Place, cpu_us, processes_below
from bench.peers.run import Measurement
from tandemq import aio

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (make strace)"),
]

STREAMS = Point("streams", 0, turn=200, depth=300, before=100, size=100, queues=4)
CALLS = Point("calls", 1, turn=200, depth=60, size=100, queues=3, calls=True)
CURVE = Curve("tiny", "Tiny", "way", (STREAMS, CALLS))
OPTIONS = argparse.Namespace(
    turns=2,
    runs=1,
    seconds=1.0,
    warm_s=0.2,
    size=100,
    rates=[],
    rate_max=200.0,
    share=0.001,
    deep=False,
    only=[],
    again_max=0,  # on a busy machine repetitions take minutes, and say nothing here
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "run")


def steal(servers: str) -> None:
    """Takes one message for good, behind the back of the load."""

    async def work() -> None:
        async with aio.connect(servers) as client:
            assert len(await client.dequeue("growth/0", 1, mode="immediate")) == 1

    asyncio.run(work())


def test_a_curve_has_its_figures_and_what_is_planted_is_refused(place: Place) -> None:
    running: list[Running] = []
    with place:
        try:
            for number in range(len(CURVE.points)):
                point = Running(place, CURVE, number, OPTIONS)
                running.append(point)
                point.start()
            for _ in range(OPTIONS.turns):
                in_turns(running, OPTIONS.again_max, kept=True)
            steal(running[1].pair.target()["servers"])
            for point in running:
                point.drain()
            found = Document("growth", {}, "", {})
            for point in running:
                point.add_to(found)
            running[0].pair.copies = 3  # planted: a label that promises one more than there are
            mislabelled = Measurement(place, running[0].pair, OPTIONS, 1).check()
        finally:
            for point in running:
                point.stop()
    whole, robbed = found.figures().values()
    assert whole.refused == []
    assert found.results[0]["account"] == {
        "sent": 803,
        "received": 803,
        "lost": 0,
        "again": 0,
        "corrupt": 0,
        "unknown": 0,
    }
    assert all(cost(whole, role).mean > 0 for role in ("master", "replica", "client", "wall"))
    assert len(whole.values("foreign_cores")) == whole.count == OPTIONS.turns
    ratio = whole.ratio(whole, *COSTS["servers"])
    assert ratio
    assert ratio.runs == (1.0, 1.0)
    assert min(found.results[0]["syncs"][name] for name in ("tandemq-a", "tandemq-b")) >= 95
    (reason,) = refusals(mislabelled)
    assert "cannot hold 3 copies" in reason
    assert robbed.refused == ["1 messages lost"]
    assert robbed.good == {}
    assert found.results[1]["account"]["sent"] == 460


def test_an_open_loop_over_a_kill_loses_nothing(place: Place) -> None:
    with place:
        found = Document("growth", {}, "", {})
        measure_faults(place, OPTIONS, found)
    assert [result["of"] for result in found.results] == [["fault", label] for label in ("undisturbed", KILL, HANDOFF)]
    for _, run in found.all_runs():
        assert (run["account"]["lost"], run["account"]["corrupt"]) == (0, 0)
        assert run["account"]["sent"] == 240
        # A machine that does much else makes the load late, which is for the benchmark to refuse, not for this test.
        assert [why for why in refusals(run) if "bottleneck" not in why] == []


BUSY_S = 6.0
STRANGER = f"""
import os, sys, time
if os.fork():
    os._exit(0)  # so that it is nobody's child of ours
until = time.monotonic() + {BUSY_S}
print(os.getpid(), flush=True)
while time.monotonic() < until: pass
"""


def test_what_a_stranger_uses_while_a_master_is_killed_is_counted(place: Place) -> None:
    """The processes of the load cannot: of the killed one they see no more what it had used."""
    with place:
        pair = Tandemq(place)
        try:
            pair.start()
            stranger = subprocess.Popen([sys.executable, "-c", STRANGER], stdout=subprocess.PIPE)
            assert stranger.stdout
            pid = int(stranger.stdout.readline())
            line = hurt(pair, Measurement(place, pair, OPTIONS, 0), KILL, 200.0, 0.5)
            used_us = cpu_us(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            stranger.wait()
            stranger.stdout.close()
        finally:
            pair.stop()
    assert used_us > 100_000, "there was a stranger"
    assert line["foreign_cores"] > 0.02
    assert any(what.startswith("noisy") for what in line["remarks"]) is (line["foreign_cores"] > NOISY_CORES)


class Unfaithful(Tandemq):
    """Its settings are right when it is asked first."""

    asked = 0

    def settings(self) -> list[Setting]:
        self.asked += 1
        return [Setting("sync", "always", "always" if self.asked == 1 else "never")]


class Idle(Measurement):
    """Loads nothing."""

    def workloads(self) -> Iterator[dict[str, Any]]:
        return iter(())


def test_a_peer_that_is_not_afterwards_what_it_was_before_fails(place: Place) -> None:
    with place:
        pair = Unfaithful(place)
        try:
            pair.start()
            with pytest.raises(
                BenchError, match="afterwards it was not as it was before: sync is 'never', not 'always'"
            ):
                list(Idle(place, pair, OPTIONS, 0).results())
        finally:
            pair.stop()


def test_a_member_that_was_killed_is_known_as_ours_when_it_is_back(place: Place) -> None:
    """What it uses is otherwise a stranger's, and each later run noisy."""
    with place:
        pair = Tandemq(place)
        try:
            pair.start()
            master = pair.master()
            pair.cluster.kill(master)
            whole_again(pair, KILL, master)
            ours = {pid for pid, _ in processes_below(place.folder)}
            assert {pid for pids in pair.members().values() for pid in pids} <= ours
        finally:
            pair.stop()

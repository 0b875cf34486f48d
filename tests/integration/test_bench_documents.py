"""`make bench` and `make bench-failover` at tiny sizes: each leaves a document with all that its table needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import failover_report
from bench import report as pair_report
from bench.check import unfit
from bench.document import Document, read

ROOT = Path(__file__).resolve().parents[2]
ONE = "one in flight 1 KiB"

pytestmark = [pytest.mark.process, pytest.mark.slow]


def document(tmp_path: Path, script: str, *arguments: str) -> Document:
    out = tmp_path / "made/document.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "bench" / script), *arguments, "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env=environment)
    found = read(out.read_text(encoding="utf-8"))
    assert found.ended
    assert found.about["commit"] == found.about["commit_afterwards"]
    assert found.time.startswith("20")
    return found


def test_a_pair_beside_its_floor(tmp_path: Path) -> None:
    found = document(tmp_path, "run.py", "--quick", "--seconds", "0.3", "--only", ONE)
    ours, floor = (found.figures()[ONE, side] for side in ("ours", "floor"))
    assert list(ours.values("foreign_cores")) == list(floor.values("foreign_cores")) == [0]
    ratio = ours.ratio(floor, "value")
    assert ratio
    assert ratio.runs == (round(ours.values("value")[0] / floor.values("value")[0], 3),)
    reasons = [
        why for why in unfit(found, pair_report.PLAN) if "while others" not in why and "was measured on" not in why
    ]
    assert reasons[0] == "1 runs; 3 show a spread"
    assert reasons[1] == "0.3 s of each are to see that it runs"
    assert reasons[2].startswith("no result of enqueue + consume + ack 1 KiB, frames of 100 floor (run 1), ")
    assert ONE not in reasons[2]
    assert reasons[3:] == ["without the memory of a queued message"]
    assert f"| {ONE} | " in pair_report.markdown(found)


def test_a_takeover(tmp_path: Path) -> None:
    found = document(tmp_path, "failover.py", "--runs", "1", "--only", "kill", "--rate", "1000")
    kill = found.figures()["kill -9",]
    assert kill.values("ms")[0] > 0
    assert kill.values("p99_ms")[0] > 0
    assert found.options["rate"] == 1000
    assert list(kill.values("foreign_cores")) == [0]
    reasons = unfit(found, failover_report.PLAN)
    assert "1 runs; 20 show a spread" in reasons
    assert not any("without" in why for why in reasons)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_disk_that_hangs(tmp_path: Path) -> None:
    """Of either member, for less time than the product waits: nobody takes over, and everybody waits for its end."""
    found = document(tmp_path, "failover.py", "--runs", "1", "--only", "hung disk", "--rate", "200", "--hang", "1")
    assert found.options["disk"]["hang_s"] == 1
    for name in ("hung disk", "hung disk of the replica"):
        hung = found.figures()[name,]
        assert hung.refused == []
        (run,) = hung.good.values()
        assert run["ms"] >= 900, "what was under way when it began was answered"
        assert run["p99_ms"] >= 900, "it counts from when a message was due"
        assert (run["ended"], run["epochs"], run["one_copy"]) == (0, 0, 0)
        assert (run["hurt"] == run["master"]) == (name == "hung disk")
        assert run["account"]["lost"] == 0 < run["account"]["sent"] == run["account"]["received"]

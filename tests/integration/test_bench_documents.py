"""`make bench` and `make bench-failover` at tiny sizes: each leaves a document with all that its table needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import failover_report
from bench import report as pair_report

ROOT = Path(__file__).resolve().parents[2]
ONE = "one in flight 1 KiB"

pytestmark = [pytest.mark.process, pytest.mark.slow]


def document(tmp_path: Path, script: str, *arguments: str) -> dict[str, Any]:
    out = tmp_path / "made/document.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "bench" / script), *arguments, "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env=environment, timeout=150)
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert found["about"]["commit"] == found["about"]["commit_afterwards"]
    assert found["time"].startswith("20")
    return found


def test_a_pair_beside_its_floor(tmp_path: Path) -> None:
    found = document(tmp_path, "run.py", "--quick", "--seconds", "0.3", "--only", ONE)
    lines = pair_report.by_name(found)
    ours, floor = (lines[ONE, side] for side in ("ours", "floor"))
    assert ours["foreign_cores"] >= 0
    assert floor["foreign_cores"] >= 0
    assert lines[ONE, "ours / floor"]["runs"] == [round(ours["runs"][0] / floor["runs"][0], 3)]
    reasons = [why for why in pair_report.unfit(found) if not why.startswith(("while others", "it was measured on"))]
    assert reasons[0] == "1 runs; 3 show a spread"
    assert reasons[1] == "0.3 s of each are to see that it runs"
    assert reasons[2].startswith("without enqueue 1 KiB, frames of 100 (ours), ")
    assert ONE not in reasons[2]
    assert reasons[3:] == ["without the memory of a queued message"]
    assert f"| {ONE} | " in pair_report.markdown(found)


def test_a_takeover(tmp_path: Path) -> None:
    found = document(tmp_path, "failover.py", "--runs", "1", "--only", "kill")
    (run,) = found["runs"]["kill -9"]
    assert run["ms"] > 0
    assert run["foreign_cores"] >= 0
    assert f"1 runs of kill -9; {failover_report.RUNS_MIN} show a spread" in failover_report.unfit(found)
    assert not any("was not measured" in why for why in failover_report.unfit(found))

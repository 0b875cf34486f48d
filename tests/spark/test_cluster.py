"""The run on a cluster as `make spark-cluster` starts it, and that whatever ends it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.cluster.__main__ import NOT_HERE
from tests.spark.cluster.lan import why_not
from tests.spark.striking import ROOT

WAITING = "import signal; print('began', flush=True); signal.pause()"
OUTSIDE = f"""
import sys
from tests.spark.cluster.lan import inside
sys.exit(inside([sys.executable, "-c", "{WAITING}"]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_whatever_ends_it_ends_all_that_it_started(number: signal.Signals) -> None:
    if why := why_not():
        pytest.skip(f"SKIPPED, NOT PASSED: no network of its own on this machine: {why}")
    command = [sys.executable, "-P", "-c", OUTSIDE]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, process_group=0) as outside:
        assert outside.stdout is not None
        assert outside.stdout.readline() == b"began\n"
        if number == signal.SIGINT:
            os.killpg(outside.pid, number)  # as a terminal does
        else:
            os.kill(outside.pid, number)
        assert outside.stdout.read() == b""  # it ends when the last process has that holds it


@pytest.mark.long
@pytest.mark.timeout(7_200)  # five kills, and twenty starts of a JVM
def test_a_cluster_loses_nothing_whoever_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "spark-cluster.json"
    command = [sys.executable, "-P", "-m", "tests.spark.cluster", "--rounds", "5", "--out", str(out)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode == NOT_HERE:
        pytest.skip(f"SKIPPED, NOT PASSED: {ended.stderr}")
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-3000:]
    found = json.loads(out.read_text())
    assert {name: found[name] for name in ("rounds", "lost", "duplicates", "verdict")} == {
        "rounds": 5,
        "lost": 0,
        "duplicates": 0,
        "verdict": "PASS",
    }

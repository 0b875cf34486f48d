"""`make bench-levers` on real pairs, for a moment: every lever has its turns, and what it switches is off in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.document import read
from bench.levers.table import LEVERS, SHIPPED

ROOT = Path(__file__).resolve().parents[2]
PATIENT = {"TANDEMQ_TIMERS_LOST_MS": "60000", "TANDEMQ_TIMERS_HUNG_MS": "60000"}
"""A pair that changes its roles is not measured; five of them on a busy machine lose each other for a moment."""


@pytest.mark.process
def test_a_short_run_measures_every_lever(tmp_path: Path) -> None:
    out = tmp_path / "levers.json"
    asked = ["--runs", "1", "--seconds", "0.3", "--only", "5,000/s"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.levers.run", *asked, "--out", str(out), "--folder", str(tmp_path / "run")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **PATIENT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.exists(), done.stderr
    document = read(out.read_text(encoding="utf-8"))
    assert (document.failed, document.ended) == ([], True), done.stderr
    assert {tuple(result["of"]) for result in document.results} == {("5,000/s", lever.name) for lever in LEVERS}
    runs = {of[1]: run for (of, run) in ((result["of"], run) for result, run in document.all_runs())}
    assert all(run["broke"] == [] and run["sent"] >= 2_000 for run in runs.values()), "acknowledged, and there"
    assert all(sum(run["us"].values()) > 0 and run["switches"]["master"] > 0 for run in runs.values())
    assert runs[SHIPPED]["per_frame"] > 1
    assert "small batches leave at once" in done.stdout


@pytest.mark.process
@pytest.mark.parametrize("words", [["--only", "no such load"], ["--runs", "0"], ["--seconds", "0"]])
def test_options_that_make_no_sense_end_with_2(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.levers.run", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "error:" in done.stderr

"""The guard finds what was made slower on purpose, and says so where it could not look."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.guard.compare import Verdict, compared
from bench.guard.run import BASELINE, REQUIRED, ROOT, about, counted

COPY, CALL, UNTOUCHED = "enqueue large: master", "enqueue small: master", "record small: store"


@pytest.mark.process
@pytest.mark.slow
def test_a_needless_copy_and_a_call_for_each_message_are_found() -> None:
    if shutil.which("valgrind") is None and os.environ.get(REQUIRED) != "1":
        pytest.skip("valgrind is not on PATH: `make guard` installs it")
    baseline = json.loads(BASELINE.read_text())
    surroundings = about()
    if baseline["about"] != surroundings and os.environ.get(REQUIRED) != "1":
        pytest.skip("the baseline is of other surroundings: make guard tells which")
    wanted = (COPY, CALL, UNTOUCHED)
    baseline["figures"] = {name: baseline["figures"][name] for name in wanted}
    found = compared(baseline, surroundings, counted(only=wanted, plant=("copy", "call")))
    assert not found.stale
    verdicts = {line.name: line.verdict for line in found.lines}
    assert verdicts == {COPY: Verdict.WORSE, CALL: Verdict.WORSE, UNTOUCHED: Verdict.SAME}, found.lines


@pytest.mark.process
@pytest.mark.parametrize(
    ("more", "required", "code"), [((), "", 3), (("--optional",), "", 0), (("--optional",), "1", 3)]
)
def test_without_valgrind_it_says_that_nothing_was_compared(
    tmp_path: Path, more: tuple[str, ...], required: str, code: int
) -> None:
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT), REQUIRED: required}
    done = subprocess.run(
        [sys.executable, "-m", "bench.guard.run", *more], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert "NOT COMPARED: valgrind is not on PATH" in done.stdout
    assert ("no failure here" in done.stderr) == (code == 0)

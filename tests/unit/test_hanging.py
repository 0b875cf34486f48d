"""A test that hangs fails alone, and a hang that no failure ends ends the process with every stack on the page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HANGS = """
import asyncio, signal, subprocess, time, pytest

@pytest.mark.timeout(0.2)
async def test_waits_in_a_loop():
    await asyncio.Event().wait()

@pytest.mark.timeout(0.2)
async def test_polls_in_a_loop():
    while True:
        await asyncio.sleep(0.01)

@pytest.mark.timeout(0.2)
def test_waits_for_a_process():
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            process.wait()
        finally:
            process.kill()

def test_comes_after_them():
    pass
"""
BELOW = """
import signal, time, pytest

@pytest.mark.timeout(0.2)
def test_hears_no_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(1000)

def test_comes_after_it():
    pass
"""


def ran(folder: Path, text: str, grace_s: float) -> subprocess.CompletedProcess[str]:
    """These tests, with the suite's own settings."""
    (folder / "test_them.py").write_text(text)
    (folder / "conftest.py").write_text(f"from tests.support import hanging\nhanging.GRACE_S = {grace_s}\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.hanging", "-p", "no:cacheprovider"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "--timeout", "200", str(folder)]
    wide = {**os.environ, "COLUMNS": "400"}  # the summary is cut to the terminal
    return subprocess.run(command, cwd=ROOT, env=wide, capture_output=True, text=True, check=False)


def test_tests_that_hang_fail_and_the_next_one_runs(tmp_path: Path) -> None:
    ended = ran(tmp_path, HANGS, 200.0)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout + ended.stderr
    assert "3 failed, 1 passed" in ended.stdout
    for name in ("test_waits_in_a_loop", "test_polls_in_a_loop", "test_waits_for_a_process"):
        assert f"{name} - Failed: Timeout (>0.2s)" in ended.stdout, ended.stdout


def test_a_hang_that_no_failure_ends_ends_the_process_and_shows_where(tmp_path: Path) -> None:
    ended = ran(tmp_path, BELOW, 0.5)
    assert ended.returncode == 1
    assert "passed" not in ended.stdout
    assert "most recent call first" in ended.stderr
    assert "in test_hears_no_signal" in ended.stderr

"""The suite passes under nohup and in the background: what it starts has the signals of a terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.until import OUTER_S

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.process
SUITE = """
import pathlib
import signal
import subprocess
import sys

def test_child():
    said = subprocess.run([sys.executable, "-c", "print(open('/proc/self/status').read())"], capture_output=True)
    ignored = next(int(line.split()[1], 16) for line in said.stdout.decode().splitlines() if line.startswith("SigIgn"))
    assert not ignored & (1 << signal.SIGHUP - 1 | 1 << signal.SIGINT - 1)
    signal.raise_signal(signal.SIGHUP)
"""


@pytest.mark.parametrize("covered", [True, False])
def test_what_a_test_starts_hears_signals_that_are_ignored_here(tmp_path: Path, covered: bool) -> None:
    (tmp_path / "test_child.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    ended = subprocess.run(
        [*command[:4], *(["-p", "tests.conftest"] if covered else []), *command[4:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=OUTER_S,
        check=False,
        preexec_fn=lambda: [signal.signal(each, signal.SIG_IGN) for each in (signal.SIGHUP, signal.SIGINT)],
    )
    assert ("1 passed" in ended.stdout) is covered, ended.stdout
    assert ("1 failed" in ended.stdout) is not covered, ended.stdout

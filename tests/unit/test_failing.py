"""A test that fails does so alone, whatever of its garbage is found while its failure is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAILS = '''
import ast, gc

going = [True]

class Late:
    """Parses when it ends, as the traceback of a task does that nobody awaited; then there is another one."""
    def __init__(self):
        self.own = self
    def __del__(self):
        ast.parse("1 + 2")
        if going:
            Late()

def test_fails_with_garbage():
    gc.set_threshold(20, 2, 2)
    Late()
    assert going == []

def test_comes_after_it():
    assert gc.isenabled()
    going.clear()
'''


def test_a_failure_is_written_whatever_garbage_it_left(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(FAILS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.failing", "-p", "no:cacheprovider", "-q"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout[-2_000:]
    assert "1 failed, 1 passed" in ended.stdout

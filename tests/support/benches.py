"""Runs a benchmark as `make` does, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from chaos.fork_server import handed_on

ROOT = Path(__file__).resolve().parents[2]


def run_bench(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """To its end. Members that it starts are forked from the tests' own server."""
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        env={**os.environ, **handed_on(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

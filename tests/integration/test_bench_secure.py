"""`make bench-secure` on two real pairs, for a moment: every key has its value with its turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.secure.run import KEYS
from chaos.fork_server import handed_on

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.process
@pytest.mark.slow
def test_a_tiny_run_has_every_key(tmp_path: Path) -> None:
    out = tmp_path / "secure.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.secure.run", "--quick", "--out", str(out), "--folder", str(tmp_path / "run")],
        cwd=ROOT,
        env={**os.environ, **handed_on(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.exists(), done.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    assert (done.returncode, document["failed"]) == (0, ""), done.stderr
    assert {key: document[key]["n"] for key in KEYS} == dict.fromkeys(KEYS, 2)
    assert all(document[key].get("ratio") or document[key].get("value") for key in KEYS)

"""`make bench-secure` on two real pairs, for a moment: every key has its value with its turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.secure.run import KEYS
from tests.support.benches import run_bench


@pytest.mark.process
@pytest.mark.slow
def test_a_tiny_run_has_every_key(tmp_path: Path) -> None:
    out = tmp_path / "secure.json"
    done = run_bench("bench.secure.run", "--quick", "--out", str(out), "--folder", str(tmp_path / "run"))
    assert out.exists(), done.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    assert (done.returncode, document["failed"]) == (0, ""), done.stderr
    assert {key: document[key]["n"] for key in KEYS} == dict.fromkeys(KEYS, 2)
    assert all(document[key].get("ratio") or document[key].get("value") for key in KEYS)

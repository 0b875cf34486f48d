"""`make bench-twin` on a real pair, for a moment: every key has its value with its turns, or says why there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.twins.run import KEYS
from chaos.fork_server import handed_on

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.twins.run", *words],
        cwd=ROOT,
        env={**os.environ, **handed_on(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.process
def test_a_tiny_run_has_every_key(tmp_path: Path) -> None:
    out = tmp_path / "twin.json"
    ratios, singles = ("enqueue", "lockstep", "priority"), ("takeover_ms", "replay_per_s")  # what needs no valgrind
    done = run("--quick", "--only", ",".join(ratios + singles), "--out", str(out), "--folder", str(tmp_path / "run"))
    assert out.exists(), done.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    assert (done.returncode, document["failed"]) == (0, ""), done.stderr
    assert set(KEYS) <= document.keys()
    for key in ratios:
        figure = document[key]
        assert figure["n"] == 2 == len(figure["ours"]) == len(figure["beside"])
        assert 0 < figure["spread"][0] <= figure["ratio"] <= figure["spread"][1]
    for key in singles:
        figure = document[key]
        assert figure["n"] == 2 == len(figure["turns"])
        assert 0 < figure["spread"][0] <= figure["value"] <= figure["spread"][1]
    assert all("others_cores" in document[key] for key in ratios + singles)
    assert all(document[key].get("ratio") or document[key].get("value") or document[key]["why"] for key in KEYS)
    assert all(key in done.stdout for key in KEYS)


@pytest.mark.process
@pytest.mark.parametrize("words", [["--only", "no such key"], ["--turns", "0"]])
def test_options_that_make_no_sense_end_with_2(words: list[str]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert "error:" in done.stderr

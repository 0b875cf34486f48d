"""`make bench-twin` on a real pair, for a moment: every key has its value with its turns, or says why there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.twins.run import KEYS
from tests.support.benches import run_bench


@pytest.mark.process
def test_a_tiny_run_has_every_key(tmp_path: Path) -> None:
    out = tmp_path / "twin.json"
    ratios, singles = ("enqueue", "lockstep", "priority"), ("takeover_ms", "replay_per_s")  # what needs no valgrind
    place = ("--out", str(out), "--folder", str(tmp_path / "run"))
    done = run_bench("bench.twins.run", "--quick", "--only", ",".join(ratios + singles), *place)
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
    done = run_bench("bench.twins.run", *words)
    assert done.returncode == 2
    assert "error:" in done.stderr

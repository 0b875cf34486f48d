"""`make bench-units` on real pairs, for a moment: every key has its ratio with its turns, or says why there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.units.run import KEYS
from tests.support.benches import run_bench


@pytest.mark.process
def test_a_tiny_run_has_every_key(tmp_path: Path) -> None:
    out = tmp_path / "units.json"
    pairs = ("batch_cost", "latency", "sticky", "react_by_id", "link")  # what needs neither valgrind nor another system
    place = ("--out", str(out), "--folder", str(tmp_path / "run"))
    done = run_bench("bench.units.run", "--quick", "--only", ",".join(pairs), *place)
    assert out.exists(), done.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    assert (done.returncode, document["failed"]) == (0, ""), done.stderr
    assert set(KEYS) <= document.keys()
    for key in pairs:
        figure = document[key]
        assert figure["n"] == 2 == len(figure["ours"]) == len(figure["beside"])
        assert 0 < figure["spread"][0] <= figure["ratio"] <= figure["spread"][1]
        assert "others_cores" in figure, "times and rates are those of a machine that others used so much"
    assert all(document[key]["ratio"] is not None or document[key]["why"] for key in KEYS)
    assert all(key in done.stdout for key in KEYS)


@pytest.mark.process
@pytest.mark.parametrize("words", [["--only", "no such key"], ["--turns", "0"]])
def test_options_that_make_no_sense_end_with_2(words: list[str]) -> None:
    done = run_bench("bench.units.run", *words)
    assert done.returncode == 2
    assert "error:" in done.stderr

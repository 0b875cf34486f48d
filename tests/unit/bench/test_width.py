"""Tables of the benches stand whole on a terminal of 80 columns."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from bench import report

RESULTS = Path(__file__).resolve().parents[3] / "bench/results"


def test_every_figure_of_make_bench_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads((RESULTS / "bench.json").read_text())
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    report.table(document["lines"])
    said = stream.getvalue()
    assert max(len(line.rstrip()) for line in said.splitlines()) <= 80
    assert "…" not in said
    for row in report.brief(document["lines"]):
        for cell in row:
            assert all(word in said for word in cell.split()), cell

"""Tables of the benches stand whole on a terminal of 80 columns."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from bench import report
from bench.document import read

RESULTS = Path(__file__).resolve().parents[3] / "bench/results"


def test_every_figure_of_make_bench_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    document = read((RESULTS / "bench.json").read_text())
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    report.table(document)
    said = stream.getvalue()
    assert max(len(line.rstrip()) for line in said.splitlines()) <= 80
    assert "…" not in said
    for row in report.rows(document, brief=True):
        for cell in row:
            assert all(word in said for word in cell.split()), cell

"""A job's page and result: everything is in them, nothing is taken for HTML, and lines stay inside their picture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipeline.outcome import DONE, VIOLATIONS, Outcome, Plot, Table
from pipeline.plots import HEAD, HEIGHT, draw
from pipeline.problems import PipelineError
from pipeline.report import ROWS_SHOWN, facts_of, page, write


def outcome(verdict: str = DONE, rows: int = 2) -> Outcome:
    table = Table("members", [{"member": "<a>", "rows": 1234, "share": 0.5, "gone": None} for _ in range(rows)])
    return Outcome("ingest", verdict, "Rows & rows.", [table], [Plot("rate", "/s", {"a": [(0.0, 1.0), (2.0, 5.0)]})])


def test_both_files_tell_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "new", outcome())
    result = json.loads((tmp_path / "new" / "result.json").read_text())
    assert result == facts_of(outcome())
    assert (result["verdict"], result["members"][0]["rows"]) == ("done", 1234)
    text = path.read_text()
    for told in ("&lt;a&gt;", "1,234", "<td>0.5</td>", "Rows &amp; rows.", '<span id="verdict" class="good">done'):
        assert told in text
    assert "<script" not in text
    assert "http" not in text


def test_a_bad_verdict_looks_bad_and_long_tables_say_what_is_left_out() -> None:
    text = page(outcome(VIOLATIONS, ROWS_SHOWN + 5))
    assert 'class="bad">violations' in text
    assert "and 5 more" in text


def test_lines_stay_inside_and_many_points_are_thinned() -> None:
    many = [(at / 100, float(at % 97)) for at in range(10_000)]
    text = draw(Plot("t", "", {"a": many, "b": [(0.0, 500.0)], "none": []}))
    places = [float(y) for y in re.findall(r'class="drawn[^>]* y[12]="([0-9.]+)"', text)]
    assert places
    assert all(HEAD <= y <= HEAD + HEIGHT for y in places)
    assert text.count("drawn") < 2 * 700
    assert draw(Plot("nothing", "", {})).count("<svg") == 2


def test_a_report_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match=r"the report cannot be written to .*; the job itself is done"):
        write(tmp_path / "file" / "x", outcome())

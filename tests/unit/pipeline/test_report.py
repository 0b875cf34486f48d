"""A job's page and result: everything is in them, nothing is taken for HTML, and lines stay inside their picture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from chaos.timeline.axis import NARROW, WIDE
from chaos.timeline.page import document
from pipeline.outcome import DONE, VIOLATIONS, Mark, Outcome, Plot, Table
from pipeline.plots import HEAD, HEIGHT, MARKS_MAX, draw
from pipeline.problems import PipelineError
from pipeline.report import ROWS_LISTED, ROWS_OPEN, facts_of, page, write


def outcome(verdict: str = DONE, rows: int = 2) -> Outcome:
    table = Table("members", [{"member": "<a>", "rows": 1234, "share": 0.5, "gone": None} for _ in range(rows)])
    return Outcome("ingest", verdict, "Rows & rows.", [table], [Plot("rate", "/s", {"a": [(0.0, 1.0), (2.0, 5.0)]})])


def test_both_files_tell_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "new", outcome())
    result = json.loads((tmp_path / "new" / "result.json").read_text())
    assert result == facts_of(outcome())
    assert (result["verdict"], result["members"][0]["rows"]) == ("done", 1234)
    text = path.read_text()
    for told in (
        "&lt;a&gt;",
        "1,234",
        '<td class="number">0.5</td>',
        "Rows &amp; rows.",
        '<span id="verdict" class="good">done',
    ):
        assert told in text
    assert "<script" not in text
    assert "http" not in text


def test_a_bad_verdict_looks_bad_and_long_tables_say_what_is_left_out() -> None:
    text = page(outcome(VIOLATIONS, ROWS_LISTED + 5))
    assert 'class="bad">violations' in text
    assert "and 5 more" in text


def test_plots_come_first_numbers_stand_right_and_a_long_table_is_folded() -> None:
    text = page(outcome(rows=ROWS_OPEN))
    assert text.index("<svg") < text.index("<h2>members</h2>")
    assert "<details>" not in text
    assert re.findall(r'<th class="number">(\w+)</th>', text) == ["rows", "share", "gone"]
    assert "<th>member</th>" in text
    folded = page(outcome(rows=ROWS_OPEN + 1))
    assert f"<details><summary>members: {ROWS_OPEN + 1} rows</summary>" in folded
    assert folded.count("</details>") == 1


def test_a_drill_and_a_job_have_one_style() -> None:
    told = page(outcome())
    style = told[told.index("<style>") : told.index("</style>")]
    assert style in document("drill", "pass", [], good=True)


def test_kills_are_marked_whatever_else_happened() -> None:
    epochs = [Mark(at / 10, f"epoch {at}") for at in range(2 * MARKS_MAX)]
    kill = Mark(1.0, "kill -9 a", kill=True)
    text = draw(Plot("t", "", {"a": [(0.0, 1.0), (12.0, 5.0)]}, [*epochs, kill, Mark(99.0, "beyond")]))
    assert text.count('class="mark kill"') == 2, "in both widths"
    assert text.count('class="mark tick"') == 2 * MARKS_MAX
    assert ">kill -9 a</text>" in text
    assert "beyond" not in text
    x = [float(each) for each in re.findall(r'class="mark kill" x1="([0-9.]+)"', text)]
    assert x == [round(each.left + (each.right - each.left) / 12, 1) for each in (WIDE, NARROW)]


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

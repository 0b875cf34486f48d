"""The audit of a lake without Spark: what it reads is what was written, and what it cannot read it names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="SPARK NOT TESTED: no pyarrow (`make spark`)")

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.journal_checks import judged
from chaos.journals import Row
from pipeline.audit_small import audit_small, ends_of, rows_there
from pipeline.auditing import auditing_small
from pipeline.config import Audit, LakeAt, Pipeline, Report, Source
from pipeline.lake import Lake, Place
from pipeline.problems import PipelineError
from pipeline.schema import BARE_JOURNAL, HEADS, HISTORY, HISTORY_LATER, JOURNAL, names
from tandemq.spark.columns import SCHEMA, WITH_ATTRIBUTES
from tandemq.spark.recording import SCHEMA as TOLD
from tests.support.pair_faults import lost, no_attributes_at_b, other_attributes_at_b
from tests.support.pair_histories import MEMBERS, Run, usual


def in_lake(run: Run, path: Path, schema: pa.Schema = WITH_ATTRIBUTES) -> Lake:
    """In two stretches a member."""
    lake = Lake(path)
    path.mkdir()
    with lake.locked():
        lake.claim({})
        for member in MEMBERS:
            middle, end = run.log_index // 2, run.log_index + 1
            for start, stop in ((1, middle), (middle, end)):
                rows = [row for row in run.rows if row.member == member and start <= row.log_index < stop]
                staged = lake.staging("made")
                staged.mkdir()
                pq.write_table(pa.Table.from_pylist([columns(row) for row in rows], schema), staged / "part.parquet")
                lake.publish(member, start, Place(stop, rows[-1].epoch), staged, rows=len(rows))
            heads = [asdict(head) for head in run.heads if head.member == member]
            lake.save_heads(member, [{name: head.get(name) for name in names(HEADS)} for head in heads])
    return lake


def columns(row: Row) -> dict[str, Any]:
    beside = {"content_type": row.attributes.decode()} if row.attributes else {}
    return {**asdict(row), **beside, "time": datetime.fromtimestamp(row.time_us / 1_000_000, UTC)}


def history_of(run: Run, path: Path, without: str = "") -> str:
    table = pa.Table.from_pylist([asdict(told) for told in run.asked], TOLD)
    pq.write_table(table.drop_columns([without]) if without else table, path)
    return str(path)


def configured(lake: Lake, history: str, **audit: Any) -> Pipeline:
    return Pipeline(
        source=Source(target="a:1,b:1"),
        lake=LakeAt(path=str(lake.path)),
        audit=Audit(history=history, **audit),
        report=Report(path=str(lake.path.parent / "reports")),
    )


def test_a_lake_is_judged_as_its_rows_are(tmp_path: Path) -> None:
    run = usual()
    lost(run)
    lake, history = in_lake(run, tmp_path / "lake"), history_of(run, tmp_path / "told.parquet")
    found, wanted = audit_small(lake, history), judged(run.rows, run.asked, run.heads, run.ends)
    assert set(found.violations) == set(wanted.violations)
    assert (found.rows, found.asked, found.unjudged) == (wanted.rows, wanted.asked, wanted.unjudged)
    assert ends_of(lake) == run.ends
    assert rows_there(lake, history) == len(run.rows) + len(run.asked)


@pytest.mark.parametrize("plant", [other_attributes_at_b, no_attributes_at_b])
def test_what_stands_beside_a_body_is_compared_too(tmp_path: Path, plant: Callable[[Run], None]) -> None:
    run = usual()
    plant(run)
    (found,) = audit_small(in_lake(run, tmp_path / "lake"), "").violations
    assert (found.kind, found.index) == ("COPIES_DIFFER", 5)


def test_a_lake_of_before_is_judged_without_what_stood_beside_bodies(tmp_path: Path) -> None:
    """1. An older version kept one member up to its end, the other one up to the middle. 2. This one goes on: of the
    first half the second member alone has attributes.
    """
    run = usual()
    middle = run.log_index // 2
    run.rows = [
        replace(row, attributes=None) if row.member == "a" or row.log_index < middle else row for row in run.rows
    ]
    lake = in_lake(run, tmp_path / "lake")
    assert {each.kind for each in audit_small(lake, "").violations} == {"COPIES_DIFFER"}
    facts = {"version": 1, "columns": list(names(BARE_JOURNAL))}
    (lake.path / "_lake.json").write_text(json.dumps(facts))
    outcome = auditing_small()(configured(lake, ""))
    assert outcome is not None
    assert outcome.verdict == "clean"
    told = f"What stood beside bodies was not compared before log index {run.log_index + 1}"
    assert [line for line in outcome.facts["not_judged"] if line.startswith(told)] != []
    with lake.locked():
        assert lake.claim({}), "it is taken over"
        assert not lake.claim({}), "once"
    assert audit_small(lake, "").violations == []


def test_columns_that_are_not_there_are_null(tmp_path: Path) -> None:
    run = usual()
    lost(run)
    bare, rich = in_lake(run, tmp_path / "bare", SCHEMA), in_lake(run, tmp_path / "rich")
    assert set(audit_small(bare, "").violations) == set(audit_small(rich, "").violations)


def test_a_lake_of_a_newer_version_is_refused_by_what_it_has(tmp_path: Path) -> None:
    lake = in_lake(usual(), tmp_path / "lake")
    facts = {"version": 1, "columns": [*names(JOURNAL), "colour"]}
    (lake.path / "_lake.json").write_text(json.dumps(facts))
    with pytest.raises(PipelineError, match=r"LAKE_SCHEMA: .*does not know: colour: a newer version"):
        audit_small(lake, "")


def test_a_last_stretch_that_is_gone_is_a_tail_that_was_cut(tmp_path: Path) -> None:
    lake = in_lake(usual(), tmp_path / "lake")
    for member in MEMBERS:
        gone = lake.stretches(member)[-1].path
        for file in gone.iterdir():
            file.unlink()
        gone.rmdir()
    found = [each for each in audit_small(lake, "").violations if each.kind == "TAIL_CUT" and each.queue is None]
    assert {(each.member, each.log_index) for each in found} == {(m, usual().log_index // 2) for m in MEMBERS}


def test_a_history_of_before_priorities_is_read_and_its_order_not_judged(tmp_path: Path) -> None:
    run = usual()
    lake = in_lake(run, tmp_path / "lake")
    found = audit_small(lake, history_of(run, tmp_path / "told.parquet", without="priority"))
    assert found.violations == []
    assert any(line.startswith("The order of") for line in found.unjudged)


@pytest.mark.parametrize("name", [name for name in names(HISTORY) if name not in HISTORY_LATER])
def test_a_history_that_lacks_a_column_is_refused(tmp_path: Path, name: str) -> None:
    run = usual()
    lake = in_lake(run, tmp_path / "lake")
    with pytest.raises(PipelineError, match=f"HISTORY_SCHEMA: .*{name} is missing"):
        audit_small(lake, history_of(run, tmp_path / "told.parquet", without=name))


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("op", "enqueue", "none of send, recv, ack"),
        ("op", None, "none of send, recv, ack"),
        ("outcome", "OK", "none of ok, fail, unknown"),
        ("invoke_ns", None, "null"),
        ("queue", None, "null"),
    ],
)
def test_rows_of_a_history_that_tell_nothing_are_refused(
    tmp_path: Path, name: str, value: str | None, what: str
) -> None:
    """They would be left out in silence."""
    run = usual()
    lake = in_lake(run, tmp_path / "lake")
    run.asked[3:5] = [replace(told, **{name: value}) for told in run.asked[3:5]]  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match=f"HISTORY_SCHEMA: .*: {name} is {what} in 2 rows"):
        audit_small(lake, history_of(run, tmp_path / "told.parquet"))


@pytest.mark.parametrize("name", ["log_index", "epoch", "time", "kind"])
def test_a_row_without_what_each_row_has_is_refused(tmp_path: Path, name: str) -> None:
    lake = in_lake(usual(), tmp_path / "lake")
    path = lake.stretches("a")[1].path / "part.parquet"
    rows = pq.ParquetFile(path).read().to_pylist()
    pq.write_table(pa.Table.from_pylist([{**rows[0], name: None}, *rows[1:]], WITH_ATTRIBUTES), path)
    with pytest.raises(PipelineError, match=f"BAD_LAKE: .*log-.* has rows without {name}$"):
        audit_small(lake, "")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    lake = in_lake(usual(), tmp_path / "lake")
    with pytest.raises(PipelineError, match="HISTORY_SCHEMA: there is no client history at"):
        audit_small(lake, str(tmp_path / "nothing"))
    (lake.stretches("a")[0].path / "part.parquet").write_bytes(b"damaged")
    with pytest.raises(PipelineError, match=r"BAD_LAKE: .*log-"):
        audit_small(lake, "")
    with pytest.raises(PipelineError, match="BAD_LAKE: there is nothing in"):
        audit_small(Lake(tmp_path / "empty"), "")


def test_the_job_takes_little_in_memory_and_says_so(tmp_path: Path) -> None:
    run = usual()
    lake, history = in_lake(run, tmp_path / "lake"), history_of(run, tmp_path / "told.parquet")
    rows = len(run.rows) + len(run.asked)
    outcome = auditing_small()(configured(lake, history, memory_rows=rows))
    assert outcome is not None
    assert (outcome.verdict, outcome.facts["checked"][:9]) == ("clean", "in memory")
    assert "2 settlements are of deliveries whose lease is in no journal" in outcome.lead
    assert auditing_small()(configured(lake, history, memory_rows=rows - 1)) is None


def test_a_lake_that_was_damaged_is_not_judged(tmp_path: Path) -> None:
    lake = in_lake(usual(), tmp_path / "lake")
    path = lake.stretches("a")[1].path / "part.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(PipelineError, match=f"BAD_LAKE: {path} is damaged"):
        auditing_small()(configured(lake, ""))
    path.unlink()
    with pytest.raises(PipelineError, match=f"BAD_LAKE: {path} is gone"):
        auditing_small()(configured(lake, "", memory_rows=1))


def test_violations_are_written_beside_the_report(tmp_path: Path) -> None:
    run = usual()
    lost(run)
    config = configured(in_lake(run, tmp_path / "lake"), history_of(run, tmp_path / "told.parquet"))
    outcome = auditing_small()(config)
    assert outcome is not None
    assert outcome.verdict == "violations"
    written = pq.read_table(tmp_path / "reports" / "audit" / "violations").to_pylist()
    assert {row["kind"] for row in written} == {"LOST", "GAP", "NEVER_ENTERED", "RECEIVED_LOST", "ACK_LOST"}


def test_a_clean_run_leaves_no_violations_of_an_earlier_one(tmp_path: Path) -> None:
    run = usual()
    lake, right = in_lake(run, tmp_path / "lake"), history_of(run, tmp_path / "right.parquet")
    run.asked = run.asked[1:]
    wrong = history_of(run, tmp_path / "wrong.parquet")
    place = tmp_path / "reports" / "audit" / "violations"
    for history, there in ((wrong, True), (right, False)):
        assert auditing_small()(configured(lake, history)) is not None
        assert place.exists() == there


def test_a_clean_run_leaves_a_place_where_no_report_can_be_to_who_writes_it(tmp_path: Path) -> None:
    lake = in_lake(usual(), tmp_path / "lake")
    (tmp_path / "reports").write_text("no directory")
    assert auditing_small()(configured(lake, "")) is not None

"""The audit on Spark and the one in memory: each planted fault is named by both, and both say the same of any rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.journal_checks import judged
from chaos.journals import Violation
from pipeline.problems import PipelineError
from pipeline.schema import HISTORY, ddl
from tests.support.pair_faults import ALONE, OF_BOTH, PLANTED, planted, without_b
from tests.support.pair_histories import Run, any_run, frames, joined, sided, spoil, usual

pytest.importorskip("pyspark", reason="SPARK NOT TESTED: no pyspark (`make spark`)")

Verdict = set[tuple[Any, ...]]


def in_memory(run: Run) -> Verdict:
    found = judged(run.rows, run.asked, run.heads, run.ends, run.every_record_from)
    assert all(each.journals or each.clients for each in found.violations), "each proves itself"
    return {told_of(each) for each in found.violations}


def on_spark(spark: Any, run: Run) -> Verdict:
    from pipeline.audit import audit

    found = audit(*frames(spark, run), run.ends, run.every_record_from)
    try:
        rows = [Violation(**row.asDict()) for row in found.violations.collect()]
    finally:
        found.close()
    assert found.unjudged == judged(run.rows, run.asked, run.heads, run.ends, run.every_record_from).unjudged
    assert all(each.journals or each.clients for each in rows), "each proves itself"
    assert sum(found.counts.values()) == len(rows)
    return {told_of(each) for each in rows}


def told_of(each: Violation) -> tuple[Any, ...]:
    found = each.id if each.kind in ("LOST", "COPIES_DIFFER") else None
    return (each.kind, each.member, each.queue_id, each.index, each.count, each.log_index, found)


def test_a_right_run_is_clean(spark: Any) -> None:
    run = joined([usual(), usual(1)])
    assert in_memory(run) == set()
    assert on_spark(spark, run) == set()


def test_queues_with_sides_are_clean(spark: Any) -> None:
    """What both sides gave is no delivery of the pair, and the numbers of a selection are no indexes: that much is not
    judged, and said so. What is lost there is still found.
    """
    run = joined([sided(), usual(1)])
    assert in_memory(run) == set()
    assert on_spark(spark, run) == set()
    said = " ".join(judged(run.rows, run.asked, run.heads, run.ends, run.every_record_from).unjudged)
    assert "48 deliveries and acknowledgements at sides of PRODUCER queues were not judged" in said
    gone = (run.queue_id(1), "ENQUEUED", 3)
    run.rows = [row for row in run.rows if (row.queue_id, row.kind, row.index) != gone]
    found = in_memory(run)
    assert on_spark(spark, run) == found
    assert "LOST" in {each[0] for each in found}


def test_rows_twice_and_clocks_apart_are_said_alike(spark: Any) -> None:
    run = usual()
    run.asked += [asked for asked in run.asked if asked.op == "ack"]
    run.asked = [replace(asked, complete_ns=1) if asked.op == "recv" else asked for asked in run.asked]
    assert in_memory(run) == on_spark(spark, run)
    said = " ".join(judged(run.rows, run.asked, run.heads, run.ends, run.every_record_from).unjudged)
    assert "are there twice" in said
    assert "before they were sent" in said


@pytest.mark.parametrize(
    "plants",
    [
        pytest.param(set(PLANTED) - ALONE, id="journals that differ"),
        pytest.param(OF_BOTH, id="equal journals", marks=pytest.mark.long),
    ],
)
def test_spark_names_what_was_planted(spark: Any, plants: set[Callable[[Run], None]]) -> None:
    """Each fault in a run of its own, the runs beside each other in one journal."""
    chosen = [plant for plant in PLANTED if plant in plants]
    run = joined([planted(place, plant) for place, plant in enumerate(chosen)])
    found = in_memory(run)
    assert {each[0] for each in found} >= set().union(*(PLANTED[plant] for plant in chosen))
    assert ("COPIES_DIFFER" in {each[0] for each in found}) == (plants is not OF_BOTH)
    assert on_spark(spark, run) == found


def test_rows_of_a_history_that_tell_nothing_are_refused(spark: Any, tmp_path: Path) -> None:
    from pipeline.reading import history_of

    rows = [asdict(asked) for asked in usual().asked]
    rows[3] |= {"op": "enqueue", "queue": None}
    rows[4] |= {"op": None, "outcome": "OK", "invoke_ns": None}
    spark.createDataFrame([tuple(row[c.name] for c in HISTORY) for row in rows], ddl(HISTORY)).write.parquet(
        str(tmp_path / "told")
    )
    wrong = "op is none of send, recv, ack in 2 rows; outcome is none of ok, fail, unknown in 1 rows; "
    with pytest.raises(PipelineError, match=f"HISTORY_SCHEMA: .*: {wrong}invoke_ns is null in 1 rows; queue is null"):
        history_of(spark, str(tmp_path / "told"))


def test_a_member_without_a_row_is_one_violation(spark: Any) -> None:
    run = planted(0, without_b)
    found = in_memory(run)
    assert ({each[0] for each in found}, len(found)) == (PLANTED[without_b], 1), "not thousands"
    assert on_spark(spark, run) == found


def test_what_is_wrong_with_a_whole_journal_is_a_row_a_member(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One journal has room for these: each violation is named as where its fault is the only one.

    Two records differ, and that is too many to be brought here: Spark keeps them, beside those that are brought.
    """
    from pipeline import audit

    monkeypatch.setattr(audit, "FEW", 1)
    run, each_alone = usual(), set()
    for plant in (each for each in PLANTED if each in ALONE - {without_b}):
        plant(run)
        found = in_memory(planted(0, plant))
        assert {each[0] for each in found} == PLANTED[plant]
        assert len(found) <= 5, "not thousands"
        each_alone |= found
    assert in_memory(run) == each_alone
    assert on_spark(spark, run) == each_alone


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), spoilt=st.integers(0, 3))
def test_both_say_the_same_of_any_rows(spark: Any, seed: int, spoilt: int) -> None:
    """Twenty small runs beside each other, some of them spoilt: one job for all of them."""
    random = Random(seed)
    runs = [any_run(random, place) for place in range(20)]
    for run in random.sample(runs, min(len(runs), spoilt * 5)):
        spoil(run, random)
    whole = joined(runs)
    assert on_spark(spark, whole) == in_memory(whole)


def test_an_audit_that_fails_keeps_nothing_in_spark(spark: Any) -> None:
    from pipeline.audit import audit

    run = usual()
    run.rows.append(replace(run.rows[0], member="c"))
    journal, history, heads = frames(spark, run)
    for each in (journal, history, heads):
        each.count()  # Spark keeps these, which are the caller's, from here on
    kept = set(spark.sparkContext._jsc.getPersistentRDDs().keys())
    with pytest.raises(ValueError, match="a pair has two members, and the journals are of a, b, c"):
        audit(journal, history, heads)
    assert set(spark.sparkContext._jsc.getPersistentRDDs().keys()) == kept

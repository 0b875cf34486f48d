"""The audit on Spark and the one in memory: each planted fault is named by both, and both say the same of any rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import starmap
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
    assert " ".join(found.unjudged) == unjudged(run)
    assert all(each.journals or each.clients for each in rows), "each proves itself"
    assert sum(found.counts.values()) == len(rows)
    return {told_of(each) for each in rows}


def told_of(each: Violation) -> tuple[Any, ...]:
    found = each.id if each.kind in ("LOST", "COPIES_DIFFER") else None
    return (each.kind, each.member, each.queue_id, each.index, each.count, each.log_index, found)


def told_oddly(run: Run) -> Run:
    """Acknowledgements are told twice, and what was received was there before it was sent."""
    run.asked += [asked for asked in run.asked if asked.op == "ack"]
    run.asked = [replace(asked, complete_ns=1) if asked.op == "recv" else asked for asked in run.asked]
    return run


def lost_at_sides(place: int) -> Run:
    run = sided(place)
    gone = (run.queue_id(1), "ENQUEUED", 3)
    run.rows = [row for row in run.rows if (row.queue_id, row.kind, row.index) != gone]
    return run


def unjudged(run: Run) -> str:
    return " ".join(judged(run.rows, run.asked, run.heads, run.ends, run.every_record_from).unjudged)


def test_right_runs_are_clean(spark: Any) -> None:
    """With sides and without, beside each other in one journal: an audit plans for ten seconds and looks for a moment.

    What both sides gave is no delivery of the pair, and the numbers of a selection are no indexes: that much is not
    judged, and said so.
    """
    run = joined([usual(), sided(1), usual(2)])
    assert in_memory(run) == set()
    assert on_spark(spark, run) == set()
    assert "48 deliveries and acknowledgements at sides of PRODUCER queues were not judged" in unjudged(run)


@pytest.mark.parametrize(
    "plants",
    [
        pytest.param(set(PLANTED) - ALONE, id="journals that differ"),
        pytest.param(OF_BOTH, id="equal journals", marks=pytest.mark.long),
    ],
)
def test_spark_names_what_was_planted(spark: Any, plants: set[Callable[[Run], None]]) -> None:
    """Each fault in a run of its own, the runs beside each other in one journal. Two more: a loss that sides do not
    hide, and a client history with rows twice and clocks apart, of which both audits say the same.
    """
    chosen = [plant for plant in PLANTED if plant in plants]
    sides = lost_at_sides(len(chosen))
    run = joined([*starmap(planted, enumerate(chosen)), sides, told_oddly(usual(len(chosen) + 1))])
    found = in_memory(run)
    assert {each[0] for each in found} >= set().union(*(PLANTED[plant] for plant in chosen))
    assert ("LOST", sides.queue_id(1), 3) in {(each[0], each[2], each[3]) for each in found}
    assert ("COPIES_DIFFER" in {each[0] for each in found}) == (plants is not OF_BOTH)
    assert "are there twice" in unjudged(run)
    assert "before they were sent" in unjudged(run)
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

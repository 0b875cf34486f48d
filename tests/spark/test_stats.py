"""Statistics against a count by hand, weights against their formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.pair_histories import Run, frames

pytest.importorskip("pyspark", reason="SPARK NOT TESTED: no pyspark (`make spark`)")

SECOND_US = 1_000_000


def at(run: Run, seconds: float) -> None:
    """The records that have no time yet, in both journals, happened then."""
    run.rows = [
        replace(row, time_us=round(seconds * SECOND_US)) if row.time_us < SECOND_US else row for row in run.rows
    ]


@pytest.fixture(scope="module")
def stories(spark: Any) -> Any:
    """Queue q1: 4 come at 10 s, 3 are leased at 11 s and acknowledged at 13 s; 6 come at 65 s, one is rejected and
    moved to q2, where it stays. Then q1 is purged of 2.
    """
    run = Run()
    run.create(1)
    run.create(2)
    run.send(1, 4)
    at(run, 10)
    run.record(run.about("LEASED", 1, 1, 3, 77))
    at(run, 11)
    run.record(run.about("ACKED", 1, 1, 2, 77), run.about("ACKED", 1, 3, 1, 77))
    at(run, 13)
    run.send(1, 6)
    run.record(run.about("LEASED", 1, 4, 1, 78))
    at(run, 65)
    run.record(run.about("REJECTED", 1, 4, 1, 78))
    at(run, 66)
    run.move(1, 2, 4, "DEAD_LETTERED")
    at(run, 70)
    run.record(run.about("PURGED", 1, 0, 2))
    at(run, 71)
    return frames(spark, run)[0]


def rows_of(frame: Any, *names: str) -> dict[tuple[str, int], tuple[Any, ...]]:
    return {
        (row["queue"], int(row["window_start"].timestamp())): tuple(row[name] for name in names)
        for row in frame.collect()
    }


def test_windows_count_what_happened_once_and_not_once_a_member(stories: Any) -> None:
    from pipeline.stats import one_history, windows

    stats = windows(one_history(stories), 60).persist()
    counts = rows_of(stats, "enqueued", "settled", "consumed", "depth")
    assert counts == {("q1", 0): (4, 3, 3, 1), ("q1", 60): (6, 3, 0, 4), ("q2", 60): (1, 0, 0, 1)}
    times = rows_of(stats, "service_mean_ms", "service_p50_ms", "service_p99_ms", "delay_p50_ms", "delay_p99_ms")
    assert times[("q1", 0)] == (2000.0, 2000, 2000, 3000, 3000)
    assert times[("q1", 60)] == (None, None, None, 56_000, 56_000)
    assert rows_of(stats, "enqueued_per_s", "settled_per_s")[("q1", 0)] == (4 / 60, 3 / 60)


def test_weights_follow_rate_service_and_growth_and_sum_to_one(spark: Any) -> None:
    from datetime import UTC, datetime

    from pipeline.schema import ddl
    from pipeline.stats import STATS
    from pipeline.weights import weights

    def stat(queue: str | None, minute: int, enqueued: int, settled: int, service_ms: float | None) -> tuple[Any, ...]:
        known = {
            "window_start": datetime.fromtimestamp(60 * minute, UTC),
            "window_end": datetime.fromtimestamp(60 * minute + 60, UTC),
            "queue": queue,
            "enqueued": enqueued,
            "settled": settled,
            "consumed": settled,
            "service_mean_ms": service_ms,
        }
        return tuple(known.get(column.name) for column in STATS)

    rows = [
        stat("old", 1, 900, 900, 1.0),  # before the last two windows
        stat("fast", 2, 60, 60, 10.0),
        stat("fast", 3, 60, 60, 30.0),
        stat("slow", 2, 60, 60, 40.0),
        stat("slow", 3, 180, 60, 40.0),
        stat(None, 3, 5, 5, 1.0),
    ]
    found = {row["queue"]: row for row in weights(spark.createDataFrame(rows, ddl(STATS)), 2).collect()}
    fast, slow = 1.0 / (0.020 * 1), 1.0 / (0.040 * 2)
    assert found["fast"]["weight"] == pytest.approx(fast / (fast + slow))
    assert found["slow"]["weight"] == pytest.approx(slow / (fast + slow))
    assert (found["slow"]["growth"], found["slow"]["rate_per_s"]) == (1.0, 1.0)
    assert (found["old"]["weight"], found.keys()) == (0.0, {"old", "fast", "slow"})
    idle = weights(spark.createDataFrame([stat("x", 1, 5, 0, None), stat("y", 1, 5, 0, None)], ddl(STATS)))
    assert [row["weight"] for row in idle.collect()] == [0.5, 0.5]


def test_limits_are_told() -> None:
    from pipeline.stats import windows
    from pipeline.weights import weights

    with pytest.raises(ValueError, match="window_s is 0, and may be from 1 to 86400"):
        windows(None, 0)
    with pytest.raises(ValueError, match="last_windows is 0"):
        weights(None, 0)

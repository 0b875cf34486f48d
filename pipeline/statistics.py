"""Job stats: what `pipeline.stats` and `pipeline.weights` make of the lake, into tables, Parquet and plots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline import weighing
from pipeline.integrity import OF_BEFORE, progress_to, prove
from pipeline.lake import Lake
from pipeline.outcome import DONE, Mark, Outcome, Plot, Table
from pipeline.plots import KINDS
from pipeline.reading import journal_of
from pipeline.running import Context
from pipeline.stats import one_history, windows
from pipeline.weighing import Publication
from pipeline.weights import weights

WINDOWS_LISTED_MAX = 20_000
"""In plots and tables, the newest of them; all are in the Parquet beside the report."""
PERCENTILES = ("p50", "p95", "p99")


def statistics(context: Context, asked: Publication | None = None) -> Outcome:
    """Counts, delays, service times and depth of every queue in windows of event time, and a share for each queue.

    asked: publish shares as a table of weights, or report what would be published.
    """
    config, spark = context.config, context.spark
    lake = Lake(config.lake.path_of())
    if prove(lake, on_progress=progress_to(context.notify)).of_before:
        context.notify(OF_BEFORE)
    lake.check_one_history()
    there = weighing.look(config.source, asked, lake.history_id()) if asked is not None else None
    place = Path(config.report.path) / "stats"
    journal = one_history(journal_of(spark, lake))
    counted = _written(windows(journal, config.stats.window_s), place / "windows")
    shares = _written(weights(counted), place / "weights")
    newest = counted.orderBy(F.col("window_start").desc(), "queue").limit(WINDOWS_LISTED_MAX)
    rows = [row.asDict() for row in newest.collect()][::-1]
    by_queue = {row["queue"]: row.asDict() for row in shares.collect()}
    queues = _queues(rows, by_queue)
    lead = f"{len(rows):,} windows of {config.stats.window_s} s of {len(queues)} queues, from {config.lake.path}."
    tables, plots = [Table("queues", queues), Table("windows", _as_rows(rows))], _plots(rows, queues, _epochs(journal))
    if asked is None or there is None:
        return Outcome("stats", DONE, lead, tables, plots)
    weighed = weighing.weigh(config.source, asked, there, counted, weighing.newest_of(journal))
    return Outcome("stats", DONE, f"{lead} {weighed.lead}", [weighed.table, *tables], plots, weighed.facts)


def _written(frame: DataFrame, place: Path) -> DataFrame:
    """What is made of it reads it there, and does not compute it again."""
    frame.write.mode("overwrite").parquet(str(place))
    return frame.sparkSession.read.schema(frame.schema).parquet(str(place))


def _queues(rows: Sequence[dict[str, Any]], shares: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a queue, the busiest first."""
    by_queue: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_queue[_name(row)].append(row)
    found = [
        {
            "queue": name,
            "enqueued": sum(each["enqueued"] for each in of),
            "settled": sum(each["settled"] for each in of),
            "depth": of[-1]["depth"],
            "worst_delay_p99_ms": max((each["delay_p99_ms"] or 0 for each in of), default=0),
            "worst_service_p99_ms": max((each["service_p99_ms"] or 0 for each in of), default=0),
            "weight": round(shares[name]["weight"], 4) if name in shares else None,
        }
        for name, of in by_queue.items()
    ]
    return sorted(found, key=lambda row: (-int(row["enqueued"] or 0), str(row["queue"])))


def _epochs(journal: DataFrame) -> list[tuple[int, datetime]]:
    """Each but the first that the journal has, and the time of its first row."""
    found = journal.groupBy("epoch").agg(F.min("time").alias("began")).orderBy("epoch").collect()
    return [(row["epoch"], row["began"]) for row in found[1:]]


def _plots(
    rows: Sequence[dict[str, Any]], queues: Sequence[dict[str, Any]], epochs: Sequence[tuple[int, datetime]]
) -> list[Plot]:
    """Of all queues that can be distinguished: rate and depth; of the busiest: delays and service times."""
    if not rows:
        return []
    began = min(row["window_start"] for row in rows)
    marks = [Mark((at - began).total_seconds(), f"epoch {epoch}") for epoch, at in epochs]
    began_ms = round(began.replace(tzinfo=UTC).timestamp() * 1000)
    drawn = [row["queue"] for row in queues[: len(KINDS)]]

    def line(queue: str, name: str) -> list[tuple[float, float]]:
        return [
            ((row["window_start"] - began).total_seconds(), float(row[name]))
            for row in rows
            if _name(row) == queue and row[name] is not None
        ]

    def plot(title: str, unit: str, lines: dict[str, list[tuple[float, float]]]) -> Plot:
        return Plot(title, unit, lines, marks, began_ms)

    busiest = drawn[0]
    return [
        plot("messages a second that entered", "/s", {queue: line(queue, "enqueued_per_s") for queue in drawn}),
        plot(f"{busiest}: from entering to leaving", "ms", {p: line(busiest, f"delay_{p}_ms") for p in PERCENTILES}),
        plot(
            f"{busiest}: from lease to acknowledgement",
            "ms",
            {p: line(busiest, f"service_{p}_ms") for p in PERCENTILES},
        ),
        plot("messages in the queue, at the end of a window", "", {queue: line(queue, "depth") for queue in drawn}),
    ]


def _as_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As JSON and people have times."""
    return [
        {
            **row,
            "window_start": f"{row['window_start']:%Y-%m-%dT%H:%M:%S}Z",
            "window_end": f"{row['window_end']:%Y-%m-%dT%H:%M:%S}Z",
        }
        for row in rows
    ]


def _name(row: dict[str, Any]) -> str:
    return row["queue"] or f"#{row['queue_id']}"

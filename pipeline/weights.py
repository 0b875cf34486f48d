"""Decides from the statistics which share of the messages each queue of a group should get. DataFrame in and out.

weight = rate / (mean service time * (1 + growth of the backlog)), normalised to 1 over the group. Rate is messages that
left a second; growth is how much more entered than left, as a share of what left, and at least 0. It only advises: who
routes clamps each step and falls back to its own counters when the weights are no longer valid.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.schema import Column as Named
from pipeline.schema import Table

WEIGHTS: Table = (
    Named("queue", "STRING"),
    Named("weight", "DOUBLE"),
    Named("rate_per_s", "DOUBLE"),
    Named("service_mean_ms", "DOUBLE"),
    Named("growth", "DOUBLE"),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SERVICE_MS_MIN = 1.0
"""Times of the journal are whole milliseconds: a faster service looks like this one."""


def weights(stats: DataFrame, last_windows: int = 5) -> DataFrame:
    """Rows of WEIGHTS for the queues of `stats` (pipeline.stats.STATS), over the last windows that any of them has.

    A queue that nothing left gets 0; where nothing left any of them, all get the same. Queues without a name are left
    out. Raises ValueError unless last_windows is at least 1.
    """
    if last_windows < 1:
        raise ValueError(f"last_windows is {last_windows}, and must be at least 1")
    named = stats.where(F.col("queue").isNotNull())
    recent = _recent(named, last_windows)
    length_s = F.unix_timestamp("window_end") - F.unix_timestamp("window_start")
    spans = recent.join(named.select("window_start", length_s.alias("length_s")).distinct(), "window_start")
    total = spans.agg(F.sum("length_s").alias("seconds"))
    served = F.sum(F.col("service_mean_ms") * F.col("consumed")) / F.sum(
        F.when(F.col("service_mean_ms").isNotNull(), F.col("consumed"))
    )
    queues = named.select("queue").distinct()
    by_queue = (
        named.join(F.broadcast(recent), "window_start", "left_semi")
        .groupBy("queue")
        .agg(F.sum("enqueued").alias("enqueued"), F.sum("settled").alias("settled"), served.alias("service_mean_ms"))
    )
    facts = queues.join(by_queue, "queue", "left").crossJoin(F.broadcast(total)).fillna({"enqueued": 0, "settled": 0})
    rated = facts.select(
        "queue",
        (F.col("settled") / F.col("seconds")).alias("rate_per_s"),
        "service_mean_ms",
        F.greatest(F.lit(0.0), (F.col("enqueued") - F.col("settled")) / F.greatest(F.col("settled"), F.lit(1))).alias(
            "growth"
        ),
    )
    service_ms = F.greatest(F.coalesce("service_mean_ms", F.lit(SERVICE_MS_MIN)), F.lit(SERVICE_MS_MIN))
    raw = rated.withColumn("raw", F.col("rate_per_s") / (service_ms / 1000 * (F.lit(1.0) + F.col("growth"))))
    group = raw.agg(F.sum("raw").alias("all_raw"), F.count(F.lit(1)).alias("size"))
    share = F.when(F.col("all_raw") > 0, F.col("raw") / F.col("all_raw")).otherwise(F.lit(1.0) / F.col("size"))
    weighed = raw.crossJoin(F.broadcast(group)).withColumn("weight", share)
    return weighed.select(*(F.col(column.name).cast(column.kind) for column in WEIGHTS))


def span(stats: DataFrame, last_windows: int = 5) -> tuple[datetime, datetime] | None:
    """From the first of the last windows to the end of the last one: what `weights` looks at. None: there is none."""
    named = stats.where(F.col("queue").isNotNull())
    last = named.join(F.broadcast(_recent(named, last_windows)), "window_start", "left_semi")
    ends = F.min(F.unix_micros("window_start")).alias("first"), F.max(F.unix_micros("window_end")).alias("last")
    row = last.agg(*ends).first()
    if row is None or row["first"] is None:
        return None
    return EPOCH + timedelta(microseconds=row["first"]), EPOCH + timedelta(microseconds=row["last"])


def _recent(named: DataFrame, last_windows: int) -> DataFrame:
    newest = Window.orderBy(F.col("window_start").desc())
    starts = named.select("window_start").distinct().withColumn("at", F.row_number().over(newest))
    return starts.where(F.col("at") <= last_windows).drop("at")

"""Counts what happened on each queue in windows of event time: messages in and out, service times, delays, depth.

A function from the whole journal to a table, and no stream: a message may leave days after it entered, and its service
time is between two records, so that no window follows from what a micro-batch brought. Spark's own stream-stream
windows would keep all that as state, and the last of them never close.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from chaos.journals import CONSUMED
from pipeline.audit_rows import ended, entered
from pipeline.schema import Column as Named
from pipeline.schema import Table

STATS: Table = (
    Named("window_start", "TIMESTAMP"),
    Named("window_end", "TIMESTAMP"),
    Named("queue_id", "BIGINT"),
    Named("queue", "STRING"),
    Named("enqueued", "BIGINT"),
    Named("settled", "BIGINT"),
    Named("consumed", "BIGINT"),
    Named("enqueued_per_s", "DOUBLE"),
    Named("settled_per_s", "DOUBLE"),
    Named("service_mean_ms", "DOUBLE"),
    Named("service_p50_ms", "BIGINT"),
    Named("service_p95_ms", "BIGINT"),
    Named("service_p99_ms", "BIGINT"),
    Named("delay_p50_ms", "BIGINT"),
    Named("delay_p95_ms", "BIGINT"),
    Named("delay_p99_ms", "BIGINT"),
    Named("depth", "BIGINT"),
)
"""A row a queue and window in which something happened.

settled: messages that left the queue, in whatever way; consumed: those of them that a consumer took or acknowledged.
service: from the lease to the acknowledgement under it; null where none was. delay: from entering to leaving.
depth: messages at the end of the window; those that entered before the journal begins are not known and not counted.
"""
SHARES = (0.5, 0.95, 0.99)
PLACE = ["queue_id", "index"]
WINDOW_S_MAX = 86_400


def one_history(journal: DataFrame) -> DataFrame:
    """The rows of both members, each once: of the one that reaches farthest, and what only the other keeps."""
    reach = journal.groupBy("member").agg(F.min("log_index").alias("first"), F.max("log_index").alias("last")).collect()
    if not reach:
        return journal
    best = max(reach, key=lambda row: (row["last"], -row["first"], row["member"]))
    outside = ~F.col("log_index").between(best["first"], best["last"])
    return journal.where((F.col("member") == best["member"]) | outside)


def windows(journal: DataFrame, window_s: int = 60) -> DataFrame:
    """Rows of STATS. The journal is that of one member, or `one_history` of both.

    Raises ValueError for a window that is not from 1 s to a day.
    """
    if not 1 <= window_s <= WINDOW_S_MAX:
        raise ValueError(f"window_s is {window_s}, and may be from 1 to {WINDOW_S_MAX}")
    messages = _messages(journal)
    came = messages.select("queue_id", F.col("came").alias("at"), F.lit(1).alias("enqueued"))
    gone = messages.where(F.col("went").isNotNull()).select(
        "queue_id",
        F.col("went").alias("at"),
        F.lit(1).alias("settled"),
        F.col("consumed").cast("int").alias("consumed"),
        F.col("service_ms"),
        (F.unix_millis("went") - F.unix_millis("came")).alias("delay_ms"),
    )
    purged = journal.where(F.col("kind") == "PURGED").select(
        "queue_id", F.col("time").alias("at"), F.col("count").alias("settled")
    )
    events = came.unionByName(gone, allowMissingColumns=True).unionByName(purged, allowMissingColumns=True)
    counted = events.groupBy("queue_id", F.window("at", f"{window_s} seconds").alias("w")).agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("enqueued", "settled", "consumed")),
        F.mean("service_ms").alias("service_mean_ms"),
        F.percentile_approx("service_ms", list(SHARES)).alias("service"),
        F.percentile_approx("delay_ms", list(SHARES)).alias("delay"),
    )
    running = Window.partitionBy("queue_id").orderBy("window_start").rowsBetween(Window.unboundedPreceding, 0)
    flat = counted.select(
        F.col("w.start").alias("window_start"),
        F.col("w.end").alias("window_end"),
        *("queue_id", "enqueued", "settled", "consumed", "service_mean_ms"),
        (F.col("enqueued") / window_s).alias("enqueued_per_s"),
        (F.col("settled") / window_s).alias("settled_per_s"),
        *(_share(name, at) for name in ("service", "delay") for at in range(len(SHARES))),
    ).withColumn("depth", F.sum(F.col("enqueued") - F.col("settled")).over(running))
    names = journal.where(F.col("queue").isNotNull()).groupBy("queue_id").agg(F.max("queue").alias("queue"))
    named = flat.join(F.broadcast(names), "queue_id", "left")
    return named.select(*(F.col(column.name).cast(column.kind) for column in STATS))


def _share(name: str, at: int) -> Column:
    return F.col(name)[at].alias(f"{name}_p{round(100 * SHARES[at])}_ms")


def _messages(journal: DataFrame) -> DataFrame:
    """queue_id, index, came, went, consumed, service_ms: a row a message that entered while the journal was kept.

    A rejected message that is moved to the dead-letter queue later has left when it was rejected.
    """
    leases = journal.where(F.col("kind") == "LEASED").groupBy("lease_id").agg(F.min("time").alias("leased"))
    came = entered(journal).select(*PLACE, F.col("time").alias("came"))
    rows = journal.join(leases, "lease_id", "left")
    served = F.when(F.col("kind").isin("ACKED", "REPLIED"), F.unix_millis("time") - F.unix_millis("leased"))
    went = ended(rows).select(
        *PLACE,
        F.col("time").alias("went"),
        F.col("kind").isin(*CONSUMED).alias("consumed"),
        served.alias("service_ms"),
    )
    both = came.unionByName(went, allowMissingColumns=True).groupBy(*PLACE)
    known = both.agg(
        F.min("came").alias("came"),
        F.min("went").alias("went"),
        F.coalesce(F.bool_or("consumed"), F.lit(False)).alias("consumed"),
        F.min("service_ms").alias("service_ms"),
    )
    return known.where(F.col("came").isNotNull())

"""Looks at the order of messages: indexes without a gap, tails that are there, and the order of real time."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from chaos.journals import GAP, REAL_TIME_ORDER, TAIL_CUT
from pipeline.audit_rows import BUCKET_BITS, bucket, entered, violations_of

OF_QUEUE = ["member", "queue_id"]


def index_buckets(journal: DataFrame) -> DataFrame:
    """member, queue_id, bucket of indexes: low and high, how many there are, and their sums, which dense ones have.

    A sum of squares beside the sum: rows that are doubled may hide rows that are missing from one of them.
    """
    place = F.col("index") - F.shiftleft(bucket("index"), BUCKET_BITS)
    return (
        entered(journal)
        .groupBy(*OF_QUEUE, bucket("index").alias("bucket"))
        .agg(
            F.min("index").alias("low"),
            F.max("index").alias("high"),
            F.count(F.lit(1)).alias("rows"),
            F.sum(place).alias("places"),
            F.sum(place * place).alias("squares"),
        )
    )


def indexes_are_dense(
    journal: DataFrame, buckets: DataFrame, created: DataFrame, whole_members: list[str]
) -> DataFrame:
    """Violations: every longest run of indexes that is missing, per member and queue, below the last that is there.

    `created` has the members and queues whose creation is in the journal: their first index is 1, as it is for every
    queue of `whole_members`, whose journals were never trimmed.
    """
    between = _between_buckets(buckets, created, whole_members)
    low, high = (F.col(name) - F.shiftleft("bucket", BUCKET_BITS) for name in ("low", "high"))
    dense = (
        (F.col("rows") == high - low + 1)
        & (F.col("places") * 2 == (high * (high + 1) - (low - 1) * low))
        & (F.col("squares") * 6 == high * (high + 1) * (2 * high + 1) - (low - 1) * low * (2 * low - 1))
    )
    thin = buckets.where(~dense).select(*OF_QUEUE, "bucket")
    rows = entered(journal).select(*OF_QUEUE, "index").withColumn("bucket", bucket("index"))
    in_order = Window.partitionBy(*OF_QUEUE, "bucket").orderBy("index")
    within = (
        rows.join(F.broadcast(thin), [*OF_QUEUE, "bucket"], "left_semi")
        .withColumn("before", F.lag("index").over(in_order))
        .where(F.col("index") > F.col("before") + 1)
        .select(*OF_QUEUE, "before", F.col("index").alias("after"))
    )
    found = between.unionByName(within).select(
        *OF_QUEUE,
        (F.col("before") + 1).alias("index"),
        (F.col("after") - F.col("before") - 1).alias("count"),
        F.format_string("%s: %d and then %d", "member", "before", "after").alias("journals"),
    )
    return violations_of(found, GAP)


def _between_buckets(buckets: DataFrame, created: DataFrame, whole_members: list[str]) -> DataFrame:
    """member, queue_id, before, after: neighbours whose buckets do not touch; 0 is before the first of all."""
    of_queue = Window.partitionBy(*OF_QUEUE).orderBy("bucket")
    marked = buckets.join(F.broadcast(created.withColumn("made", F.lit(1))), OF_QUEUE, "left")
    whole = F.col("made").isNotNull() | F.col("member").isin(*whole_members)
    before = F.coalesce(F.lag("high").over(of_queue), F.when(whole, F.lit(0).cast("bigint")))
    found = marked.select(*OF_QUEUE, before.alias("before"), F.col("low").alias("after"))
    return found.where(F.col("after") > F.col("before") + 1)


def tails_are_there(buckets: DataFrame, heads: DataFrame) -> DataFrame:
    """Violations: per member and queue, the messages below what the member said is the next index."""
    last = buckets.groupBy(*OF_QUEUE).agg(F.max("high").alias("last"))
    said = heads.where(F.col("queue_id").isNotNull() & F.col("next_index").isNotNull())
    end = F.coalesce("last", F.coalesce("first_index", F.lit(1)) - 1)
    found = said.select(*OF_QUEUE, "queue", "first_index", "next_index").join(last, OF_QUEUE, "left")
    found = found.withColumn("end", end).where(F.col("end") + 1 < F.col("next_index"))
    says = F.format_string("%s: ends with %d, and its head said that %d is next", "member", "end", "next_index")
    return violations_of(
        found.select(
            *OF_QUEUE,
            "queue",
            (F.col("end") + 1).alias("index"),
            (F.col("next_index") - F.col("end") - 1).alias("count"),
            says.alias("journals"),
        ),
        TAIL_CUT,
    )


def order_is_real(sends: DataFrame) -> DataFrame:
    """Violations: sends that have a lower index than one that was acknowledged before they were asked for.

    `sends` are those that were answered with an index, placed.
    """
    line = F.coalesce(F.col("queue_id").cast("string"), F.concat(F.lit("name "), "queue"))
    columns = ("queue", "queue_id", "index", "id", "invoke_ns", "complete_ns")
    found = inverted(sends.select(*(F.col(f"`{name}`") for name in columns), line.alias("line")))
    says = F.format_string(
        "sent at %d ns, and a message with a higher index had been acknowledged at %d ns", "invoke_ns", "answered"
    )
    return violations_of(
        found.select(
            "queue",
            "queue_id",
            "index",
            F.lit(1).alias("count"),
            F.lower(F.hex("id")).alias("id"),
            says.alias("clients"),
        ),
        REAL_TIME_ORDER,
    )


def inverted(rows: DataFrame) -> DataFrame:
    """Rows that were asked for after one of the same line with a higher index was complete: `answered` says when.

    rows: line, index, invoke_ns, complete_ns. A line is sorted bucket by bucket, so that one with everything in it is
    not one task; what later buckets say is one number for each.
    """
    rows = rows.withColumn("bucket", bucket("index"))
    later = Window.partitionBy("line").orderBy(F.col("bucket").desc()).rowsBetween(Window.unboundedPreceding, -1)
    ends = (
        rows.groupBy("line", "bucket")
        .agg(F.min("complete_ns").alias("first_answer"))
        .select("line", "bucket", F.min("first_answer").over(later).alias("answered_later"))
    )
    higher = Window.partitionBy("line", "bucket").orderBy(F.col("index").desc())
    above = F.min("complete_ns").over(higher.rangeBetween(Window.unboundedPreceding, -1))
    return (
        rows.withColumn("answered_here", above)
        .join(F.broadcast(ends), ["line", "bucket"])
        .withColumn("answered", F.least("answered_here", "answered_later"))
        .where(F.col("answered") < F.col("invoke_ns"))
    )

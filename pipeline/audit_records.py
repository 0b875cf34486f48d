"""Looks at records of each member by themselves: whether they are there, their time, and the ids of what they store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from chaos.journal_lives import UNLEASED, Reaches
from chaos.journal_records import missing
from chaos.journals import (
    AFTER_DELETION,
    ID_OF_OTHER,
    KIND_UNKNOWN,
    LEASE_BITS,
    LEASE_ENDED,
    LEASE_UNKNOWN,
    LEASES,
    QUEUE_DELETED,
    ROW_KINDS,
    TIME_BACKWARDS,
    Span,
    Violation,
)
from pipeline.audit_lives import lease_verdict
from pipeline.audit_rows import BUCKET_BITS, bucket, entered, id_of_record, violations_of


def no_record_is_missing(journal: DataFrame, digests: DataFrame, every: Mapping[str, Span]) -> list[Violation]:
    """Runs of records that have no row, of those that each must have one, by member. digests: of `audit_copies`.

    A bucket of one epoch of which every record has a row is not looked at. A run over the border of two is one.
    """
    if not every:
        return []
    full = digests.where(F.col("records") == 1 << BUCKET_BITS).select("member", "bucket").distinct()
    spark = journal.sparkSession
    wanted = [
        spark.range(span.first >> BUCKET_BITS, ((span.next - 1) >> BUCKET_BITS) + 1).select(
            F.lit(member).alias("member"),
            F.col("id").alias("bucket"),
            F.lit(span.first).alias("first"),
            F.lit(span.next).alias("next"),
        )
        for member, span in every.items()
    ]
    thin = reduce(DataFrame.unionByName, wanted).join(full, ["member", "bucket"], "left_anti")
    low = F.greatest("first", F.shiftleft("bucket", BUCKET_BITS))
    high = F.least(F.col("next"), F.shiftleft(F.col("bucket") + 1, BUCKET_BITS)) - 1
    should = thin.select("member", F.explode(F.sequence(low, high)).alias("log_index"))
    rows = journal.select("member", "log_index").withColumn("bucket", bucket("log_index"))
    there = rows.join(F.broadcast(thin), ["member", "bucket"], "left_semi").select("member", "log_index").distinct()
    in_order = Window.partitionBy("member").orderBy("log_index")
    gone = should.join(there, ["member", "log_index"], "left_anti")
    runs = gone.withColumn("run", F.col("log_index") - F.row_number().over(in_order)).groupBy("member", "run")
    found = runs.agg(F.min("log_index").alias("log_index"), F.count(F.lit(1)).alias("count")).collect()
    return [missing(row["member"], row["log_index"], row["count"], every[row["member"]].first) for row in found]


def ids_name_their_records(journal: DataFrame) -> DataFrame:
    """Violations: messages whose id, and leases whose number, name another record than the one that has them."""
    wrong = entered(journal).where(F.substring("id", 5, 10) != id_of_record("epoch", "log_index"))
    name = F.lower(F.hex("id"))
    says = F.format_string("%s: id %s at %d/%d", "member", name, "log_index", "epoch")
    rows = wrong.select(
        "member",
        "queue_id",
        "index",
        "log_index",
        F.lit(1).alias("count"),
        name.alias("id"),
        says.alias("journals"),
    )
    lease = F.coalesce("lease_id", F.lit(0).cast("bigint"))
    epoch, log = F.shiftright(lease, LEASE_BITS), lease.bitwiseAND((1 << LEASE_BITS) - 1)
    leases = journal.where(F.col("kind").isin(*LEASES) & ((epoch != F.col("epoch")) | (log != F.col("log_index"))))
    text = F.format_string("%s: lease %d, of record %d/%d, at %d/%d", "member", lease, log, epoch, "log_index", "epoch")
    of_leases = leases.select("member", "queue_id", "index", "log_index", "count", text.alias("journals"))
    return violations_of(rows, ID_OF_OTHER).unionByName(violations_of(of_leases, ID_OF_OTHER))


def rows_are_of_what_is_there(journal: DataFrame) -> DataFrame:
    """Violations: rows of a kind that no journal has, and rows about a queue that an earlier record deleted."""
    deleted = journal.where(F.col("kind") == QUEUE_DELETED).groupBy("member", "queue_id")
    ends = deleted.agg(F.min("log_index").alias("deleted")).where(F.col("queue_id") > 0)
    late = journal.join(F.broadcast(ends), ["member", "queue_id"]).where(F.col("log_index") > F.col("deleted"))
    at = F.format_string("%s: %s at %d/%d", "member", "kind", "log_index", "epoch")
    unknown = journal.where(~F.col("kind").isin(*sorted(ROW_KINDS))).withColumn("says", at)
    after = late.withColumn("says", F.format_string("%s, deleted by record %d", at, "deleted"))
    return _of_records(unknown, KIND_UNKNOWN).unionByName(_of_records(after, AFTER_DELETION))


def _of_records(rows: DataFrame, kind: str) -> DataFrame:
    """One violation for the rows of a kind of one record. rows: of the journal, with `says`."""
    queue_id = F.max(F.when(F.col("queue_id") > 0, F.col("queue_id"))).alias("queue_id")
    each = rows.groupBy("member", "log_index", F.col("kind").alias("row_kind"))
    found = each.agg(queue_id, F.count(F.lit(1)).alias("count"), F.max("says").alias("journals"))
    return violations_of(found.drop("row_kind"), kind)


def leases_that_end_were_given(
    judged: DataFrame, spans: Mapping[str, Span], reaches: Reaches, *, differ: bool
) -> DataFrame:
    """Violations: a LEASE_ENDED whose lease no row of its history gives, although its record is one that is judged.

    judged: the journal with `side`. Few leases end by themselves, so these are looked for among those that were given.
    """
    ended = judged.where(F.col("kind") == LEASE_ENDED).select("side", "lease_id", "log_index", "epoch")
    wanted = F.broadcast(ended.select("side", "lease_id").distinct())
    leases = judged.where(F.col("kind").isin(*LEASES)).select("side", "lease_id")
    given = leases.join(wanted, ["side", "lease_id"], "left_semi").distinct()
    gone = ended.join(given, ["side", "lease_id"], "left_anti")
    verdict = lease_verdict(spans, reaches, differ=differ)
    lease = F.col("lease_id")
    epoch, log = F.shiftright(lease, LEASE_BITS), lease.bitwiseAND((1 << LEASE_BITS) - 1)
    says = F.format_string("lease %d, of record %d/%d, ended at %d/%d", lease, log, epoch, "log_index", "epoch")
    found = gone.where(verdict == UNLEASED).select(
        "log_index", lease.cast("string").alias("id"), says.alias("journals")
    )
    return violations_of(found.distinct(), LEASE_UNKNOWN)


def time_never_falls(journal: DataFrame) -> DataFrame:
    """Violations: records that are older than the one before them, of those that have rows.

    Buckets first: records of one time are one row there, so that a bucket is sorted by far fewer than its records. Only
    buckets in which, or before which, time falls are looked at record by record.
    """
    time = F.unix_micros("time")
    at = F.col("log_index")
    instants = journal.groupBy("member", bucket("log_index").alias("bucket"), time.alias("time")).agg(
        F.min(at).alias("low"), F.max(at).alias("high")
    )
    inside = Window.partitionBy("member", "bucket").orderBy("time").rowsBetween(Window.unboundedPreceding, -1)
    buckets = (
        instants.withColumn("before", F.max("high").over(inside))
        .groupBy("member", "bucket")
        .agg(
            F.bool_or(F.col("before") >= F.col("low")).alias("falls"),
            F.min("time").alias("first"),
            F.max("time").alias("last"),
        )
    )
    in_order = Window.partitionBy("member").orderBy("bucket")
    since = F.coalesce(F.lag("last").over(in_order) > F.col("first"), F.lit(False))
    looked = buckets.select(
        "member",
        "bucket",
        (F.coalesce("falls", F.lit(False)) | since).alias("judged"),
        F.lag("bucket").over(in_order).alias("previous"),
    ).where("judged")
    # The bucket before holds the record that the first one is held against.
    beside = looked.where(F.col("previous").isNotNull()).select("member", F.col("previous").alias("bucket"))
    both = looked.select("member", "bucket", "judged").unionByName(beside.withColumn("judged", F.lit(False)))
    wanted = both.groupBy("member", "bucket").agg(F.bool_or("judged").alias("judged"))
    records = (
        journal.select("member", "log_index", bucket("log_index").alias("bucket"), time.alias("time"))
        .join(F.broadcast(wanted), ["member", "bucket"])
        .groupBy("member", "log_index", "judged")
        .agg(F.min("time").alias("low"), F.max("time").alias("high"))
    )
    before = Window.partitionBy("member").orderBy("log_index")
    fallen = records.select(
        "member",
        "log_index",
        "judged",
        "low",
        F.lag("high").over(before).alias("high"),
        F.lag("log_index").over(before).alias("before"),
    ).where("judged and low < high")
    says = F.format_string(
        "%s: record %d is %d us older than record %d", "member", "log_index", F.col("high") - F.col("low"), "before"
    )
    return violations_of(fallen.select("member", "log_index", says.alias("journals")), TIME_BACKWARDS)

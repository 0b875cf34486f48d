"""Looks closely at the lives of messages that the counters of `audit_messages` cannot clear: leases and settlements."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from chaos.journal_lives import TRIMMED, UNLEASED, UNSTORED, Reaches, first_of_side, reach_of_side
from chaos.journals import (
    ENDED,
    LEASE_BITS,
    LEASED_TWICE,
    LEASES,
    NEVER_ENTERED,
    REJECTED,
    RELEASED,
    SETTLED_UNLEASED,
    SETTLES,
    Span,
)
from pipeline.audit_messages import PLACE, Kept, is_kept
from pipeline.audit_rows import lease_log, touched, violations_of

MESSAGE = ["side", *PLACE]


def never_entered(found: DataFrame, kept: Kept) -> DataFrame:
    """Violations: runs of indexes that were leased or settled, and that no record stored."""
    places = is_kept(found.where("never_entered").select(*PLACE), kept)
    in_order = Window.partitionBy("queue_id").orderBy("index")
    runs = places.withColumn("run", F.col("index") - F.row_number().over(in_order)).groupBy("queue_id", "run")
    return violations_of(runs.agg(F.min("index").alias("index"), F.count(F.lit(1)).alias("count")), NEVER_ENTERED)


def looked_at(found: DataFrame, judged: DataFrame) -> DataFrame:
    """Leases, settlements and ends of the messages that are looked at closely."""
    places = found.where("look_closer").select(*PLACE)
    first = F.col("index").alias("row_index")
    rows = judged.withColumn("row_index", first)
    return touched(rows).join(F.broadcast(places), PLACE, "left_semi")


def leased_twice(rows: DataFrame, judged: DataFrame) -> DataFrame:
    """Violations: messages that were leased again while the lease before neither ended nor let them go.

    rows: of `looked_at`.
    """
    kind, log = F.col("kind"), F.col("log_index")
    leases = rows.where(kind.isin(*LEASES)).select(*MESSAGE, "lease_id").distinct()
    at = lease_log("lease_id")
    in_order = Window.partitionBy(*MESSAGE).orderBy(at, "lease_id")
    earlier = (F.lag("lease_id").over(in_order).alias("before"), F.lag(at).over(in_order).alias("low"))
    pairs = leases.select(*MESSAGE, *earlier, at.alias("high")).where(F.col("before").isNotNull())
    free = rows.where(kind.isin(*ENDED, REJECTED, RELEASED)).select(*MESSAGE, log.alias("freed"))
    ends = judged.where(kind == "LEASE_ENDED").groupBy("side", F.col("lease_id").alias("before"))
    held = pairs.join(ends.agg(F.min("log_index").alias("over")), ["side", "before"], "left").where(
        ~F.coalesce(F.col("over") < F.col("high"), F.lit(False))
    )
    freed = held.join(free, MESSAGE).where((F.col("freed") > F.col("low")) & (F.col("freed") < F.col("high")))
    left = held.join(freed.select(*MESSAGE, "before").distinct(), [*MESSAGE, "before"], "left_anti")
    return violations_of(left.select(*PLACE, F.lit(1).alias("count")).distinct(), LEASED_TWICE)


def unexplained(rows: DataFrame, spans: Mapping[str, Span], reaches: Reaches, *, differ: bool) -> DataFrame:
    """Settlements whose lease no row of their history gives: MESSAGE, the row's columns, and `verdict`.

    rows: of `looked_at`.
    """
    kind = F.col("kind")
    key = [*MESSAGE, "lease_id"]
    leases = rows.where(kind.isin(*LEASES)).select(*key).distinct()
    settles = rows.where(kind.isin(*SETTLES) & (F.col("lease_id") != 0)).join(leases, key, "left_anti")
    return settles.withColumn("verdict", lease_verdict(spans, reaches, differ=differ))


def lease_verdict(spans: Mapping[str, Span], reaches: Reaches, *, differ: bool) -> Column:
    """Of a row whose lease no row of its history gives: `journal_lives.verdict_of`, by `side`."""
    verdicts = [_verdict(side, spans, reaches, differ=differ) for side in range(2 if differ else 1)]
    return verdicts[0] if not differ else F.when(F.col("side") == 0, verdicts[0]).otherwise(verdicts[1])


def _verdict(side: int, spans: Mapping[str, Span], reaches: Reaches, *, differ: bool) -> Column:
    """As `journal_lives.verdict_of` has it."""
    epoch, log = F.shiftright("lease_id", LEASE_BITS), lease_log("lease_id")
    reach = reach_of_side(side, spans, reaches, differ=differ)
    known = reduce(Column.__or__, ((epoch == each) & (log <= last) for each, (_, last) in reach.items()), F.lit(False))
    later = (epoch > F.col("epoch")) | ((epoch == F.col("epoch")) & (log >= F.col("log_index")))
    first = first_of_side(side, spans, differ=differ)
    return F.when(later, UNLEASED).when(log < first, TRIMMED).when(known, UNLEASED).otherwise(UNSTORED)


def unleased(found: DataFrame) -> DataFrame:
    """Violations: a row of settlements each, with the number of its messages. found: of `unexplained`."""
    lease = F.col("lease_id")
    says = F.format_string(
        "%s under lease %d, of record %d/%d, which leased none of them",
        "kind",
        lease,
        lease_log("lease_id"),
        F.shiftright("lease_id", LEASE_BITS),
    )
    rows = found.where(F.col("verdict") == UNLEASED).groupBy("queue_id", "log_index", "kind", "lease_id", "row_index")
    per_row = rows.agg(
        F.min("index").alias("index"), F.count_distinct("index").alias("count"), F.max(says).alias("journals")
    )
    return violations_of(per_row.drop("kind"), SETTLED_UNLEASED)


def counted(found: DataFrame) -> dict[str, int]:
    """Settlements of messages, by verdict. found: of `unexplained`."""
    rows = found.select("verdict", "log_index", "kind", "lease_id", "row_index", "queue_id", "index")
    return {row["verdict"]: row["count"] for row in rows.distinct().groupBy("verdict").count().collect()}

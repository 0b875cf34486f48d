"""The same as `chaos.journal_sides`, on Spark: DataFrame in, DataFrame out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from chaos.journal_sides import GIVEN, PASSED, SELECTED
from chaos.journals import LEASES


def aside(journal: DataFrame, asked: DataFrame) -> tuple[DataFrame, int]:
    """What is judged, and how many rows of the history are not."""
    given = asked.where(F.col("op").isin(*GIVEN))
    if not given.limit(1).count():
        return asked, 0
    kind = F.col("kind")
    shown = journal.groupBy("queue_id").agg(
        F.max(kind == SELECTED).alias("selected"),
        F.max((kind == PASSED) & (F.coalesce("lease_id", F.lit(0)) == 0)).alias("passed"),
        F.max(kind.isin(*sorted(LEASES))).alias("leased"),
        F.collect_set("queue").alias("names"),
    )
    sided = shown.where(F.col("selected") | (F.col("passed") & ~F.col("leased")))
    names = [row[0] for row in sided.select(F.explode("names")).distinct().collect()]
    if not names:
        return asked, 0
    is_aside = F.col("op").isin(*GIVEN) & F.col("queue").isin(*names)
    return asked.where(~is_aside), given.where(F.col("queue").isin(*names)).count()

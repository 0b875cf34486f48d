"""Reads the pipeline's tables into Spark, each with the schema that is known, and refuses what has another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.lake import Lake
from pipeline.problems import BAD_LAKE, HISTORY_SCHEMA, PipelineError
from pipeline.schema import ATTRIBUTES, HEADS, HISTORY, HISTORY_LATER, LAKE, OPS, OUTCOMES, ddl, names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def journal_of(spark: SparkSession, lake: Lake) -> DataFrame:
    """Every stretch that counts, in schema.LAKE; columns that an older version has not written are null.

    Raises PipelineError with reason BAD_LAKE when there is none.
    """
    paths = lake.paths()
    if not paths:
        raise nothing_in(lake)
    return spark.read.schema(ddl(LAKE)).option("basePath", str(lake.journal)).parquet(*paths)


def compared_of(spark: SparkSession, lake: Lake) -> DataFrame:
    """The same for who compares the members: attributes are null where one of them may lack them."""
    journal, since = journal_of(spark, lake), lake.attributes_from()
    if not since:
        return journal
    from pyspark.sql import functions as fn

    kept = {name: fn.when(fn.col("log_index") >= since, fn.col(name)) for name in names(ATTRIBUTES)}
    return journal.withColumns(kept)


def not_compared(lake: Lake) -> list[str]:
    """What an audit says of it."""
    since = lake.attributes_from()
    kept = f"What stood beside bodies was not compared before log index {since}: an older version kept the lake."
    return [kept] if since else []


def nothing_in(lake: Lake) -> PipelineError:
    """No run has put anything there."""
    return PipelineError(BAD_LAKE, f"there is nothing in {lake.journal}: run `tandemq pipeline ingest` first")


def heads_of(spark: SparkSession, lake: Lake) -> DataFrame:
    """Where the members said that they stood, in schema.HEADS."""
    return spark.createDataFrame([tuple(row[name] for name in names(HEADS)) for row in lake.heads()], ddl(HEADS))


def history_of(spark: SparkSession, path: str) -> DataFrame:
    """What clients kept, in schema.HISTORY. Raises PipelineError with reason HISTORY_SCHEMA."""
    if not Path(path).exists():
        raise PipelineError(HISTORY_SCHEMA, f"there is no client history at {path}")
    found = spark.read.parquet(path)
    there = {field.name: field.dataType.simpleString() for field in found.schema.fields}
    if (problem := history_problem(path, there)) is not None:
        raise problem
    if (problem := values_problem(path, _wrong_values(found))) is not None:
        raise problem
    nulls = {column.name: f"CAST(NULL AS {column.kind}) AS {column.name}" for column in HISTORY}
    return found.selectExpr(*(f"`{name}`" if name in there else nulls[name] for name in names(HISTORY)))


def history_problem(path: str, there: Mapping[str, str]) -> PipelineError | None:
    """Why a client history cannot be read, whose columns have these types; None: it can."""
    wrong = [
        f"{column.name} is {there.get(column.name, 'missing')}, not {column.kind.lower()}"
        for column in HISTORY
        if there.get(column.name) != column.kind.lower()
        and not (column.name in HISTORY_LATER and column.name not in there)
    ]
    return PipelineError(HISTORY_SCHEMA, f"{path}: {'; '.join(wrong)}") if wrong else None


WRONG = {
    "op": f"none of {', '.join(OPS)}",
    "outcome": f"none of {', '.join(OUTCOMES)}",
    "invoke_ns": "null",
    "queue": "null",
}
"""What no row of a client history has: nobody could say what it means, and it would be left out in silence."""


def values_problem(path: str, wrong: Mapping[str, int]) -> PipelineError | None:
    """Why the rows of a client history cannot be judged, of which so many are WRONG, by column; None: they can."""
    kept = [f"{name} is {WRONG[name]} in {count:,} rows" for name, count in wrong.items() if count]
    return PipelineError(HISTORY_SCHEMA, f"{path}: {'; '.join(kept)}") if kept else None


def _wrong_values(found: DataFrame) -> dict[str, int]:
    from pyspark.sql import functions as fn

    right = {name: fn.col(name).isNotNull() for name in WRONG}
    right |= {"op": fn.col("op").isin(*OPS), "outcome": fn.col("outcome").isin(*OUTCOMES)}
    counts = [fn.count_if(~fn.coalesce(good, fn.lit(False))).alias(name) for name, good in right.items()]
    return {name: int(count) for name, count in found.agg(*counts).collect()[0].asDict().items()}

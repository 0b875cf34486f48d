"""Reads the pipeline's tables into Spark, each with the schema that is known, and refuses what has another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.lake import Lake
from pipeline.problems import BAD_LAKE, HISTORY_SCHEMA, PipelineError
from pipeline.schema import HEADS, HISTORY, HISTORY_LATER, LAKE, ddl, names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def journal_of(spark: SparkSession, lake: Lake) -> DataFrame:
    """Every stretch that counts, in schema.LAKE. Raises PipelineError with reason BAD_LAKE when there is none."""
    paths = lake.paths()
    if not paths:
        raise PipelineError(BAD_LAKE, f"there is nothing in {lake.journal}: run `tandemq pipeline ingest` first")
    return spark.read.schema(ddl(LAKE)).option("basePath", str(lake.journal)).parquet(*paths)


def heads_of(spark: SparkSession, lake: Lake) -> DataFrame:
    """Where the members said that they stood, in schema.HEADS."""
    return spark.createDataFrame([tuple(row[name] for name in names(HEADS)) for row in lake.heads()], ddl(HEADS))


def history_of(spark: SparkSession, path: str) -> DataFrame:
    """What clients kept, in schema.HISTORY. Raises PipelineError with reason HISTORY_SCHEMA."""
    from pyspark.sql.types import StructType

    if not Path(path).exists():
        raise PipelineError(HISTORY_SCHEMA, f"there is no client history at {path}")
    found = spark.read.parquet(path)
    wanted = {field.name: field.dataType.simpleString() for field in StructType.fromDDL(ddl(HISTORY)).fields}
    there = {field.name: field.dataType.simpleString() for field in found.schema.fields}
    wrong = [
        f"{name} is {there.get(name, 'missing')}, not {kind}"
        for name, kind in wanted.items()
        if there.get(name, kind if name in HISTORY_LATER else "missing") != kind
    ]
    if wrong:
        raise PipelineError(HISTORY_SCHEMA, f"{path}: {'; '.join(wrong)}")
    kept = [f"`{name}`" if name in there else f"CAST(NULL AS {wanted[name]}) AS {name}" for name in names(HISTORY)]
    return found.selectExpr(*kept)

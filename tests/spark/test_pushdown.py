"""Why format("tandemq") takes over no filters: Spark gives wrong answers when a source does. The day this fails, Spark
was mended, and tandemq/spark/source.py may think again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def test_spark_remembers_a_filter_that_a_source_took_over(spark: Any) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, LessThan

    class TenReader(DataSourceReader):
        def __init__(self) -> None:
            self.below = 10

        def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 - Spark's name
            for each in filters:
                if isinstance(each, LessThan) and each.attribute == ("a",):
                    self.below = min(self.below, each.value)
                else:
                    yield each

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return iter([(number,) for number in range(self.below)])

    class Ten(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ten"

        def schema(self) -> str:
            return "a INT"

        def reader(self, schema: Any) -> DataSourceReader:
            return TenReader()

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        spark.dataSource.register(Ten)
        frame = spark.read.format("ten").load()
        assert [frame.count(), frame.where("a < 3").count()] == [10, 3]
        assert frame.count() == 3, "Spark is mended: a frame keeps no filter of an earlier query any more"
        assert spark.read.format("ten").load().count() == 10
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_our_source_takes_over_no_filter(spark: Any) -> None:
    from pyspark.sql.datasource import DataSourceReader

    from tandemq.spark.source import JournalReader

    assert JournalReader.pushFilters is DataSourceReader.pushFilters

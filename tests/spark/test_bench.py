"""What `make bench-spark` makes: its journals are clean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="SPARK NOT TESTED: no pyspark (`make spark`)")


@pytest.mark.long
def test_the_journals_that_are_made_are_clean(spark: Any, tmp_path: Path) -> None:
    from bench.spark_read import made_journal
    from pipeline.audit import audit
    from pipeline.schema import HEADS, HISTORY, LAKE, ddl

    made_journal(spark, 6_000, tmp_path)
    journal = spark.read.schema(ddl(LAKE)).parquet(str(tmp_path / "journal"))
    history = spark.read.schema(ddl(HISTORY)).parquet(str(tmp_path / "history"))
    heads = spark.read.schema(ddl(HEADS)).parquet(str(tmp_path / "heads"))
    found = audit(journal, history, heads, {"a": 3_001, "b": 3_001}, {"a": 1, "b": 1})
    try:
        assert (found.clean, found.rows, found.asked) == (True, {"a": 3_000, "b": 3_000}, 2_000)
        assert [line for line in found.unjudged if not line.startswith("The client history")] == []
    finally:
        found.close()

"""What `make bench-spark` makes and judges: its journals are clean, its targets are held against what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="SPARK NOT TESTED: no pyspark (`make spark`)")


def test_each_target_is_held_against_what_was_measured() -> None:
    from bench.spark_read import judged

    found = judged(
        {
            "read_rows_per_s": [100_000, 310_000, 305_000],
            "stream_rows_per_s": [60_000, 69_000, 80_000],
            "member_cpu_us": {"whole": [1.5, 1.5, 2.0], "bounded": [1.6, 1.8, 1.7]},
            "master_cpu_us": {"alone": [5.0, 5.0, 9.0], "ingest": [5.3, 5.6, 5.4], "other": [4.8, 4.5, 4.6]},
            "audit": [
                {"rows": 1_000_000, "checks_s": 10.0, "all_s": 20.0, "checks_cpu_s": 20.0},
                {"rows": 5_000_000, "checks_s": 20.0, "all_s": 30.0, "checks_cpu_s": 40.0},
                {"rows": 19_999_998, "checks_s": 88.0, "all_s": 121.0, "checks_cpu_s": 160.0},
            ],
        }
    )
    assert {name: (line["value"], line["reached"]) for name, line in found.items()} == {
        "batch read, rows/s": (305_000, True),
        "stream, rows/s in steady batches": (69_000, False),
        "member CPU of a bounded stream, of a whole read": (1.133, True),
        "master CPU with ingest, share more": (0.08, True),
        "master CPU with ingest, share more than beside a query that asks it nothing": (0.174, False),
        "audit of 20 million rows, s": (121.0, False),
        "audit, growth beside linear": (1.1, False),
        "audit, growth of CPU": (1.0, False),
    }
    assert judged({"audit": [{"rows": 1_000, "checks_s": 1.0, "all_s": 2.0, "checks_cpu_s": 2.0}]}) == {}, (
        "no claim about another size"
    )


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
        assert (found.clean, found.rows, found.told) == (True, {"a": 3_000, "b": 3_000}, 2_000)
        assert [line for line in found.unjudged if not line.startswith("The client history")] == []
    finally:
        found.close()

"""Puts small stretches of the lake together. No row is changed; whoever reads by Lake.paths sees each row once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config import MIB
from pipeline.integrity import prove_stretches
from pipeline.lake import Lake, Stretch
from pipeline.problems import BAD_LAKE, PipelineError
from pipeline.schema import JOURNAL, ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEWEST = 8
"""Fewer are left alone: a run that adds one small stretch to a large one would write the large one again each time."""


def compact(spark: SparkSession, lake: Lake, member: str, limit_mib: int, fewest: int = FEWEST) -> int:
    """How many stretches became fewer. For who holds `lake.locked`. Raises PipelineError."""
    merged = 0
    for group in groups(lake.stretches(member), limit_mib * MIB, fewest):
        # Whoever writes damage anew makes it right: nothing would find it from then on.
        rows = sum(manifest.rows for manifest in prove_stretches(group))
        staged = lake.staging(f"compact-{member}")
        frame = spark.read.schema(ddl(JOURNAL)).parquet(*(str(stretch.path) for stretch in group))
        frame.coalesce(1).write.parquet(str(staged))
        written = _rows(staged)
        if written != rows:
            raise PipelineError(BAD_LAKE, f"{rows} rows of {group[0].path} and what follows became {written}")
        lake.replace(member, group, staged, rows=rows)
        merged += len(group)
    return merged


def groups(stretches: Sequence[Stretch], limit_bytes: int, fewest: int) -> list[list[Stretch]]:
    """Which follow each other and fit together; what is half as large already is left as it is."""
    found: list[list[Stretch]] = [[]]
    size = 0
    for stretch in stretches:
        own = stretch.bytes
        if own * 2 > limit_bytes:
            found.append([])
            size = 0
            continue
        if size + own > limit_bytes:
            found.append([])
            size = 0
        found[-1].append(stretch)
        size += own
    return [group for group in found if len(group) >= fewest]


def _rows(folder: Path) -> int:
    import pyarrow.parquet as pq  # which stretches go together can be decided without it

    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))

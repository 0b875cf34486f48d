"""What is done to a real lake behind its back is BAD_LAKE at its path, whichever job comes, and never SPARK_FAILED."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import tandemq
from chaos.cluster import Cluster
from pipeline.compacting import compact
from pipeline.integrity import prove
from pipeline.lake import Lake
from pipeline.problems import PipelineError
from tests.spark.conftest import more
from tests.spark.lakes import Piped
from tests.support.lakes import of_before

CRC_HEAD_BYTES = 8
"""Of a file of Hadoop's checksums: what it is, and how many bytes each is of."""
JOBS = (("audit",), ("stats",), ("replay", "--dry-run"), ("ingest",))


def first_file(lake: Lake) -> Path:
    return min(lake.stretches(lake.members()[0])[0].path.glob("*.parquet"))


def flipped_at(path: Path, place: int) -> Path:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(bytes(data))
    return path


def flipped(path: Path, share: float) -> Path:
    return flipped_at(path, int(path.stat().st_size * share))


def body(lake: Lake) -> Path:
    """In a column that every job reads: without a manifest nobody looks at the others."""
    path = first_file(lake)
    rows = parquet.read_metadata(path).row_group(0)
    (column,) = [each for at in range(rows.num_columns) if (each := rows.column(at)).path_in_schema == "queue"]
    return flipped_at(path, column.data_page_offset + 4)


def footer(lake: Lake) -> Path:
    return flipped(first_file(lake), 0.98)


def sums(lake: Lake) -> Path:
    """Of every part of the file: without a manifest nobody looks at those of columns that a job does not read."""
    path = first_file(lake)
    sums = path.with_name(f".{path.name}.crc")
    data = sums.read_bytes()
    sums.write_bytes(data[:CRC_HEAD_BYTES] + bytes(byte ^ 0x10 for byte in data[CRC_HEAD_BYTES:]))
    return sums


def gone(lake: Lake) -> Path:
    path = first_file(lake)
    path.unlink()
    return path


def cut(lake: Lake) -> Path:
    path = first_file(lake)
    path.write_bytes(path.read_bytes()[:-100])
    return path


def added(lake: Lake) -> Path:
    path = first_file(lake)
    return Path(shutil.copy(path, path.with_name("part-00009.parquet")))


def renamed(lake: Lake) -> Path:
    path = first_file(lake)
    path.rename(path.with_name("part-00009.parquet"))
    return path


def manifest(lake: Lake) -> Path:
    return flipped(first_file(lake).with_name("_manifest.json"), 0.5)


def last_stretch(lake: Lake) -> Path:
    shutil.rmtree(lake.stretches(lake.members()[0])[-1].path)
    return lake.folder(lake.members()[0])


FAULTS = (body, footer, sums, gone, cut, added, renamed, manifest, last_stretch)


def copied(piped: Piped, pair: Cluster, into: Path) -> Piped:
    into.mkdir()
    shutil.copytree(piped.lake, into / "lake")
    return Piped(pair.target, into, "source.timeout_s = 5.0")


def refused(piped: Piped, job: tuple[str, ...], path: Path) -> None:
    told = piped.run(*job)
    assert told.code == 1, (job, told.stdout)
    assert "error: BAD_LAKE\n" in told.stderr, (job, told.stderr)
    assert f"cause: {path}" in told.stderr, (job, told.stderr)
    assert "next:  " in told.stderr


def test_every_job_names_what_was_done_to_a_lake(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(40)
    piped = Piped(pair.target, tmp_path)
    piped.ingested()
    more(client, queue, 41, 60)
    piped.ingested()
    assert prove(Lake(piped.lake)).stretches >= 4
    assert piped.run("audit", "-o", "json").code == 0
    for fault in FAULTS:
        there = copied(piped, pair, tmp_path / fault.__name__)
        path = fault(Lake(there.lake))
        for job in JOBS:
            refused(there, job, path)
        on_spark = Piped(pair.target, there.file.parent, "audit.memory_rows = 0")
        refused(on_spark, ("audit",), path)
    again = piped.ingested()
    assert sum(row["rows"] for row in again.values()) >= 0, "the one that nothing was done to goes on"


def test_stretches_are_not_put_together_with_damage(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(20)
    piped = Piped(pair.target, tmp_path)
    piped.ingested()
    more(client, queue, 21, 40)
    piped.ingested()
    lake = Lake(piped.lake)
    path = body(lake)
    with lake.locked(), pytest.raises(PipelineError, match=f"BAD_LAKE: {path} is damaged"):
        compact(spark, lake, lake.members()[0], 128, fewest=2)
    assert path.exists()


def test_a_lake_of_before_is_read_as_ever_and_what_spark_cannot_read_of_it_is_named(
    spark: Any, pair: Cluster, filled: Callable[[int], str], tmp_path: Path
) -> None:
    filled(40)
    piped = Piped(pair.target, tmp_path)
    piped.ingested()
    lake = Lake(piped.lake)
    of_before(lake)
    told = piped.run("audit", "-o", "json")
    assert told.code == 0, told.stderr
    assert told.facts["not_judged"][0].startswith("The lake was kept by an older version")
    told = piped.run("replay", "--dry-run", "-o", "json")
    assert (told.code, "The lake was kept by an older version" in told.stderr) == (0, True)

    for fault in (body, footer, sums, cut):
        there = copied(piped, pair, tmp_path / fault.__name__)
        path = fault(Lake(there.lake))
        data = path.with_name(path.name.removeprefix(".").removesuffix(".crc"))
        for job in (("stats",), ("replay", "--dry-run")):
            refused(there, job, data)
        told = there.run("ingest")
        assert (told.code, f"{data} " in told.stderr, "BAD_LAKE" in told.stderr) == (1, True, True), told.stderr

    told = piped.run("ingest")
    assert (told.code, "stretches have manifests from now on" in told.stderr) == (0, True), told.stderr
    assert "have manifests" not in piped.run("ingest").stderr, "once"
    assert prove(lake).of_before is False

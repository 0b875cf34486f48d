"""Gives a lake of an older version its manifests and ranges, for whoever holds its lock.

Nothing says what its files once were but Spark's own sums beside them: what those contradict, and what is no Parquet,
is refused. The mark that all have manifests is the last thing that is written; who dies before is followed by one who
goes on.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

from pipeline import manifests
from pipeline.durable import read_json, write_json
from pipeline.integrity import RESTORE, printable, prove, prove_stretches
from pipeline.lake import HEADS, Lake, Stretch, counting
from pipeline.manifests import unwatched
from pipeline.problems import BAD_LAKE, PipelineError

SUMS = b"crc\0"
"""With which Spark's sums begin; then the bytes of one, and the sums, big-endian."""


def settle(lake: Lake, notify: Callable[[str], None]) -> None:
    """For an ingest that has proven the lake and claimed it: manifests for one of before, ranges that are up to date.

    Raises PipelineError.
    """
    if not lake.has_manifests():
        count = adopt(lake)
        if count:
            notify(f"{lake.path}: an older version kept it; its {count:,} stretches have manifests from now on")
    for member in lake.members():
        if (end := lake.end(member)) is not None:
            lake.reach(member, end.log_index)


def adopt(lake: Lake, on_stretch: Callable[[int, int], None] = unwatched) -> int:
    """How many stretches have a manifest now. Raises PipelineError with reason BAD_LAKE where something is damaged.

    on_stretch: called after each with how many are done, of how many.
    """
    lake.name()
    stretches = {member: lake.stretches(member) for member in lake.members()}
    size, done = sum(map(len, stretches.values())), 0
    for member, counts in stretches.items():
        for each in counts:
            if (each.path / manifests.NAME).exists():
                prove_stretches([each])
            else:
                lake.add_manifest(member, each, _rows(each))
            done += 1
            on_stretch(done, size)
        for each in set(lake.every(member)).difference(counting(lake.every(member))[0]):
            shutil.rmtree(each.path, ignore_errors=True)  # the older version would have removed it at its next start
        if counts:
            lake.begin_range(member, counts[0].start)
            lake.reach(member, counts[-1].end.log_index)
    for path in sorted((lake.path / HEADS).glob("*.json")):
        write_json(path, read_json(path))  # now with its digest
    lake.mark()
    prove(lake, read_bytes=0)
    return size


def _rows(each: Stretch) -> int:
    """As its Parquet files count them. Raises PipelineError."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise PipelineError("NO_SPARK", f"rows of {each.path} cannot be counted: {error}") from error
    files = sorted(each.path.glob("*.parquet"))
    if not files:
        raise _damaged(each.path, "has no Parquet file")
    rows = 0
    for file in files:
        try:
            if not _fits_its_sums(file):
                raise _damaged(file, "is damaged: it does not fit the sums that Spark wrote beside it")
            rows += pq.read_metadata(file).num_rows
        except (OSError, pa.ArrowException) as error:
            raise _damaged(file, f"cannot be read: {error}") from error
    return rows


def _fits_its_sums(file: Path) -> bool:
    """Also where there are none: not every file system of Hadoop's writes them."""
    beside = file.with_name(f".{file.name}.crc")
    if not beside.exists():
        return True
    sums = beside.read_bytes()
    if sums[:4] != SUMS or len(sums) < 8:
        return False
    [part] = struct.unpack(">I", sums[4:8])
    if part == 0:
        return False
    found = bytearray(sums[:8])
    with file.open("rb") as data:
        while block := data.read(part):
            found += zlib.crc32(block).to_bytes(4, "big")
    return bytes(found) == sums


def _damaged(path: Path, what: str) -> PipelineError:
    return PipelineError(BAD_LAKE, f"{printable(path)} {what}", RESTORE)

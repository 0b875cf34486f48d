"""Audits what fits in memory without Spark, which takes longer to start than this to end; the verdict is the same.

Bodies are held against each other by their digests: what they weigh does not count.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from chaos.journal_checks import Judged, judged
from chaos.journals import Asked, Head, Row
from pipeline.lake import Lake
from pipeline.problems import BAD_LAKE, HISTORY_SCHEMA, PipelineError
from pipeline.reading import WRONG, history_problem, nothing_in, values_problem
from pipeline.schema import ATTRIBUTES, BARE_JOURNAL, HISTORY, HISTORY_LATER, OPS, OUTCOMES, names

BATCH = 4_096
DIGEST_BYTES = 16
ALWAYS = ("log_index", "epoch", "time", "kind")
"""What each row of a journal has."""
_NAMES = {pa.int64(): "bigint", pa.string(): "string", pa.binary(): "binary"}


def rows_there(lake: Lake, history: str, kept: int | None = None) -> int:
    """Of the journals and of the history together, out of the files' own counts. Raises PipelineError.

    kept: what the lake's manifests say that it has; None: it has none.
    """
    asked = _count(history, HISTORY_SCHEMA) if history and Path(history).exists() else 0
    return asked + (sum(_count(path, BAD_LAKE) for path in lake.paths()) if kept is None else kept)


def audit_small(lake: Lake, history: str) -> Judged:
    """Raises PipelineError, for the same reasons as the audit on Spark."""
    rows = [row for member in lake.members() for row in _rows(lake, member)]
    if not lake.paths():
        raise nothing_in(lake)
    asked = list(_asked(history)) if history else []
    return judged(rows, asked, list(_heads(lake)), ends_of(lake), lake.every_record_from())


def ends_of(lake: Lake) -> dict[str, int]:
    """By member, the first record that is not in the lake."""
    return {member: end.log_index for member in lake.members() if (end := lake.end(member)) is not None}


def _dataset(path: str, reason: str) -> ds.Dataset:
    try:
        return ds.dataset(path, format="parquet")
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(reason, f"{path} cannot be read: {error}") from error


def _count(path: str, reason: str) -> int:
    try:
        found: int = _dataset(path, reason).count_rows()
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(reason, f"{path} cannot be read: {error}") from error
    return found


def _rows(lake: Lake, member: str) -> Iterator[Row]:
    since = lake.attributes_from()
    for stretch in lake.stretches(member):
        try:
            dataset = _dataset(str(stretch.path), BAD_LAKE)
            there = [name for name in names(ATTRIBUTES) if name in dataset.schema.names]
            for batch in dataset.to_batches(columns=[*names(BARE_JOURNAL), *there], batch_size=BATCH):
                if gone := [name for name in ALWAYS if batch.column(name).null_count]:
                    raise PipelineError(BAD_LAKE, f"{stretch.path} has rows without {', '.join(gone)}")
                times = pc.cast(batch.column("time"), pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
                rows = batch.select(names(BARE_JOURNAL)).to_pylist()
                for found, time_us, beside in zip(rows, times, _beside(batch, there), strict=True):
                    yield _row(member, found, time_us, beside if found["log_index"] >= since else None)
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(BAD_LAKE, f"{stretch.path} cannot be read: {error}") from error


def _beside(batch: pa.RecordBatch, there: list[str]) -> Iterable[bytes | None]:
    """Of each row a digest of its attributes; None where it has none. Columns without any are not looked at by row."""
    used = [name for name in there if batch.column(name).null_count < batch.num_rows]
    if not used:
        return [None] * batch.num_rows
    return [_digest(zip(used, row, strict=True)) for row in zip(*(_values(batch[name]) for name in used), strict=True)]


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()  # type: ignore[no-any-return]  # pyarrow is not looked into


def _digest(asked: Iterable[tuple[str, Any]]) -> bytes | None:
    given = [(name, value) for name, value in asked if value is not None]
    return hashlib.blake2b(repr(given).encode(), digest_size=DIGEST_BYTES).digest() if given else None


def _row(member: str, found: dict[str, Any], time_us: int, beside: bytes | None) -> Row:
    payload: bytes | None = found["payload"]
    return Row(
        member=member,
        log_index=found["log_index"],
        epoch=found["epoch"],
        kind=found["kind"],
        queue_id=found["queue_id"] or 0,
        index=found["index"] or 0,
        count=found["count"] or 0,
        queue=found["queue"],
        id=found["id"],
        lease_id=found["lease_id"] or 0,
        producer=found["producer"],
        sequence=found["sequence"] or 0,
        time_us=time_us,
        payload=None if payload is None else hashlib.blake2b(payload, digest_size=DIGEST_BYTES).digest(),
        attributes=beside,
        body_crc32=None if payload is None else zlib.crc32(payload),
    )


def _asked(path: str) -> Iterator[Asked]:
    if not Path(path).exists():
        raise PipelineError(HISTORY_SCHEMA, f"there is no client history at {path}")
    found = _dataset(path, HISTORY_SCHEMA)
    there = {field.name: _NAMES.get(field.type, str(field.type)) for field in found.schema}
    if (problem := history_problem(path, there)) is not None:
        raise problem
    wanted = [name for name in names(HISTORY) if name in there or name not in HISTORY_LATER]
    wrong = dict.fromkeys(WRONG, 0)
    try:
        for batch in found.to_batches(columns=wanted, batch_size=BATCH):
            for name in WRONG:
                wrong[name] += _wrong_values(batch, name)
            yield from (Asked(**row) for row in batch.to_pylist())
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(HISTORY_SCHEMA, f"{path} cannot be read: {error}") from error
    if (problem := values_problem(path, wrong)) is not None:
        raise problem


def _wrong_values(batch: pa.RecordBatch, name: str) -> int:
    """How many rows have one that no client history has."""
    column, right = batch.column(name), {"op": OPS, "outcome": OUTCOMES}.get(name)
    good = pc.is_valid(column) if right is None else pc.is_in(column, pa.array(right, pa.string()))
    count: int = pc.sum(good).as_py() or 0
    return int(batch.num_rows) - count


def _heads(lake: Lake) -> Iterator[Head]:
    return (Head(**{name: row[name] for name in Head.__dataclass_fields__}) for row in lake.heads())

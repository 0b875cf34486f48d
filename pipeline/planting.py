"""Plants a fault in a copy of a lake, so that it can be seen that the audit names it. Never in the lake itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chaos.journals import BEFORE_ENTERED, COPIES_DIFFER, DUPLICATE, LOST, SETTLED_UNLEASED, TIME_BACKWARDS
from pipeline.lake import Lake
from tandemq.spark.columns import WITH_ATTRIBUTES


class Fault(NamedTuple):
    """What is planted, and as what the audit must name it."""

    name: str
    kind: str
    title: str
    members: int
    """In so many journals: 1 is the last one's alone."""
    change: Callable[[pa.Table, str], pa.Table]


def lost(table: pa.Table, queue: str) -> pa.Table:
    """A message that was acknowledged is in no journal."""
    return table.filter(pc.invert(_is(table, queue, _index(table, queue, 3))))


def doubled(table: pa.Table, queue: str) -> pa.Table:
    """A message is stored at the index of another one too."""
    rows = table.filter(_is(table, queue, _index(table, queue, 3)))
    found = _is(table, queue, _index(table, queue, 2))
    for name in ("producer", "sequence", "payload"):
        changed = pc.if_else(found, rows[name][0], table[name])
        table = table.set_column(table.schema.get_field_index(name), name, changed)
    return table


def swapped(table: pa.Table, queue: str) -> pa.Table:
    """Two messages have each other's index."""
    first, second = _index(table, queue, 3), _index(table, queue, 2)
    there = pc.if_else(_is(table, queue, second), first, table["index"])
    changed = pc.if_else(_is(table, queue, first), second, there)
    return table.set_column(table.schema.get_field_index("index"), "index", pc.cast(changed, pa.int64()))


def lease_gone(table: pa.Table, queue: str) -> pa.Table:
    """The record of a lease is in no journal; what it leased was acknowledged under it."""
    found = pc.and_(pc.equal(table["kind"], "LEASED"), pc.equal(table["queue"], queue))
    leases = sorted(set(table.filter(pc.fill_null(found, False))["lease_id"].to_pylist()))  # the same one at both
    gone = pc.equal(table["lease_id"], leases[len(leases) // 3])
    return table.filter(pc.invert(pc.fill_null(pc.and_(found, gone), False)))


def time_back(table: pa.Table, queue: str) -> pa.Table:
    """A record has the time of another day."""
    record = table.filter(_is(table, queue, _index(table, queue, 3)))["log_index"][0]
    day = pa.scalar(24 * 3600 * 1_000_000, pa.duration("us"))
    earlier = pc.subtract(table["time"], day)
    times = pc.if_else(pc.equal(table["log_index"], record), earlier, table["time"])
    return table.set_column(table.schema.get_field_index("time"), "time", times)


def body_gone(table: pa.Table, queue: str) -> pa.Table:
    """One member does not show what it has stored."""
    found = _is(table, queue, _index(table, queue, 3))
    bodies = pc.if_else(found, pa.scalar(None, pa.binary()), table["payload"])
    return table.set_column(table.schema.get_field_index("payload"), "payload", bodies)


def settled_early(table: pa.Table, queue: str) -> pa.Table:
    """A message was acknowledged in the record before the one that stored it."""
    place = _index(table, queue, 3)
    entered = table.filter(_is(table, queue, place))["log_index"][0].as_py()
    acked = pc.and_(pc.equal(table["kind"], "ACKED"), pc.equal(table["queue"], queue))
    covers = pc.and_(
        pc.less_equal(table["index"], place), pc.greater(pc.add(table["index"], table["count"]), pa.scalar(place))
    )
    found = pc.fill_null(pc.and_(acked, covers), False)
    logs = pc.if_else(found, pa.scalar(entered - 1, pa.int64()), table["log_index"])
    return table.set_column(table.schema.get_field_index("log_index"), "log_index", logs)


FAULTS = (
    Fault("lost", LOST, "an acknowledged message is in neither journal", 2, lost),
    Fault("doubled", DUPLICATE, "one message is stored at two indexes", 2, doubled),
    Fault("swapped", COPIES_DIFFER, "one member has two messages the other way round", 1, swapped),
    Fault("lease-gone", SETTLED_UNLEASED, "the record of a lease is in neither journal", 2, lease_gone),
    Fault("time-back", TIME_BACKWARDS, "a record has the time of the day before", 2, time_back),
    Fault("body-gone", COPIES_DIFFER, "one member shows no body of a message", 1, body_gone),
    Fault("settled-early", BEFORE_ENTERED, "a message was acknowledged before it was stored", 2, settled_early),
)


def plant(lake: Lake, into: Path, fault: Fault, queue: str) -> Lake:
    """A copy of the lake, with that fault, in a directory that is not there yet."""
    shutil.copytree(lake.path, into)
    copy = Lake(into)
    with copy.locked():
        for member in copy.members()[-fault.members :]:
            stretches = copy.stretches(member)
            files = [file for stretch in stretches for file in sorted(stretch.path.glob("*.parquet"))]
            table = pa.concat_tables([pq.ParquetFile(file).read().cast(WITH_ATTRIBUTES) for file in files])
            staged = copy.staging(f"planted-{member}")
            staged.mkdir()
            changed = fault.change(table, queue)
            pq.write_table(changed, staged / "part-00000.parquet")
            for stretch in stretches:
                shutil.rmtree(stretch.path)
            copy.publish(member, stretches[0].start, stretches[-1].end, staged, rows=len(changed))
    return copy


def _index(table: pa.Table, queue: str, part: int) -> int:
    """Of a message in the queue: one `part`-th of the way."""
    entered = pc.and_(pc.equal(table["kind"], "ENQUEUED"), pc.equal(table["queue"], queue))
    last: int = pc.max(table.filter(entered)["index"]).as_py()
    return last // part


def _is(table: pa.Table, queue: str, index: int) -> pa.ChunkedArray:
    entered = pc.and_(pc.equal(table["kind"], "ENQUEUED"), pc.equal(table["queue"], queue))
    return pc.fill_null(pc.and_(entered, pc.equal(table["index"], index)), False)

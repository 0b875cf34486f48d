"""What an audit is given, as rows that can be changed: both journals, what clients were told, heads. Judges nothing."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.lake import Lake, Place
from tandemq.spark.recording import SCHEMA as TOLD

Facts = dict[str, Any]
"""A row, by column."""
ROOM = 4
"""Messages from one place to the next: a fault may touch a few."""


class Span(NamedTuple):
    """One member's part of a lake."""

    start: int
    end: Place


@dataclass
class Evidence:
    """Of one lake with one queue that is looked at."""

    queue: str
    schema: pa.Schema
    rows: dict[str, list[Facts]]
    """By member."""
    told: list[Facts]
    heads: dict[str, list[Facts]]
    spans: dict[str, Span]

    def copy(self) -> Evidence:
        """To plant something in."""
        return deepcopy(self)

    def every(self, members: Collection[str] = ()) -> Iterator[Facts]:
        """The rows of these members; of both."""
        for member, rows in self.rows.items():
            if not members or member in members:
                yield from rows

    def of(self, kind: str, index: int, members: Collection[str] = ()) -> list[Facts]:
        """Rows of that kind about that message."""
        return [row for row in self.every(members) if row["kind"] == kind and self._covers(row, index)]

    def single(self, kind: str, index: int, members: Collection[str] = ()) -> list[Facts]:
        """The same, once each of them is about that message alone: ranges are cut around it."""
        found = []
        for member, rows in self.rows.items():
            for row in [each for each in rows if each["kind"] == kind and self._covers(each, index)]:
                before, after = index - row["index"], row["index"] + row["count"] - 1 - index
                at = rows.index(row)
                parts = [{**row, "index": row["index"], "count": before}] if before else []
                parts += [row]
                parts += [{**row, "index": index + 1, "count": after}] if after else []
                row.update(index=index, count=1)
                rows[at : at + 1] = parts
                if not members or member in members:
                    found.append(row)
        return found

    def drop(self, gone: Collection[Facts]) -> None:
        """These rows, wherever they are."""
        ids = {id(row) for row in gone}
        self.rows = {member: [row for row in rows if id(row) not in ids] for member, rows in self.rows.items()}

    def add(self, like: Collection[Facts], **changes: Any) -> None:
        """Rows like these, each at its member, with something else in them."""
        ids = {id(row) for row in like}
        for member, rows in self.rows.items():
            self.rows[member] = rows + [{**row, **changes} for row in rows if id(row) in ids]

    def told_of(self, op: str, index: int) -> list[Facts]:
        """What clients were told of that message, ok."""
        return [each for each in self.told if (each["op"], each["index"], each["outcome"]) == (op, index, "ok")]

    def last(self) -> Facts:
        """The last record of an acknowledgement at the first member: epoch, time and log index that come late."""
        rows = next(iter(self.rows.values()))
        return max((row for row in rows if row["kind"] == "ACKED"), key=lambda row: int(row["log_index"]))

    @property
    def members(self) -> tuple[str, str]:
        """Both, in order."""
        one, other = self.rows
        return one, other

    def _covers(self, row: Facts, index: int) -> bool:
        return row["queue"] == self.queue and row["index"] <= index < row["index"] + max(row["count"], 1)


def evidence_of(lake: Lake, history: Path, queue: str) -> Evidence:
    """Of a lake that is there."""
    rows: dict[str, list[Facts]] = {}
    spans, schema = {}, pa.schema([])
    for member in lake.members():
        stretches = lake.stretches(member)
        files = [file for stretch in stretches for file in sorted(stretch.path.glob("*.parquet"))]
        table = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
        rows[member], schema = table.to_pylist(), _readable(table.schema)
        spans[member] = Span(stretches[0].start, stretches[-1].end)
    heads = defaultdict(list)
    for head in lake.heads():
        heads[head["member"]].append(head)
    return Evidence(queue, schema, rows, pq.read_table(history).to_pylist(), dict(heads), spans)


def _readable(schema: pa.Schema) -> pa.Schema:
    """As Spark reads it. Times come from its own files in nanoseconds, which it does not take from anybody else."""
    micros = pa.timestamp("us", "UTC")
    return pa.schema([each.with_type(micros) if pa.types.is_timestamp(each.type) else each for each in schema])


def written(evidence: Evidence, lake: Lake, into: Path) -> tuple[Lake, Path]:
    """As a lake of its own, which says of itself what `lake` says, and the history beside it."""
    copy = Lake(into / "lake")
    copy.path.mkdir(parents=True)
    shutil.copy(lake.path / "_lake.json", copy.path / "_lake.json")
    with copy.locked():
        for member, rows in evidence.rows.items():
            staged = copy.staging(f"planted-{member}")
            staged.mkdir()
            pq.write_table(pa.Table.from_pylist(rows, evidence.schema), staged / "part-00000.parquet")
            span = evidence.spans[member]
            copy.publish(member, span.start, span.end, staged, rows=len(rows))
            copy.save_heads(member, json.loads(json.dumps(evidence.heads[member])))
    history = into / "history.parquet"
    pq.write_table(pa.Table.from_pylist(evidence.told, TOLD), history)
    return copy, history


def places(evidence: Evidence, count: int) -> list[int]:
    """Messages so plain that nothing is known of them but that they were sent, leased once, received and acknowledged
    once; so are the next ones. After the first takeover, spread over what there is, of records of their own.

    Raises ValueError where there are fewer.
    """
    seen: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    epochs: dict[int, int] = {}
    records: dict[int, list[int]] = defaultdict(list)
    rows = evidence.rows[evidence.members[0]]
    for row in rows:
        if row["queue"] != evidence.queue:
            continue
        for index in range(row["index"], row["index"] + row["count"]):
            seen[row["kind"]][index] += 1
            records[index].append(row["log_index"])
            if row["kind"] == "ENQUEUED":
                epochs[index] = row["epoch"]
    for each in evidence.told:
        if each["outcome"] == "ok":
            seen[each["op"]][each["index"]] += 1
    once = ("ENQUEUED", "LEASED", "ACKED", "send", "recv", "ack")
    first = min(epochs.values())
    plain = {
        index
        for index, epoch in epochs.items()
        if epoch > first and all(seen[name][index] == 1 for name in once) and not seen["RELEASED"][index]
    }
    found: list[int] = []
    taken: set[int] = set()
    for index in sorted(plain):
        mine = {each for step in range(ROOM) for each in records[index + step]}
        if all(index + step in plain for step in range(ROOM)) and not mine & taken:
            found.append(index)
            taken |= mine
    if len(found) < count:
        raise ValueError(f"{len(found)} places for {count} faults: more messages, or another run, are needed")
    step = len(found) // count
    return found[::step][:count]

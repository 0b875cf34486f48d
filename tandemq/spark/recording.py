"""Keeps what clients saw, for an audit: a row a message and operation, written as one Parquet file (HISTORY)."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tandemq.spark.history import HISTORY, OK, OPS, OUTCOMES

_ARROW = MappingProxyType({"STRING": pa.string(), "BIGINT": pa.int64(), "BINARY": pa.binary()})
SCHEMA = pa.schema([(column.name, _ARROW[column.kind]) for column in HISTORY])


class Recording:
    """Of one host: all times are of its monotonic clock. Not for two threads at a time."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {column.name: [] for column in HISTORY}

    def __len__(self) -> int:
        return len(self._columns["op"])

    @staticmethod
    def now_ns() -> int:
        """For `invoke_ns`: before the question leaves."""
        return time.monotonic_ns()

    def add(
        self,
        client: str,
        op: str,
        outcome: str,
        invoke_ns: int,
        queue: str,
        *,
        indexes: Sequence[int | None],
        ids: Sequence[bytes | None] = (),
        epochs: Sequence[int | None] = (),
        producer: bytes | None = None,
        first_sequence: int | None = None,
        priorities: Sequence[int | None] = (),
        payloads: Sequence[bytes | None] = (),
    ) -> None:
        """Messages that were asked for together and ended together, now. What is not known is left out, or None.

        Of a send, first_sequence is that of the first message: it is how one without an answer is found. Of a recv,
        priorities are those of messages whose order depends on nothing else (HISTORY). Of payloads, which were sent or
        received, it keeps the CRC-32: an audit then tells a body that is wrong at both members.
        """
        assert op in OPS
        assert outcome in OUTCOMES
        count = len(indexes)
        nothing: list[None] = [None] * count
        sequences = nothing if first_sequence is None else list(range(first_sequence, first_sequence + count))
        for name, values in (
            ("client", [client] * count),
            ("op", [op] * count),
            ("outcome", [outcome] * count),
            ("invoke_ns", [invoke_ns] * count),
            ("complete_ns", [self.now_ns()] * count if outcome == OK else nothing),
            ("queue", [queue] * count),
            ("id", list(ids) or nothing),
            ("index", list(indexes)),
            ("epoch", list(epochs) or nothing),
            ("producer", [producer] * count),
            ("sequence", sequences),
            ("priority", list(priorities) or nothing),
            ("payload_crc32", [None if each is None else zlib.crc32(each) for each in payloads] or nothing),
        ):
            assert len(values) == count, name
            self._columns[name] += values

    def write(self, path: Path) -> None:
        """As one file. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(self._columns, schema=SCHEMA), path)

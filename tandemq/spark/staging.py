"""Stages the rows of one task, in order, as parts of one stage. It publishes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

import tandemq
from tandemq.client.places import JournalPosition
from tandemq.client.staging import new_stage_id
from tandemq.errors import InvalidRequest
from tandemq.spark.sending import batch_of, values_of, weight_of
from tandemq.spark.write_options import WriteOptions

PART_ROWS, PART_BYTES = 5_000, 1 << 20
"""Of one call; a part may have 10,000 rows and 4 MiB."""
BUFFERED_BYTES = 32 << 20
"""Of all parts that are not sent: with rows for many queues the largest one goes first, before it is full."""
ROW_BYTES = 16
"""Counted for each row beside its payload."""


@dataclass(slots=True)
class _Part:
    """Rows of one queue that are not staged yet."""

    size: int = 0
    rows: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)


class Stager:
    """One task's stage."""

    def __init__(self, client: tandemq.Client, options: WriteOptions, seen: JournalPosition | None = None) -> None:
        self._client = client
        self._options = options
        self._seen = seen
        self._parts: dict[str, _Part] = {}
        self._sent = 0
        self._buffered = 0
        self.stage_id = new_stage_id()
        self.rows = 0

    def take(self, batches: Iterable[pa.RecordBatch]) -> None:
        """All rows of the task. Raises TandemqError, with reason BAD_ROW for a row that is no message."""
        for batch in batches:
            self._take(batch)
        for queue in list(self._parts):
            self._send(queue)

    def drop(self) -> int:
        """What was staged is not wanted; how many stages there were."""
        return self._client.abort_stages([self.stage_id], domain=self._options.domain)

    def _take(self, batch: pa.RecordBatch) -> None:
        given = {name: values_of(batch, name) for name in batch.schema.names}
        names = [self._options.queue] * batch.num_rows if self._options.queue else given["queue"]
        given.pop("queue", None)
        payloads = given.pop("payload")
        for place, queue in enumerate(names):
            payload = payloads[place]
            if payload is None or not queue:
                what = "payload" if payload is None else "queue"
                text = f"a row has no {what}: leave such rows out, for example by where('{what} IS NOT NULL')"
                raise InvalidRequest("BAD_ROW", text, {"column": what}, definite=True)
            part = self._parts.get(queue) or self._parts.setdefault(queue, _Part())
            columns = part.columns
            columns.setdefault("payload", []).append(payload)
            size = len(payload) + ROW_BYTES
            for name, values in given.items():
                value = values[place]
                columns.setdefault(name, []).append(value)
                if value is not None:
                    size += weight_of(value)
            part.size += size
            part.rows += 1
            self._buffered += size
            if part.rows >= PART_ROWS or part.size >= PART_BYTES:
                self._send(queue)
            elif self._buffered >= BUFFERED_BYTES:
                self._send(max(self._parts, key=lambda name: self._parts[name].size))

    def _send(self, queue: str) -> None:
        part = self._parts.pop(queue)
        self._buffered -= part.size
        try:
            batch = batch_of(part.columns)
        except ValueError as error:  # a number below 0, or beyond what the column holds
            raise InvalidRequest("BAD_ROW", f"a row for queue {queue}: {error}", definite=True) from error
        ttl = timedelta(seconds=self._options.stage_s)
        self._sent += 1
        self._client.stage(queue, batch, stage_id=self.stage_id, part=self._sent, ttl=ttl, seen=self._seen)
        self.rows += part.rows

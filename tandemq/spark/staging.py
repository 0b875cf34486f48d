"""Stages the rows of one task, in order, as parts of one stage. It publishes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

import tandemq
from tandemq.client.staging import new_stage_id
from tandemq.errors import InvalidRequest
from tandemq.spark.write_options import TEXTS, WriteOptions
from tandemq.v1.message_pb2 import MessageBatch

PART_ROWS, PART_BYTES = 5_000, 1 << 20
"""Of one call; a part may have 10,000 rows and 4 MiB."""
BUFFERED_BYTES = 32 << 20
"""Of all parts that are not sent: with rows for many queues the largest one goes first, before it is full."""
ROW_BYTES = 16
"""Counted for each row beside its payload."""
PLURAL = {name: f"{name}s" for name in (*TEXTS, "payload")} | {"priority": "priorities"}
"""The column of a MessageBatch."""


@dataclass(slots=True)
class _Part:
    """Rows of one queue that are not staged yet."""

    size: int = 0
    rows: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)


class Stager:
    """One task's stage."""

    def __init__(self, client: tandemq.Client, options: WriteOptions) -> None:
        self._client = client
        self._options = options
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
        given = {name: _values(batch, name) for name in batch.schema.names}
        names = [self._options.queue] * batch.num_rows if self._options.queue else given["queue"]
        given.pop("queue", None)
        payloads = given["payload"]
        texts = [name for name in TEXTS if name in given]
        for place, queue in enumerate(names):
            payload = payloads[place]
            if payload is None or not queue:
                what = "payload" if payload is None else "queue"
                text = f"a row has no {what}: leave such rows out, for example by where('{what} IS NOT NULL')"
                raise InvalidRequest("BAD_ROW", text, {"column": what}, definite=True)
            part = self._parts.get(queue) or self._parts.setdefault(queue, _Part())
            columns = part.columns
            columns.setdefault("payload", []).append(payload)
            if "priority" in given:
                priority = given["priority"][place]
                columns.setdefault("priority", []).append(4 if priority is None else priority)
            size = len(payload) + ROW_BYTES
            for name in texts:
                text = given[name][place] or ""
                columns.setdefault(name, []).append(text)
                size += len(text.encode())
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
            batch = MessageBatch(**{PLURAL[name]: values for name, values in part.columns.items()})
        except ValueError as error:  # a priority below 0, or beyond what the column holds
            raise InvalidRequest("BAD_ROW", f"a row for queue {queue}: {error}", definite=True) from error
        ttl = timedelta(seconds=self._options.stage_s)
        self._sent += 1
        self._client.stage(queue, batch, stage_id=self.stage_id, part=self._sent, ttl=ttl)
        self.rows += part.rows


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    """A column as MessageBatch takes it. Spark's strings are bytes that need not be UTF-8: as a payload they go as they
    are.

    Raises InvalidRequest with reason BAD_ROW for what is no text where a text belongs.
    """
    column = batch.column(name)
    if name == "payload":
        return column.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]  # pyarrow is not looked into
    try:
        return column.to_pylist()  # type: ignore[no-any-return]  # as above
    except UnicodeDecodeError as error:
        text = f"column {name} has a text that is not UTF-8 ({error.reason}); encode it, for example by base64()"
        raise InvalidRequest("BAD_ROW", text, {"column": name}, definite=True) from error

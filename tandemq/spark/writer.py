"""Writes frames and streams into queues, each batch once: tasks stage their rows, the driver publishes the stages.

(writer, batch) is remembered with the rows by the pair, so a batch that Spark repeats after a crash is recognised and
its new stages are dropped. What a task staged and could not report is dropped when its time is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

import tandemq
from tandemq.errors import InvalidRequest, TandemqError
from tandemq.spark.staging import Stager
from tandemq.spark.write_options import WriteOptions

QUERY_PROPERTY = "sql.streaming.queryId"
"""Spark's name for the id that a checkpoint keeps; visible in tasks, documented nowhere."""


@dataclass(frozen=True)
class Told(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not looked into: it may not be installed
    """What one task reports."""

    stage_id: bytes
    """Empty: it had no rows."""
    rows: int
    query_id: str


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]  # as above
    """One df.write. Plain values only: Spark pickles it into each task."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Told:
        """Called in each task, and again when it is repeated: under a new stage."""
        return _stage(self._options, iterator, self._options.query_id)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Called once beside the driver, when all tasks have reported."""
        options = self._options
        with connect(options) as client:
            if options.writer:
                _publish(client, options, options.query_id, options.batch_id, messages)
                return
            name = f"spark-{uuid4().hex}"  # nobody will ask for it again
            _publish(client, options, name, 0, messages, writer=name)
            with contextlib.suppress(TandemqError):  # it is published: nothing that fails now may say otherwise
                client.release_writer(name, domain=options.domain)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Called when a task or the commit failed: drops stages alone, and never what was published."""
        _abort(self._options, messages)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # as above
    """One query's writer; each batch gets a copy of its own."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Told:
        """Called in each task of a micro-batch, and again when it is repeated: under a new stage."""
        return _stage(self._options, iterator, self._options.query_id or _query_id())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Called once a micro-batch beside the driver, and again for one that Spark repeats after a crash."""
        told = _told(messages)
        if told:  # else it has no rows, and nothing to remember
            with connect(self._options) as client:
                _publish(client, self._options, told[0].query_id, batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """Called when a task or the commit failed, also where the batch was published: drops stages alone."""
        _abort(self._options, messages)


def connect(options: WriteOptions) -> tandemq.Client:
    """A client of the target that the options name, or that tandemq.connect finds."""
    return tandemq.connect(options.target, timeout=options.timeout_s)


def _query_id() -> str:
    context = TaskContext.get()
    found = context.getLocalProperty(QUERY_PROPERTY) if context is not None else None
    if not found:
        text = "Spark does not tell tasks the id of their query; give the option queryId, the same over restarts"
        raise InvalidRequest("BAD_OPTION", text, {"option": "queryId"}, definite=True)
    return str(found)


def _stage(options: WriteOptions, batches: Iterator[pa.RecordBatch], query_id: str) -> Told:
    with connect(options) as client:
        stager, done = Stager(client, options), False
        try:
            stager.take(batches)
            done = True
        finally:
            if not done:  # Spark repeats the task, or gives the batch up; what is left goes when its time is over
                with contextlib.suppress(TandemqError):
                    stager.drop()
        return Told(stager.stage_id if stager.rows else b"", stager.rows, query_id)


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[Told]:
    """Of the tasks that reported and had rows, in the order of the partitions."""
    return [each for each in messages if isinstance(each, Told) and each.stage_id]


def _publish(
    client: tandemq.Client,
    options: WriteOptions,
    query_id: str,
    batch: int,
    messages: Sequence[WriterCommitMessage | None],
    *,
    writer: str = "",
) -> None:
    stages = [each.stage_id for each in _told(messages)]
    client.publish(writer or options.writer, query_id, batch, stages, domain=options.domain)


def _abort(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """What fails here is dropped when its time is over; why the batch failed is the news."""
    stages = [each.stage_id for each in _told(messages)]
    if stages:
        with connect(options) as client, contextlib.suppress(TandemqError):
            client.abort_stages(stages, domain=options.domain)

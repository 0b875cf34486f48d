"""Writes frames and streams into queues, each batch once: tasks stage their rows, the driver publishes the stages.

(writer, batch) is remembered with the rows by the pair, so a batch that Spark repeats after a crash is recognised and
its new stages are dropped. What a task staged and could not report is dropped when its time is over.
"""

from __future__ import annotations

import contextlib
import logging
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
from tandemq.client.places import JournalPosition
from tandemq.client.staging import Published
from tandemq.errors import InvalidRequest, TandemqError
from tandemq.spark.kept import Kept, folder_of, load, save
from tandemq.spark.staging import Stager
from tandemq.spark.write_options import WriteOptions

QUERY_PROPERTY = "sql.streaming.queryId"
"""Spark's name for the id that a checkpoint keeps; visible in tasks, documented nowhere."""
_LOG = logging.getLogger(__name__)


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
        self._seen = _named(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Told:
        """Called in each task, and again when it is repeated: under a new stage."""
        return _stage(self._options, iterator, self._options.query_id, self._seen)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Called once beside the driver, when all tasks have reported."""
        options, stages = self._options, _stages(messages)
        with connect(options) as client:
            if options.writer:
                number, query_id = options.batch_id, options.query_id
                client.publish(options.writer, query_id, number, stages, domain=options.domain, seen=self._seen)
                return
            name = f"spark-{uuid4().hex}"  # nobody will ask for it again
            client.publish(name, options.query_id, 0, stages, domain=options.domain, seen=self._seen)
            with contextlib.suppress(TandemqError):  # it is published: nothing that fails now may say otherwise
                client.release_writer(name, domain=options.domain)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Called when a task or the commit failed: drops stages alone, and never what was published."""
        _abort(self._options, messages)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # as above
    """One query's writer; each batch gets a copy of its own.

    Spark keeps nothing for it. What it has published, and into which history, stands beside the checkpoint (`kept`).
    """

    def __init__(self, options: WriteOptions) -> None:
        """Raises InvalidRequest with reason BAD_CHECKPOINT for a file beside the checkpoint that nobody can read."""
        self._options = options
        self._folder = folder_of(options.checkpoint) if options.checkpoint else None
        kept = load(self._folder, options.writer) if self._folder is not None else None
        if kept is not None and options.history_id not in ("", kept.position.history_id):
            kept = None  # somebody goes on in another history knowingly
        self._kept = kept
        self._seen = kept.position if kept is not None else _named(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Told:
        """Called in each task of a micro-batch, and again when it is repeated: under a new stage."""
        return _stage(self._options, iterator, self._options.query_id or _query_id(), self._seen)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Called once a micro-batch beside the driver, and again for one that Spark repeats after a crash.

        The first number is published without rows too: a later one shows by it that this pair is the one that was
        written to. Others are not: each is a record, and a query that reads the same domain would find it, and go on
        for ever.

        Raises Refused with reason PAIR_CHANGED, EPOCH_DIVERGED or OUT_OF_RANGE where it is not, or went back.
        """
        options = self._options
        query_id = next((each.query_id for each in messages if isinstance(each, Told)), options.query_id)
        stages = _stages(messages)
        if not query_id or (batchId and not stages):  # no task has told anything, or none had a row
            return
        with connect(options) as client:
            done = client.publish(
                options.writer,
                query_id,
                batchId,
                stages,
                domain=options.domain,
                seen=self._seen,
                previous_batch=self._previous(batchId),
            )
        self._keep(query_id, batchId, done)

    def _previous(self, batch: int) -> int | None:
        """One that this pair must know of. Of a query whose file is not there: any."""
        if self._kept is not None:
            return self._kept.batch
        return 0 if batch and not self._options.history_id else None

    def _keep(self, query_id: str, batch: int, done: Published) -> None:
        if self._folder is None or not done.position.history_id:
            return
        if self._kept is None and batch:
            text = (
                f"writer {self._options.writer} has published before, and nothing beside its checkpoint says where: "
                f"it is taken for one of history {done.position.history_id}, and held to it from now on"
            )
            _LOG.warning("%s", text)
        last = max(batch, self._kept.batch) if self._kept is not None else batch  # Spark may repeat an earlier one
        save(self._folder, Kept(self._options.writer, query_id, last, done.position))

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


def _named(options: WriteOptions) -> JournalPosition | None:
    """The history that the option historyId names, at no place of it."""
    return JournalPosition(0, history_id=options.history_id) if options.history_id else None


def _stage(
    options: WriteOptions, batches: Iterator[pa.RecordBatch], query_id: str, seen: JournalPosition | None
) -> Told:
    with connect(options) as client:
        stager, done = Stager(client, options, seen), False
        try:
            stager.take(batches)
            done = True
        finally:
            if not done:  # Spark repeats the task, or gives the batch up; what is left goes when its time is over
                with contextlib.suppress(TandemqError):
                    stager.drop()
        return Told(stager.stage_id if stager.rows else b"", stager.rows, query_id)


def _stages(messages: Sequence[WriterCommitMessage | None]) -> list[bytes]:
    """Of the tasks that reported and had rows, in the order of the partitions."""
    return [each.stage_id for each in messages if isinstance(each, Told) and each.stage_id]


def _abort(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """What fails here is dropped when its time is over; why the batch failed is the news."""
    stages = _stages(messages)
    if stages:
        with connect(options) as client, contextlib.suppress(TandemqError):
            client.abort_stages(stages, domain=options.domain)

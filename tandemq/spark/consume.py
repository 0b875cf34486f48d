"""The data source of format("tandemq-consume"): a stream that takes messages out of a queue, and acknowledges them when
Spark commits.

A micro-batch is a numbered batch of the queue (docs/decisions/0025-numbered-batches.md): Spark writes its number down,
and gets the same messages for it after a crash, as long as the lease lives. An offset is {queue: {number, log_index,
epoch, history_id}}: the last number that is in it, and where the journal was when it was taken. A pair that does not
know of that place is another one, or went back. An offset of an older version has the number alone; the next one takes
the place over.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema  # its name alone is of pandas
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

import tandemq
from tandemq.client.delivery import ReceivedMessage
from tandemq.client.places import JournalPosition
from tandemq.errors import InvalidRequest, NotFound, Refused
from tandemq.spark.consume_options import ROWS_MAX, ConsumeOptions, parse
from tandemq.spark.options import bad_option
from tandemq.spark.source import endpoints_of

Offset = Mapping[str, Mapping[str, int | str]]
_LOG = logging.getLogger(__name__)

SCHEMA = pa.schema(
    [
        ("queue", pa.string()),
        ("index", pa.int64()),
        ("id", pa.binary()),
        ("time", pa.timestamp("us", "UTC")),
        ("delivery_count", pa.int64()),
        ("content_type", pa.string()),
        ("correlation_id", pa.string()),
        ("group_id", pa.string()),
        ("payload", pa.binary()),
    ]
)


class ConsumeSource(DataSource):  # type: ignore[misc]  # pyspark is not looked into: it may not be installed
    """Messages of a queue, each in one micro-batch until it is acknowledged; docs/SPARK.md has options and columns."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        """As in format("tandemq-consume")."""
        return "tandemq-consume"

    def schema(self) -> StructType:
        """Always the same columns."""
        return _schema()

    def reader(self, schema: StructType) -> BatchStream:
        """Never: a frame may be read more than once."""
        del schema
        text = (
            "messages are consumed by readStream; spark.read.format('tandemq') shows what happened, and takes nothing"
        )
        raise InvalidRequest("BAD_OPTION", text, {"option": "format"}, definite=True)

    def streamReader(self, schema: StructType) -> BatchStream:  # noqa: N802 - Spark's name
        """Called at the start of a query, beside the driver, and for its tasks."""
        if schema != _schema():
            raise bad_option("schema", schema.simpleString(), "the columns are given: leave schema() out")
        options = parse(self._given)
        return BatchStream(replace(options, target=endpoints_of(options.target)))


def _schema() -> StructType:
    found: StructType = from_arrow_schema(SCHEMA)
    return found


class Taken(NamedTuple):
    """What an offset says."""

    number: int
    """The last one that was taken; 0: none."""
    seen: JournalPosition | None = None
    """Where the journal was then; None: an older version wrote it."""


@dataclass(frozen=True)
class Part(InputPartition):  # type: ignore[misc]  # as above
    """Some messages of one batch. Plain values: it is pickled on its way to an executor."""

    number: int
    first: int
    until: int
    seen: JournalPosition | None = None


class BatchStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # as above
    """One query's reader. Its planning half lives as long as the query, beside the driver; tasks get copies of it.

    Plain values only: Spark pickles it into each task.
    """

    def __init__(self, options: ConsumeOptions) -> None:
        self._options = options
        self._left: int | None = None
        """Of trigger(availableNow=True): messages that were there when the query began, and are in no batch yet."""
        self._planned: set[int] = set()
        """Numbers that this run has given to Spark to read, and has not acknowledged."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins: with the first batch that this consumer has not acknowledged."""
        with connect(self._options) as client:
            found = client.get_batches(self._options.queue, self._options.consumer)
        last = min((each.number for each in found.batches), default=found.last_number + 1) - 1
        return self._offset(Taken(last, found.position))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Takes the next batch, and says its number. `start` again when there is nothing.

        Raises Refused with reason PAIR_CHANGED, EPOCH_DIVERGED or OUT_OF_RANGE when this pair is not the one that the
        offset is of, or went back behind it.
        """
        options, (last, seen) = self._options, self._taken(start)
        most = min(limit.max_rows if isinstance(limit, ReadMaxRows) else options.max_rows, ROWS_MAX)
        if self._left is not None:
            most = min(most, self._left)
        if most < 1:
            return start
        with connect(options) as client:
            number = _next_number(client, options, last, seen)
            taken = client.lease_batch(
                options.queue,
                options.consumer,
                number,
                max_messages=most,
                max_bytes=options.max_bytes,
                lease=timedelta(seconds=options.lease_s),
                seen=seen,
            )
        if taken is None:
            return start
        if self._left is not None:
            self._left = max(0, self._left - taken.messages)
        if seen is None and taken.position is not None:
            text = (
                f"an offset that an older version kept names no history: it is taken for one of history "
                f"{taken.position.history_id}, and consumer {options.consumer} is held to it from now on"
            )
            _LOG.warning("%s", text)
        return self._offset(Taken(taken.number, taken.position))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """As the option maxRowsPerTrigger says."""
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Called before the first latestOffset: as many as are there now, and no more, though others come meanwhile."""
        options = self._options
        with connect(options) as client, contextlib.suppress(NotFound):  # latestOffset knows whose queue it was
            out = client.get_batches(options.queue, options.consumer).batches
            self._left = client.get_queue(options.queue).ready + sum(each.messages for each in out)

    def partitions(self, start: Offset, end: Offset) -> list[Part]:
        """Called once a micro-batch, and again with the same numbers after a crash.

        Raises Refused with reason BATCH_GONE when its lease has ended: its messages are delivered again. Otherwise as
        latestOffset does.
        """
        del start  # numbers between the two were gone before Spark had heard of them
        options, (number, seen) = self._options, self._taken(end)
        with connect(options) as client:  # taking it would make another one of what is gone
            out = client.get_batches(options.queue, options.consumer, seen=seen).batches
        batch = next((each for each in out if each.number == number), None)
        if batch is None:
            text = (
                f"batch {number} of consumer {options.consumer} of queue {options.queue} is gone: its lease has ended, "
                "and its messages are delivered again; begin with a new checkpoint"
            )
            raise Refused("BATCH_GONE", text, {"number": str(number)}, definite=True)
        self._planned.add(number)
        count = min(options.partitions, batch.messages)
        cuts = [round(batch.messages * at / count) for at in range(count + 1)]
        return [Part(number, first, until, seen) for first, until in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called in a task, and again when the task is repeated: the same rows, or a refusal (BATCH_GONE)."""
        assert isinstance(partition, Part)
        options = self._options
        with connect(options) as client:
            number, first, until = partition.number, partition.first, partition.until
            pages = client.read_batch(
                options.queue, options.consumer, number, first=first, until=until, seen=partition.seen
            )
            for page in pages:
                yield batch_of(options.queue, page)

    def commit(self, end: Offset) -> None:
        """All batches up to there are done: they are acknowledged. Spark never calls it for the last batch of a run
        (`finishing.finish`).

        Raises Refused with reason BATCH_GONE when that came too late.
        """
        taken = self._taken(end)
        with connect(self._options) as client:
            acknowledge(client, self._options, taken, known=taken.number in self._planned)
        self._planned.discard(taken.number)

    def stop(self) -> None:
        """The query is over. Nothing: what is not acknowledged waits for its next run, or for the end of its lease."""

    def _offset(self, taken: Taken) -> Offset:
        offset: dict[str, int | str] = {"number": taken.number}
        if taken.seen is not None and taken.seen.history_id:
            place = taken.seen
            offset |= {"log_index": place.log_index, "epoch": place.epoch, "history_id": place.history_id}
        return {self._options.queue: offset}

    def _taken(self, offset: Offset) -> Taken:
        return taken_of_offset(self._options, offset)


def taken_of_offset(options: ConsumeOptions, offset: Offset) -> Taken:
    """What an offset says. Raises InvalidRequest with reason BAD_CHECKPOINT when it is not of this query."""
    found = offset.get(options.queue, {})
    number, history_id = found.get("number"), found.get("history_id", "")
    log_index, epoch = found.get("log_index", 0), found.get("epoch", 0)
    if (
        list(offset) != [options.queue]
        or not isinstance(number, int)
        or not isinstance(log_index, int)
        or not isinstance(epoch, int)
        or not isinstance(history_id, str)
    ):
        text = f"the checkpoint says {dict(offset)!r}, this query consumes {options.queue}: give it one of its own"
        raise InvalidRequest("BAD_CHECKPOINT", text, {"queue": options.queue}, definite=True)
    return Taken(number, JournalPosition(log_index, epoch, history_id=history_id) if history_id else None)


def connect(options: ConsumeOptions) -> tandemq.Client:
    """A client of the target that the options name, or that tandemq.connect finds."""
    return tandemq.connect(options.target, timeout=options.timeout_s)


def acknowledge(client: tandemq.Client, options: ConsumeOptions, taken: Taken, *, known: bool) -> None:
    """`known`: this run has read it. Of an earlier one nobody may remember any more what became of it."""
    if taken.number < 1:
        return
    try:
        client.ack_batch(options.queue, options.consumer, taken.number, seen=taken.seen)
    except Refused as error:
        if known or error.reason != "BATCH_GONE":
            raise


def _next_number(client: tandemq.Client, options: ConsumeOptions, last: int, seen: JournalPosition | None) -> int:
    """The number after the last one that Spark has written down. Batches that were taken and of which it has not heard
    are the next ones, or, when their leases have ended, were never there.
    """
    found = client.get_batches(options.queue, options.consumer, seen=seen)
    waiting = [each.number for each in found.batches if each.number > last]
    return min(waiting, default=max(last, found.last_number) + 1)


def batch_of(queue: str, messages: list[ReceivedMessage]) -> pa.RecordBatch:
    """The rows of one page, in SCHEMA."""
    attributes = [message.attributes for message in messages]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([queue] * len(messages), pa.string()),
            pa.array([message.index for message in messages], pa.int64()),
            pa.array([message.id for message in messages], pa.binary()),
            pa.array([message.enqueue_time for message in messages], pa.timestamp("us", "UTC")),
            pa.array([message.delivery_count for message in messages], pa.int64()),
            pa.array([each.get("content_type") for each in attributes], pa.string()),
            pa.array([each.get("correlation_id") for each in attributes], pa.string()),
            pa.array([each.get("group_id") for each in attributes], pa.string()),
            pa.array([message.payload for message in messages], pa.binary()),
        ],
        schema=SCHEMA,
    )

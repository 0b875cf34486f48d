"""The data source of format("tandemq-consume"): a stream that takes messages out of a queue, and acknowledges them when
Spark commits.

A micro-batch is a numbered batch of the queue (docs/decisions/0025-numbered-batches.md): Spark writes its number down,
and gets the same messages for it after a crash, as long as the lease lives. An offset is {queue: {number}}, the last
number that is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema  # its name alone is of pandas
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

import tandemq
from tandemq.client.delivery import ReceivedMessage
from tandemq.errors import InvalidRequest, Refused
from tandemq.spark.consume_options import ROWS_MAX, ConsumeOptions, parse
from tandemq.spark.options import bad_option
from tandemq.spark.source import endpoints_of

Offset = dict[str, dict[str, int]]

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


@dataclass(frozen=True)
class Part(InputPartition):  # type: ignore[misc]  # as above
    """Some messages of one batch. Plain values: it is pickled on its way to an executor."""

    number: int
    first: int
    until: int


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
        return self._offset(min((each.number for each in found.batches), default=found.last_number + 1) - 1)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Takes the next batch, and says its number. `start` again when there is nothing."""
        options, last = self._options, self._number(start)
        most = min(limit.max_rows if isinstance(limit, ReadMaxRows) else options.max_rows, ROWS_MAX)
        if self._left is not None:
            most = min(most, self._left)
        if most < 1:
            return start
        with connect(options) as client:
            number = _next_number(client, options, last)
            taken = client.lease_batch(
                options.queue,
                options.consumer,
                number,
                max_messages=most,
                max_bytes=options.max_bytes,
                lease=timedelta(seconds=options.lease_s),
            )
        if taken is None:
            return start
        if self._left is not None:
            self._left = max(0, self._left - taken.messages)
        return self._offset(taken.number)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """As the option maxRowsPerTrigger says."""
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Called before the first latestOffset: as many as are there now, and no more, though others come meanwhile."""
        options = self._options
        with connect(options) as client:
            out = client.get_batches(options.queue, options.consumer).batches
            self._left = client.get_queue(options.queue).ready + sum(each.messages for each in out)

    def partitions(self, start: Offset, end: Offset) -> list[Part]:
        """Called once a micro-batch, and again with the same numbers after a crash.

        Raises Refused with reason BATCH_GONE when its lease has ended: its messages are delivered again.
        """
        del start  # numbers between the two were gone before Spark had heard of them
        options, number = self._options, self._number(end)
        with connect(options) as client:  # taking it would make another one of what is gone
            out = client.get_batches(options.queue, options.consumer).batches
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
        return [Part(number, first, until) for first, until in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called in a task, and again when the task is repeated: the same rows, or a refusal (BATCH_GONE)."""
        assert isinstance(partition, Part)
        options = self._options
        with connect(options) as client:
            for page in client.read_batch(
                options.queue, options.consumer, partition.number, first=partition.first, until=partition.until
            ):
                yield batch_of(options.queue, page)

    def commit(self, end: Offset) -> None:
        """All batches up to there are done: they are acknowledged. Spark never calls it for the last batch of a run
        (`finishing.finish`).

        Raises Refused with reason BATCH_GONE when that came too late.
        """
        number = self._number(end)
        with connect(self._options) as client:
            acknowledge(client, self._options, number, known=number in self._planned)
        self._planned.discard(number)

    def stop(self) -> None:
        """The query is over. Nothing: what is not acknowledged waits for its next run, or for the end of its lease."""

    def _offset(self, number: int) -> Offset:
        return {self._options.queue: {"number": number}}

    def _number(self, offset: Mapping[str, Mapping[str, int]]) -> int:
        return number_of_offset(self._options, offset)


def number_of_offset(options: ConsumeOptions, offset: Mapping[str, Mapping[str, int]]) -> int:
    """The last number in an offset. Raises InvalidRequest with reason BAD_CHECKPOINT when it is not of this query."""
    number = offset.get(options.queue, {}).get("number")
    if list(offset) != [options.queue] or not isinstance(number, int):
        text = f"the checkpoint says {dict(offset)!r}, this query consumes {options.queue}: give it one of its own"
        raise InvalidRequest("BAD_CHECKPOINT", text, {"queue": options.queue}, definite=True)
    return number


def connect(options: ConsumeOptions) -> tandemq.Client:
    """A client of the target that the options name, or that tandemq.connect finds."""
    return tandemq.connect(options.target, timeout=options.timeout_s)


def acknowledge(client: tandemq.Client, options: ConsumeOptions, number: int, *, known: bool) -> None:
    """`known`: this run has read it. Of an earlier one nobody may remember any more what became of it."""
    if number < 1:
        return
    try:
        client.ack_batch(options.queue, options.consumer, number)
    except Refused as error:
        if known or error.reason != "BATCH_GONE":
            raise


def _next_number(client: tandemq.Client, options: ConsumeOptions, last: int) -> int:
    """The number after the last one that Spark has written down. Batches that were taken and of which it has not heard
    are the next ones, or, when their leases have ended, were never there.
    """
    found = client.get_batches(options.queue, options.consumer)
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

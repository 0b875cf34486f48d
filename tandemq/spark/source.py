"""The data source of format("tandemq"), to read the journal and to write to queues.

It filters nothing for Spark: what is wanted is said in options.

Spark 4.3 remembers filters that a source took over from one query to the next and then gives wrong answers
(tests/spark/test_pushdown.py), so there is no pushFilters here.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema  # its name alone is of pandas
from pyspark.sql.types import StructType

from tandemq.client.target import NoTarget
from tandemq.errors import InvalidRequest
from tandemq.finding.default import resolve_target
from tandemq.spark import write_options
from tandemq.spark.columns import SCHEMA, WITH_ATTRIBUTES
from tandemq.spark.options import Options, bad_option, parse, wants_attributes
from tandemq.spark.places import Span, connect, plan
from tandemq.spark.reading import batches
from tandemq.spark.stream import JournalStream
from tandemq.spark.write_options import WriteOptions
from tandemq.spark.writer import BatchWriter, StreamWriter


class TandemqSource(DataSource):  # type: ignore[misc]  # pyspark is not looked into: it may not be installed
    """What happened on the queues of a pair, a row an operation; docs/SPARK.md has its options and columns.

    Options are checked where load() is called; nothing is asked of a member before the read is planned.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        """As in format("tandemq")."""
        return "tandemq"

    def schema(self) -> StructType:
        """The same columns for the same options."""
        return _schema(attributes=wants_attributes(self._given))

    def reader(self, schema: StructType) -> JournalReader:
        """Called once a load(), beside the driver."""
        _check_schema(schema, self.schema())
        return JournalReader(self._options(streaming=False))

    def streamReader(self, schema: StructType) -> JournalStream:  # noqa: N802 - Spark's name
        """Called at the start of a query, beside the driver, and for its tasks."""
        _check_schema(schema, self.schema())
        return JournalStream(self._options(streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Called once a save(), beside the driver."""
        return BatchWriter(self._write_options(schema, overwrite=overwrite, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's
        """Called for each micro-batch, beside the driver."""
        return StreamWriter(self._write_options(schema, overwrite=overwrite, streaming=True))

    def _options(self, *, streaming: bool) -> Options:
        """Read, with the target as executors will need it: they have neither our environment nor our context."""
        options = parse(self._given, streaming=streaming)
        return replace(options, target=endpoints_of(options.target))

    def _write_options(self, schema: StructType, *, overwrite: bool, streaming: bool) -> WriteOptions:
        if overwrite:
            text = "a queue is not overwritten: use mode('append'), and outputMode('append') or 'update' of a stream"
            raise InvalidRequest("BAD_OPTION", text, {"option": "mode"}, definite=True)
        options = write_options.parse(self._given, streaming=streaming)
        write_options.check_columns([(each.name, each.dataType.simpleString()) for each in schema.fields], options)
        return replace(options, target=endpoints_of(options.target))


class JournalReader(DataSourceReader):  # type: ignore[misc]  # as above
    """Reads a range once. Plain values only: Spark pickles it into each task."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[Span]:
        """Called once a query, beside the driver: the range is fixed here."""
        with connect(self._options) as client:
            return plan(client, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called in a task, and again when the task is repeated: the same rows, or a refusal."""
        assert isinstance(partition, Span)
        return batches(self._options, partition)


def endpoints_of(named: str | None) -> str | None:
    """Where executors find it: they have neither our environment nor our context."""
    try:
        target = resolve_target(named)
    except NoTarget as error:
        raise bad_option("target", named or "", str(error)) from error
    return ",".join(target.endpoints) if target.endpoints else named


def _schema(*, attributes: bool) -> StructType:
    found: StructType = from_arrow_schema(WITH_ATTRIBUTES if attributes else SCHEMA)
    return found


def _check_schema(schema: StructType, wanted: StructType) -> None:
    if schema != wanted:
        text = f"the columns are given: leave schema() out; {schema.simpleString()} is not {wanted.simpleString()}"
        raise InvalidRequest("BAD_OPTION", text, {"option": "schema"}, definite=True)

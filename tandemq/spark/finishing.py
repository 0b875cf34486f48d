"""Tells the pair what the last micro-batch of a run has done.

Spark commits a micro-batch to its source while it plans the next one: the last batch of a run, of every run with
trigger(availableNow=True), is never committed. Whoever runs a query says so himself once it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tandemq.client.places import JournalPosition
from tandemq.errors import InvalidRequest
from tandemq.spark import consume, consume_options
from tandemq.spark.naming import advance
from tandemq.spark.options import bad_option, parse
from tandemq.spark.places import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER_LINES = 2
"""Of a file of offsets: its version, and what Spark itself has noted; then a line a source."""


def finish(spark: SparkSession, checkpoint: str, options: Mapping[str, str], *, source: int = 0) -> None:
    """Do for a query that has ended what Spark does not: advance its named reader to where its checkpoint is, or, of a
    query with a `consumer`, acknowledge its last micro-batch. It may be repeated.

    checkpoint: as checkpointLocation of the query. options: as they were given to readStream. source: which one of the
    query's sources, in its order. Raises InvalidRequest with reason BAD_OPTION without reader and consumer,
    BAD_CHECKPOINT for what is no place of this source; Refused with reason READER_LOST, BATCH_GONE or PAIR_CHANGED as
    the query itself would.
    """
    if "consumer" in {key.lower() for key in options}:
        _acknowledge(spark, checkpoint, options, source)
        return
    wanted = parse(options, streaming=True)
    if not wanted.reader:
        raise bad_option("reader", "", "only a query with a reader or a consumer has something to tell in the end")
    offset = committed(spark, checkpoint, source)
    if offset is None:
        return  # it has not committed anything yet
    (domain, place), *others = offset.items()
    if others or not isinstance(place, dict) or not {"log_index", "epoch"} <= place.keys():
        raise _bad(checkpoint, f"{offset!r} is no place of a journal")
    with connect(wanted) as client:
        advance(
            client,
            wanted,
            domain,
            JournalPosition(place["log_index"], place["epoch"], history_id=place.get("history_id", "")),
        )


def _acknowledge(spark: SparkSession, checkpoint: str, options: Mapping[str, str], source: int) -> None:
    wanted = consume_options.parse(options)
    offset = committed(spark, checkpoint, source)
    if offset is not None:
        taken = consume.taken_of_offset(wanted, offset)
        with consume.connect(wanted) as client:
            consume.acknowledge(client, wanted, taken, known=True)


def committed(spark: SparkSession, checkpoint: str, source: int = 0) -> dict[str, Any] | None:
    """The offset at the end of the last micro-batch that is done; None: there is none yet."""
    from py4j.protocol import Py4JJavaError

    context = spark.sparkContext
    try:
        done = [int(name.rsplit("/", 1)[1]) for name, _ in context.wholeTextFiles(f"{checkpoint}/commits/*").collect()]
        if not done:
            return None
        ((_, text),) = context.wholeTextFiles(f"{checkpoint}/offsets/{max(done)}").collect()
    except (Py4JJavaError, ValueError) as error:
        if "matches 0 files" in str(error):
            return None
        raise _bad(checkpoint, f"it cannot be read: {str(error).splitlines()[0]}") from error
    lines = text.splitlines()[HEADER_LINES:]
    if not 0 <= source < len(lines):
        raise _bad(checkpoint, f"there is no source {source}, the query has {len(lines)}")
    found = json.loads(lines[source])
    if not isinstance(found, dict) or not found:
        raise _bad(checkpoint, f"{found!r} is no offset of this source")
    return found


def _bad(checkpoint: str, why: str) -> InvalidRequest:
    return InvalidRequest("BAD_CHECKPOINT", f"{checkpoint}: {why}", {"checkpoint": checkpoint}, definite=True)

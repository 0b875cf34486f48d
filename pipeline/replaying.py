"""Decides which messages a replay sends, in which batches and what it reports of them. Frames in, frames out.

Messages of both members' journals are the same ones: each is sent once. The order is that of the log, so it is each
queue's own. A replay that has a writer's name may be repeated after a crash: its batches are cut by log indexes alone,
and the pair knows each by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from pipeline.schema import ATTRIBUTES, PROPERTIES, names
from tandemq.client.delivery import RESERVED
from tandemq.spark.write_options import TEXTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GIVEN_BACK = tuple(name for name in names(ATTRIBUTES) if name not in (PROPERTIES, "dedup_id"))
RECORDS = 64
"""Records are counted, and cut, in groups of so many: a record has at most 4 MiB."""


class Wanted(NamedTuple):
    """Which messages."""

    queues: tuple[str, ...] = ()
    """Empty: all."""
    from_log_index: int = 0
    until_log_index: int = 0
    """The first record that is left out; 0: none."""


class Slice(NamedTuple):
    """One batch: records from..until-1."""

    from_log_index: int
    until_log_index: int
    rows: int


def chosen(journal: DataFrame, wanted: Wanted) -> DataFrame:
    """Messages that entered queues: log_index, queue, index, payload, and what stood beside it; each once. Where one
    copy has no payload, or an older version kept it without its attributes, the other one's counts.
    """
    from pyspark.sql import functions as fn

    rows = journal.where("kind = 'ENQUEUED' AND queue IS NOT NULL").where(fn.col("log_index") >= wanted.from_log_index)
    if wanted.until_log_index:
        rows = rows.where(fn.col("log_index") < wanted.until_log_index)
    if wanted.queues:
        rows = rows.where(fn.col("queue").isin(*wanted.queues))
    beside = fn.struct(*names(ATTRIBUTES))
    rich = fn.greatest(*(fn.col(name).isNotNull().cast("int") for name in names(ATTRIBUTES)))
    found = rows.groupBy("log_index", "epoch", "queue", "index").agg(
        fn.max("payload").alias("payload"),
        fn.max_by(beside, fn.when(fn.col("payload").isNotNull(), rich)).alias("beside"),
    )
    return found.select("log_index", "queue", "index", "payload", "beside.*")


def summary(messages: DataFrame) -> DataFrame:
    """A row a queue: queue, rows, bytes, without_payload, first_index, last_index, from_log_index, last_log_index."""
    from pyspark.sql import functions as fn

    return (
        messages.groupBy("queue")
        .agg(
            fn.count("*").alias("rows"),
            fn.coalesce(fn.sum(fn.length("payload")), fn.lit(0)).alias("bytes"),
            fn.sum(fn.expr("if(payload IS NULL, 1, 0)")).alias("without_payload"),
            fn.min("index").alias("first_index"),
            fn.max("index").alias("last_index"),
            fn.min("log_index").alias("from_log_index"),
            fn.max("log_index").alias("last_log_index"),
        )
        .orderBy("queue")
    )


def groups(messages: DataFrame) -> DataFrame:
    """Rows and bytes of each group of RECORDS records, in order: what `slices` cuts."""
    from pyspark.sql import functions as fn

    place = fn.floor(fn.col("log_index") / RECORDS)
    texts = [fn.length(name) for name in (*TEXTS, fn.to_json("properties"))]
    size = reduce(add, (fn.coalesce(each, fn.lit(0)) for each in texts), fn.length("payload"))
    sums = fn.count("*").alias("rows"), fn.sum(size).alias("bytes")
    return messages.where("payload IS NOT NULL").groupBy(place.alias("place")).agg(*sums).orderBy("place")


def slices(counted: Sequence[tuple[int, int, int]], rows_max: int, bytes_max: int) -> list[Slice]:
    """Batches of at most so many rows and bytes, or of one group; counted: (place, rows, bytes), in order.

    The same for the same messages, and the same up to its end for more messages behind them.
    """
    found: list[Slice] = []
    size = 0
    for place, rows, more in counted:
        until = (place + 1) * RECORDS
        if found and found[-1].rows + rows <= rows_max and size + more <= bytes_max:
            found[-1] = Slice(found[-1].from_log_index, until, found[-1].rows + rows)
            size += more
        else:
            found.append(Slice(place * RECORDS, until, rows))
            size = more
    return found


def batch(messages: DataFrame, part: Slice, to: str) -> DataFrame:
    """What one batch sends, in the order of the log: columns of a message. to: where all goes; empty: where it was.

    Without what nobody may send: the properties of the manager, and the id by which a repetition is recognised.
    """
    from pyspark.sql import functions as fn

    rows = messages.where("payload IS NOT NULL").where(
        (fn.col("log_index") >= part.from_log_index) & (fn.col("log_index") < part.until_log_index)
    )
    queue = fn.lit(to) if to else fn.col("queue")
    own = fn.map_filter(PROPERTIES, lambda name, _value: ~fn.startswith(name, fn.lit(RESERVED)))
    return rows.orderBy("log_index", "queue", "index").select(
        "payload", queue.alias("queue"), *GIVEN_BACK, own.alias(PROPERTIES)
    )

"""Gives the audit's rows their shape: violations, places of messages, names of queues. DataFrame in, DataFrame out."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from chaos.journals import ENDED, LEASE_BITS, REJECTED, TOUCHES
from pipeline.schema import VIOLATIONS

BUCKET_BITS = 12
"""A bucket has 4,096 indexes: a digest for so many rows, and so few rows to look at where two digests differ."""
NO_LOG_INDEX = (1 << 63) - 1


def bucket(column: str) -> Column:
    """In which bucket an index or a log index is."""
    return F.shiftright(F.col(column), BUCKET_BITS)


def violations_of(found: DataFrame, kind: str = "") -> DataFrame:
    """Rows of VIOLATIONS; columns that `found` does not have are null. Without a kind, it has that column."""
    given = {"kind": F.lit(kind), **{name: F.col(f"`{name}`") for name in found.columns}}
    return found.select(
        *(given.get(column.name, F.lit(None)).cast(column.kind).alias(column.name) for column in VIOLATIONS)
    )


def entered(journal: DataFrame) -> DataFrame:
    """The rows of messages that entered a queue."""
    return journal.where(F.col("kind") == "ENQUEUED")


def ended(journal: DataFrame) -> DataFrame:
    """A row for each message that left its queue or was rejected: a row of the journal is about a range of them."""
    return each_of(journal, ENDED | {REJECTED})


def touched(journal: DataFrame) -> DataFrame:
    """The same, of leases and of all that refers to one."""
    return each_of(journal, TOUCHES)


def each_of(journal: DataFrame, kinds: Collection[str]) -> DataFrame:
    """A row for each message of these rows."""
    rows = journal.where(F.col("kind").isin(*sorted(kinds)) & (F.col("count") > 0))
    last = F.col("index") + F.col("count") - 1
    return rows.withColumn("index", F.explode(F.sequence(F.col("index"), last)))


def lease_log(lease_id: str) -> Column:
    """The log index of the record that gave a lease."""
    return F.col(lease_id).bitwiseAND((1 << LEASE_BITS) - 1)


def id_of_record(epoch: str, log_index: str) -> Column:
    """What the id of each message of a record has: 32 bits of the epoch, 48 of the log index."""
    low = F.lpad(F.hex(F.col(epoch).bitwiseAND(0xFFFF_FFFF)), 8, "0")
    return F.unhex(F.concat(low, F.lpad(F.hex(log_index), 12, "0")))


def log_index_of(message_id: str) -> Column:
    """The record that stored a message, out of its id (docs/PROTOCOL.md). Null without one."""
    return F.conv(F.hex(F.substring(F.col(message_id), 9, 6)), 16, 10).cast("bigint")


def ordinal_of(message_id: str) -> Column:
    """Its place in the batch that it was sent in; 0 without an id."""
    found = F.conv(F.hex(F.substring(F.col(message_id), 15, 2)), 16, 10).cast("bigint")
    return F.coalesce(found, F.lit(0).cast("bigint"))


def queue_names(journal: DataFrame, heads: DataFrame) -> DataFrame:
    """queue, queue_id, and from which log index to which the name meant that queue (the end is not in it)."""
    rows = (
        journal.where(F.col("queue").isNotNull()).groupBy("queue", "queue_id").agg(F.min("log_index").alias("from_row"))
    )
    said = heads.where(F.col("queue").isNotNull() & F.col("queue_id").isNotNull())
    said = said.groupBy("queue", "queue_id").agg(F.min("first_log_index").alias("from_head"))
    both = rows.join(said, ["queue", "queue_id"], "full_outer").select(
        "queue", "queue_id", F.coalesce("from_row", "from_head").alias("from_log")
    )
    of_name = Window.partitionBy("queue").orderBy("from_log", "queue_id")
    first = F.row_number().over(of_name) == 1
    return both.select(
        "queue",
        "queue_id",
        F.when(first, F.lit(0)).otherwise(F.col("from_log")).alias("from_log"),
        F.coalesce(F.lead("from_log").over(of_name), F.lit(NO_LOG_INDEX)).alias("to_log"),
    )


def placed(history: DataFrame, queues: DataFrame) -> DataFrame:
    """The history with queue_id, null where the journals do not know the name, and id_log, the record of the id.

    A name that was used again means the queue of the time at which the message was stored.
    """
    named = F.broadcast(queues.withColumnRenamed("queue", "name"))
    said = history.withColumn("id_log", log_index_of("id"))
    at = F.coalesce("id_log", F.lit(NO_LOG_INDEX - 1))
    return said.join(
        named, (F.col("queue") == F.col("name")) & (at >= F.col("from_log")) & (at < F.col("to_log")), "left"
    ).drop("name", "from_log", "to_log")


def with_names(found: DataFrame, queues: DataFrame) -> DataFrame:
    """Adds `queue`, by queue_id; null where its name is not known."""
    by_id = queues.groupBy("queue_id").agg(F.max("queue").alias("queue"))
    return found.drop("queue").join(F.broadcast(by_id), "queue_id", "left")

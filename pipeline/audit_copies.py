"""Compares the two members' journals: digests of buckets first, and rows only where two of them differ."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from chaos.journals import COPIES_DIFFER, NOTHING, Span
from pipeline.audit_rows import BUCKET_BITS, bucket, each_of, violations_of
from pipeline.schema import ATTRIBUTES, PROPERTIES, names

# All but the name of the queue, which is gone with it, and the body, which not every member can show.
CONTENT = (
    "log_index, epoch, time, kind, queue_id, `index`, `count`, id, id is null, lease_id, producer, producer is null, "
    "sequence"
)
WORD_BITS = 6
HALF = 0xFFFF_FFFF
"""Sums of halves of hashes stay within a BIGINT for two billion rows a bucket."""


def shown_columns() -> list[Column]:
    """What not every member can show: the body, and what stood beside it. Maps neither hash nor sort, entries do."""
    plain = [F.col(name) for name in names(ATTRIBUTES) if name != PROPERTIES]
    return [F.col("payload"), *plain, F.map_entries(PROPERTIES)]


def is_any_shown() -> Column:
    """Any of it is there."""
    return reduce(or_, (each.isNotNull() for each in shown_columns()))


def digests(journal: DataFrame) -> DataFrame:
    """member, epoch, bucket of log indexes: first_log, last_log, rows, how many records have one, and what
    distinguishes the contents and bodies of those rows that are compared.

    Words of 64 records first: which of them are there is one number. A set of them for a whole bucket is no number, and
    Spark sorts all rows for an aggregate that keeps such a thing.
    """
    content, body = (
        F.expr(f"xxhash64({CONTENT})"),
        F.when(is_any_shown(), F.xxhash64("log_index", "index", *shown_columns())),
    )
    compared = F.col("kind") != NOTHING
    word = F.shiftright("log_index", WORD_BITS).alias("word")
    words = journal.groupBy("member", "epoch", word).agg(
        F.min("log_index").alias("first_log"),
        F.max("log_index").alias("last_log"),
        F.count(F.lit(1)).alias("rows"),
        F.bit_or(F.expr(f"shiftleft(1L, cast(log_index & {(1 << WORD_BITS) - 1} as int))")).alias("there"),
        F.count_if(compared).alias("compared"),
        F.sum(F.when(compared, content.bitwiseAND(HALF)).otherwise(0)).alias("content_sum"),
        F.bit_xor(F.when(compared, content).otherwise(0)).alias("content_xor"),
        F.count(body).alias("bodies"),
        F.coalesce(F.sum(body.bitwiseAND(HALF)), F.lit(0)).alias("body_sum"),
    )
    return words.groupBy("member", "epoch", F.shiftright("word", BUCKET_BITS - WORD_BITS).alias("bucket")).agg(
        F.min("first_log").alias("first_log"),
        F.max("last_log").alias("last_log"),
        F.sum(F.bit_count("there")).alias("records"),
        F.bit_xor("content_xor").alias("content_xor"),
        *(F.sum(name).alias(name) for name in ("rows", "compared", "content_sum", "bodies", "body_sum")),
    )


def differing_buckets(found: DataFrame, members: tuple[str, str], first: int, end: int) -> DataFrame:
    """bucket: those with log indexes from `first` to before `end` whose digests differ between the two members."""
    columns = ["epoch", "compared", "content_sum", "content_xor", "bodies", "body_sum"]
    inside = found.where(
        (F.col("compared") > 0)
        & (bucket("last_log") >= (first >> BUCKET_BITS))
        & (bucket("first_log") <= ((end - 1) >> BUCKET_BITS))
    )
    by_member = inside.groupBy("bucket").agg(
        *(
            F.sort_array(F.collect_list(F.when(F.col("member") == member, F.struct(*columns)))).alias(f"side{at}")
            for at, member in enumerate(members)
        )
    )
    return by_member.where(F.col("side0") != F.col("side1")).select("bucket")


def once_volatile(journal: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Messages that became persistent; and by queue the last record that may have started to make them so."""
    saved = each_of(journal, {"SAVED"}).select("queue_id", "index").distinct().withColumn("saved", F.lit(True))
    changed = journal.where(F.col("kind") == "CONFIGURED").groupBy("queue_id")
    return saved, changed.agg(F.max("log_index").alias("changed"))


def copies_equal(journal: DataFrame, buckets: DataFrame, members: tuple[str, str], first: int, end: int) -> DataFrame:
    """Violations: rows of these buckets that one member does not have, or has with another content.

    A body, or what stood beside it, that one member cannot show is one, unless the message was volatile when the page
    was made.
    """
    at = F.col("log_index")
    inside = journal.where((at >= first) & (at < end) & (F.col("kind") != NOTHING))
    rows = inside.withColumn("bucket", bucket("log_index")).join(F.broadcast(buckets), "bucket", "left_semi")
    key = ["log_index", "kind", "queue_id", "index", "lease_id"]
    content = F.struct("epoch", "time", "count", "id", "producer", "sequence")
    text = F.concat_ws(
        " ",
        "kind",
        F.col("index").cast("string"),
        F.lit("at"),
        F.concat_ws("/", F.col("log_index").cast("string"), F.col("epoch").cast("string")),
        F.concat(F.lit("id "), F.lower(F.hex("id"))),
    )
    sides = []
    for number, member in enumerate(members):
        mine = F.col("member") == member
        sides += [
            F.sort_array(F.collect_list(F.when(mine, content))).alias(f"content{number}"),
            F.sort_array(F.collect_list(F.when(mine & is_any_shown(), F.struct(*shown_columns())))).alias(
                f"bodies{number}"
            ),
            F.concat_ws(", ", F.sort_array(F.collect_list(F.when(mine, text)))).alias(f"says{number}"),
            F.max(F.when(mine, F.lower(F.hex("id")))).alias(f"id{number}"),
        ]
    by_key = rows.groupBy(*key).agg(
        *sides,
        F.max("queue").alias("queue"),
        F.max("count").alias("count"),
        F.bool_and(F.col("payload").isNotNull()).alias("visible"),
    )
    saved, changed = once_volatile(journal)
    unlike = (F.col("content0") != F.col("content1")) | (F.col("bodies0") != F.col("bodies1"))
    candidates = by_key.where(unlike).join(saved, ["queue_id", "index"], "left").join(changed, "queue_id", "left")
    volatile = F.coalesce("saved", F.col("changed") > F.col("log_index"), F.lit(False))
    differ = (F.col("content0") != F.col("content1")) | F.col("visible") | ~volatile
    says = [
        F.concat(F.lit(f"{member}: "), F.when(F.col(f"says{at}") == "", "nothing").otherwise(F.col(f"says{at}")))
        for at, member in enumerate(members)
    ]
    found = (
        candidates.where(differ)
        .withColumn("id", F.coalesce("id0", "id1"))
        .withColumn("journals", F.concat_ws("; ", *says))
        .drop("kind")
    )
    return violations_of(found, COPIES_DIFFER)


class Reach(NamedTuple):
    """From the first to the last record of an epoch at a member, how many rows they have, and how many have one."""

    first: int
    last: int
    rows: int
    records: int


def reaches(found: DataFrame) -> dict[tuple[str, int], Reach]:
    """By member and epoch, out of the digests."""
    rows = (
        found.groupBy("member", "epoch")
        .agg(F.min("first_log"), F.max("last_log"), F.sum("rows"), F.sum("records"))
        .collect()
    )
    return {(row[0], row[1]): Reach(*row[2:]) for row in rows}


def spans_of(reach: dict[tuple[str, int], Reach], heads: DataFrame) -> dict[str, Span]:
    """By member: which records are there or should be."""
    columns = heads.groupBy("member").agg(F.min("first_log_index"), F.max("next_log_index")).collect()
    found: dict[str, Span] = {}
    rows = [(member, each.first, each.last + 1) for (member, _), each in reach.items()]
    for member, first, end in (*rows, *(tuple(row) for row in columns)):
        span = found.get(member, Span(first, end))
        found[member] = Span(min(span.first, first), max(span.next, end))
    return dict(sorted(found.items()))

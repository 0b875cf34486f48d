"""Looks at messages one by one: one pass finds those that may be wrong, and only these are looked at closely.

`side` is the journal that a row is judged in: 0 where both members' journals agree and are one history, else 0 and 1.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from chaos.journals import (
    CONSUMED,
    DUPLICATE,
    ENDED,
    GHOST,
    INDEX_TWICE,
    LOST,
    MOVED_HERE,
    REJECTED,
    SETTLE_LOST,
    SETTLED_TWICE,
    UNSENT,
)
from pipeline.audit_rows import BUCKET_BITS, ended, entered, ordinal_of, violations_of
from pipeline.schema import ACK, FAIL, SEND

PLACE = ["queue_id", "index"]
# Counters of one message share a BIGINT, so that a message is a narrow row in the shuffle: 65,536 rows of one kind
# about one message would carry into the next counter, which is a violation as well.
ENTERED, LEFT, REFUSED, TAKEN = 0, 16, 32, 48
ACKS = 32


def suspects(judged: DataFrame, told: DataFrame, watched: DataFrame) -> DataFrame:
    """Places that something is, or may be, wrong with: queue_id, index, name, and a flag for each kind of it.

    judged: the journal with `side`. told: what was answered ok with an index, placed. watched: queue_id, name.
    """
    counted = (
        _events(judged, told)
        .groupBy(*PLACE)
        .agg(
            *(F.sum(name).alias(name) for name in ("side0", "side1", "answers")),
            *(f(name).alias(f"{name}_{f.__name__}") for name in ("stored", "sent") for f in (F.min, F.max)),
        )
    )
    counts = counted.select(
        *PLACE,
        "answers",
        *("stored_min", "stored_max", "sent_min", "sent_max"),
        *(_field(f"side{side}", at, 16).alias(f"{name}{side}") for side in (0, 1) for name, at in _FIELDS.items()),
    )
    is_there = F.col("entered0") + F.col("entered1") > 0
    sends, acks = _field("answers", 0, 32), F.shiftright("answers", ACKS)
    is_named = F.col("sent_min").isNull() | (
        (F.col("sent_min") == F.col("sent_max"))
        & ((F.col("sent_min") == F.col("stored_min")) | (F.col("sent_min") == F.col("stored_max")))
    )
    settled = sum((F.col(name) for name in ("taken0", "taken1", "refused0", "refused1")), F.lit(0))
    flags = counts.select(
        *PLACE,
        ((F.col("entered0") > 1) | (F.col("entered1") > 1)).alias("twice"),
        (_settled_twice(0) | _settled_twice(1)).alias("settled_twice"),
        ((sends > 0) & ~(is_there & is_named)).alias("maybe_lost"),
        ((acks > 0) & is_there & (settled == 0)).alias("settle_lost"),
        (is_there & (sends == 0)).alias("unanswered"),
    )
    marked = flags.where(" or ".join(_FLAGS)).join(F.broadcast(watched), "queue_id", "left")
    unasked = F.col("unanswered") & F.col("name").isNotNull()
    return marked.withColumn("unanswered", unasked).where(" or ".join(_FLAGS))


_FIELDS = {"entered": ENTERED, "left": LEFT, "refused": REFUSED, "taken": TAKEN}
_FLAGS = ("twice", "settled_twice", "maybe_lost", "settle_lost", "unanswered")


def _events(judged: DataFrame, told: DataFrame) -> DataFrame:
    """What each row adds to the counters of its message, and the hash of the id that it names."""

    def by_side(weight: Column) -> list[Column]:
        return [F.when(F.col("side") == side, weight).otherwise(0).alias(f"side{side}") for side in (0, 1)]

    none = F.lit(None).cast("bigint")
    kind = F.col("kind")
    weight = (
        F.when(kind.isin(*ENDED), F.lit(1 << LEFT)).otherwise(F.lit(0))
        + F.when(kind == REJECTED, F.lit(1 << REFUSED)).otherwise(F.lit(0))
        + F.when(kind.isin(*CONSUMED), F.lit(1 << TAKEN)).otherwise(F.lit(0))
    )
    zero = F.lit(0).cast("bigint")
    came = entered(judged).select(
        *PLACE,
        *by_side(F.lit(1).cast("bigint")),
        zero.alias("answers"),
        F.xxhash64("id").alias("stored"),
        none.alias("sent"),
    )
    went = ended(judged).select(
        *PLACE, *by_side(weight), zero.alias("answers"), none.alias("stored"), none.alias("sent")
    )
    is_send = F.col("op") == SEND
    answers = told.where(F.col("op").isin(SEND, ACK)).select(
        *PLACE,
        zero.alias("side0"),
        zero.alias("side1"),
        F.when(is_send, F.lit(1)).otherwise(F.lit(1 << ACKS)).alias("answers"),
        none.alias("stored"),
        F.when(is_send & F.col("id").isNotNull(), F.xxhash64("id")).alias("sent"),
    )
    return came.unionByName(went).unionByName(answers)


def _field(column: str, at: int, bits: int) -> Column:
    return F.shiftright(column, at).bitwiseAND((1 << bits) - 1)


def _settled_twice(side: int) -> Column:
    left, refused, taken = (F.col(f"{name}{side}") for name in ("left", "refused", "taken"))
    return (left > 1) | (refused > 1) | ((refused > 0) & (taken > 0))


def certain(found: DataFrame) -> DataFrame:
    """Violations for which the counters are the proof."""
    kinds = {INDEX_TWICE: "twice", SETTLED_TWICE: "settled_twice", SETTLE_LOST: "settle_lost"}
    kind = F.explode(F.array(*(F.when(F.col(flag), F.lit(name)) for name, flag in kinds.items())))
    rows = found.select(*PLACE, F.lit(1).alias("count"), kind.alias("kind"))
    return violations_of(rows.where(F.col("kind").isNotNull()))


def lost(
    found: DataFrame, journal: DataFrame, told: DataFrame, *, first_log_index: int, queues: DataFrame
) -> DataFrame:
    """Violations: sends that were answered ok, of a time that is kept, and are in no journal under their id and index.

    queues: queue_id, first_index: the lowest that is kept, for who was told no id.
    """
    places = found.where("maybe_lost").select(F.col("queue_id").alias("at_queue"), F.col("index").alias("at_index"))
    same = F.col("queue_id").eqNullSafe(F.col("at_queue")) & (F.col("index") == F.col("at_index"))
    asked = (
        told.where(F.col("op") == SEND)
        .join(places, same, "left_semi")
        .select("queue", "queue_id", "index", "id", "id_log")
    )
    stored = entered(journal).select(F.col("id").alias("stored_id"), F.col("index").alias("stored_at"), "queue_id")
    by_id = asked.where(F.col("id").isNotNull())
    there = (
        stored.select("stored_id", "stored_at")
        .join(by_id.select("id", "index"), (F.col("stored_id") == F.col("id")) & (F.col("stored_at") == F.col("index")))
        .select("id", "index")
        .distinct()
    )
    nameless = asked.where(F.col("id").isNull())
    filled = stored.select("queue_id", F.col("stored_at").alias("index")).join(
        nameless.select(*PLACE), PLACE, "left_semi"
    )
    gone = by_id.join(there, ["id", "index"], "left_anti").where(F.col("id_log") >= first_log_index)
    first = F.when(F.lit(first_log_index <= 1), F.lit(0).cast("bigint")).otherwise(F.col("first_index"))
    also_gone = (
        nameless.join(filled.distinct(), PLACE, "left_anti")
        .join(queues.select("queue_id", "first_index"), "queue_id", "left")
        .where(F.col("index") >= first)
        .select(*by_id.columns)
    )
    both = gone.unionByName(also_gone).select(
        "queue", *PLACE, F.lower(F.hex("id")).alias("id"), F.lit(1).alias("count")
    )
    return violations_of(both.distinct(), LOST)


def unasked(found: DataFrame, journal: DataFrame, history: DataFrame) -> DataFrame:
    """Violations: messages in watched queues that nobody sent, or whose sender was told that they are not stored.

    One whose outcome its sender does not know is neither. history: placed; a name that no journal knows may be another
    one of the same queue.
    """
    places = found.where("unanswered").select(*PLACE, "name")
    rows = entered(journal).where(F.col("producer").isNotNull()).join(places, PLACE)
    number = F.coalesce("sequence", F.lit(0).cast("bigint"))
    asked = rows.groupBy(*PLACE, "name", "log_index", "producer", number.alias("number")).agg(F.max("id").alias("id"))
    sends = history.where(F.col("op") == SEND).select(
        F.col("producer").alias("sender"),
        number.alias("sent_as"),
        F.col("queue").alias("sent_to"),
        F.col("queue_id").isNull().alias("elsewhere"),
        F.col("outcome"),
    )
    same = (
        (F.col("producer") == F.col("sender"))
        & (F.col("number") == F.col("sent_as"))
        & ((F.col("name") == F.col("sent_to")) | F.col("elsewhere"))
    )
    moved = _moved(journal).withColumn("moved", F.lit(True))
    judged = (
        asked.join(sends, same, "left")
        .join(moved, "log_index", "left")
        .groupBy(*PLACE)
        .agg(
            F.count("outcome").alias("asked"),
            F.bool_and(F.col("outcome") == FAIL).alias("all_failed"),  # of those that are known
            F.bool_or(F.col("moved").isNull()).alias("sent_here"),
            F.max(F.lower(F.hex("id"))).alias("id"),
        )
    )
    ghost = (F.col("asked") > 0) & F.col("all_failed")
    unsent = (F.col("asked") == 0) & F.col("sent_here")
    kind = F.when(ghost, GHOST).when(unsent, UNSENT)
    return violations_of(judged.where(ghost | unsent).select(*PLACE, "id", F.lit(1).alias("count"), kind.alias("kind")))


def _moved(journal: DataFrame) -> DataFrame:
    """log_index of the records that put their messages where they are by themselves."""
    return journal.where(F.col("kind").isin(*MOVED_HERE)).select("log_index").distinct()


def doubled_senders(judged: DataFrame) -> DataFrame:
    """side, queue_id, producer, part: sequences that are not dense, or requests in two records: they may be doubled.

    A bucket of a producer's sequences that are dense, by count, sum and sum of squares, has none twice.
    """
    number = F.when(F.col("sequence") > 0, F.col("sequence")).otherwise(ordinal_of("id"))
    place = F.col("number") - F.shiftleft("part", BUCKET_BITS)
    rows = _of_producers(judged).withColumn("number", number)
    rows = rows.withColumn("part", F.shiftright("number", BUCKET_BITS)).withColumn("place", place)
    parts = rows.groupBy("side", "queue_id", "producer", "unary", "part").agg(
        F.count(F.lit(1)).alias("rows"),
        F.min("place").alias("low"),
        F.max("place").alias("high"),
        F.sum("place").alias("places"),
        F.sum(F.col("place") * F.col("place")).alias("squares"),
        F.min("log_index").alias("first_log"),
        F.max("log_index").alias("last_log"),
    )
    low, high = F.col("low"), F.col("high")
    dense = (
        (F.col("rows") == high - low + 1)
        & (F.col("places") * 2 == high * (high + 1) - (low - 1) * low)
        & (F.col("squares") * 6 == high * (high + 1) * (2 * high + 1) - (low - 1) * low * (2 * low - 1))
    )
    twice = F.col("unary") & (F.col("first_log") < F.col("last_log"))
    return parts.where(~dense | twice).select("side", "queue_id", "producer", "unary").distinct()


def _of_producers(judged: DataFrame) -> DataFrame:
    rows = entered(judged).where(F.col("producer").isNotNull())
    return rows.withColumn("unary", F.coalesce("sequence", F.lit(0)) == 0)


def stored_once(judged: DataFrame, senders: DataFrame) -> DataFrame:
    """Violations: of each message of these producers, every index but the first."""
    key = ["side", "queue_id", "producer", "unary"]
    mine = _of_producers(judged).join(F.broadcast(senders), key, "left_semi")
    sent = mine.join(_moved(judged), "log_index", "left_anti")
    number = F.when(F.col("unary"), ordinal_of("id")).otherwise(F.col("sequence")).alias("number")
    message = Window.partitionBy(*key, "number")
    more = (
        sent.select(*key, number, "index", F.lower(F.hex("id")).alias("id"))
        .withColumn("first", F.min("index").over(message))
        .where(F.col("index") > F.col("first"))
    )
    by_place = more.groupBy(*PLACE).agg(F.max("id").alias("id"), F.lit(1).alias("count"))
    return violations_of(by_place, DUPLICATE)

"""Looks at messages one by one: one pass finds those that may be wrong, and only these are looked at closely.

`side` is the journal that a row is judged in: 0 where both members' journals agree and are one history, else 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from chaos.journals import (
    ACK_LOST,
    BEFORE_ENTERED,
    CONSUMED,
    DUPLICATE,
    ENDED,
    GHOST,
    INDEX_TWICE,
    LEASED_AFTER_END,
    LEASES,
    LOST,
    MOVED_HERE,
    RECEIVED_LOST,
    REJECTED,
    SETTLE_LOST,
    SETTLED_TWICE,
    SETTLES,
    UNSENT,
)
from pipeline.audit_rows import BUCKET_BITS, entered, lease_log, ordinal_of, touched, violations_of
from pipeline.schema import ACK, FAIL, RECV, SEND

PLACE = ["queue_id", "index"]
# Counters of one message share a BIGINT, so that a message is a narrow row in the shuffle: 65,536 rows of one kind
# about one message would carry into the next counter, which is a violation as well.
ENTERED, LEFT, REFUSED, TAKEN = 0, 16, 32, 48
RECVS, ACKS = 21, 42


_LOWEST = ("entered_log", "touched_log", "ended_log", "lease_low", "settle_low")
_HIGHEST = ("lease_high", "settle_high")
_OF_MESSAGE = ("stored", "answered", "body", "sender")
FLAGS = (
    *("twice", "settled_twice", "maybe_lost", "settle_lost", "unanswered"),
    *("never_entered", "early", "after_end", "look_closer", "came_again", "bodies", "other_sender"),
)
CERTAIN = {
    INDEX_TWICE: "twice",
    SETTLED_TWICE: "settled_twice",
    SETTLE_LOST: "settle_lost",
    BEFORE_ENTERED: "early",
    LEASED_AFTER_END: "after_end",
}
"""Kinds for which a flag is enough."""


def suspects(judged: DataFrame, asked: DataFrame, watched: DataFrame, *, sides: int, bodies: bool) -> DataFrame:
    """Places that something is, or may be, wrong with: queue_id, index, name, and a flag for each kind of it.

    judged: the journal with `side`, of which there are so many. asked: what was answered ok with an index, placed.
    watched: queue_id, name. bodies: clients have kept what identifies them.
    """
    of_side = range(sides)
    counted = (
        _events(judged, asked, sides, bodies=bodies)
        .groupBy(*PLACE)
        .agg(
            *(F.sum(f"events{side}").alias(f"events{side}") for side in of_side),
            F.sum("answers").alias("answers"),
            *(F.min(f"{name}{side}").alias(f"{name}{side}") for name in _LOWEST for side in of_side),
            *(F.max(f"{name}{side}").alias(f"{name}{side}") for name in _HIGHEST for side in of_side),
            *(f(name).alias(f"{name}_{f.__name__}") for name in _OF_MESSAGE for f in (F.min, F.max)),
            F.min("acked_ns").alias("acked_ns"),
            F.max("received_ns").alias("received_ns"),
        )
    )
    fields = (
        _field(f"events{side}", at, 16).alias(f"{name}{side}") for side in of_side for name, at in _FIELDS.items()
    )
    counts = counted.select("*", *fields)

    def either(of_one: Callable[[int], Column]) -> Column:
        return reduce(Column.__or__, (F.coalesce(of_one(side), F.lit(False)) for side in of_side))

    is_there = either(lambda side: F.col(f"entered{side}") > 0)
    sends, acks = _field("answers", 0, 21), F.shiftright("answers", ACKS)
    is_named = F.col("answered_min").isNull() | (
        (F.col("answered_min") == F.col("answered_max"))
        & ((F.col("answered_min") == F.col("stored_min")) | (F.col("answered_min") == F.col("stored_max")))
    )
    settled = either(lambda side: (F.col(f"taken{side}") > 0) | (F.col(f"refused{side}") > 0))
    flags = counts.select(
        *PLACE,
        either(lambda side: F.col(f"entered{side}") > 1).alias("twice"),
        either(_settled_twice).alias("settled_twice"),
        ((F.col("answers") > 0) & ~(is_there & F.coalesce(is_named, F.lit(False)))).alias("maybe_lost"),
        ((acks > 0) & is_there & ~settled).alias("settle_lost"),
        (is_there & (sends == 0)).alias("unanswered"),
        (either(lambda side: F.col(f"touched_log{side}").isNotNull()) & ~is_there).alias("never_entered"),
        either(lambda side: F.col(f"touched_log{side}") < F.col(f"entered_log{side}")).alias("early"),
        either(lambda side: lease_log(f"lease_high{side}") > F.col(f"ended_log{side}")).alias("after_end"),
        either(_look_closer).alias("look_closer"),
        F.coalesce(F.col("received_ns") > F.col("acked_ns"), F.lit(False)).alias("came_again"),
        F.coalesce(F.col("body_min") != F.col("body_max"), F.lit(False)).alias("bodies"),
        F.coalesce(F.col("sender_min") != F.col("sender_max"), F.lit(False)).alias("other_sender"),
    )
    marked = flags.where(" or ".join(FLAGS)).join(F.broadcast(watched), "queue_id", "left")
    unasked = F.col("unanswered") & F.col("name").isNotNull()
    return marked.withColumn("unanswered", unasked).where(" or ".join(FLAGS))


def _look_closer(side: int) -> Column:
    """It was leased more than once, or settled under another lease than its one."""
    low, high = F.col(f"lease_low{side}"), F.col(f"lease_high{side}")
    settle_low, settle_high = F.col(f"settle_low{side}"), F.col(f"settle_high{side}")
    strange = low.isNull() | (settle_low != low) | (settle_high != low)
    return F.coalesce(low != high, F.lit(False)) | (settle_low.isNotNull() & strange)


_FIELDS = {"entered": ENTERED, "left": LEFT, "refused": REFUSED, "taken": TAKEN}


def _events(judged: DataFrame, asked: DataFrame, sides: int, *, bodies: bool) -> DataFrame:
    """What each row adds to what is known of its message, the hash of the id that it names, the CRC-32 of its body."""
    kind, log, lease = F.col("kind"), F.col("log_index"), F.col("lease_id")
    weight = (
        F.when(kind.isin(*ENDED), F.lit(1 << LEFT)).otherwise(F.lit(0))
        + F.when(kind == REJECTED, F.lit(1 << REFUSED)).otherwise(F.lit(0))
        + F.when(kind.isin(*CONSUMED), F.lit(1 << TAKEN)).otherwise(F.lit(0))
    )
    leased = F.when(kind.isin(*LEASES), lease)
    settled = F.when(kind.isin(*SETTLES) & (lease != 0), lease)
    ends = F.when(kind.isin(*ENDED, REJECTED), log)
    number = F.coalesce("sequence", F.lit(0).cast("bigint"))
    more = {"sender": F.xxhash64("producer", number)}
    if bodies:
        more["body"] = F.crc32("payload")
    came = _row({"events": F.lit(1 << ENTERED), "entered_log": log}, sides, stored=F.xxhash64("id"), **more)
    went = {"touched_log": log, "ended_log": ends, "lease_low": leased, "settle_low": settled}
    went |= {"events": weight, "lease_high": leased, "settle_high": settled}
    op = F.col("op")
    answer = F.when(op == SEND, F.lit(1)).when(op == RECV, F.lit(1 << RECVS)).otherwise(F.lit(1 << ACKS))
    answers = _row(
        {},
        sides,
        answers=answer,
        answered=F.when(F.col("id").isNotNull(), F.xxhash64("id")),
        body=F.when(op != ACK, F.col("payload_crc32")),
        sender=F.when(
            (op == SEND) & F.col("producer").isNotNull() & F.col("sequence").isNotNull(),
            F.xxhash64("producer", "sequence"),
        ),
        acked_ns=F.when(op == ACK, F.col("complete_ns")),
        received_ns=F.when(op == RECV, F.col("invoke_ns")),
    )
    return (
        entered(judged)
        .select(*came)
        .unionByName(touched(judged).select(*_row(went, sides)))
        .unionByName(asked.where(op.isin(SEND, RECV, ACK)).select(*answers))
    )


def _row(of_side: dict[str, Column], sides: int, **of_both: Column) -> list[Column]:
    """All columns of `_events`: those of a side are that of the row's own."""
    zero, none = F.lit(0).cast("bigint"), F.lit(None).cast("bigint")
    row: list[Column] = [F.col(f"`{name}`") for name in PLACE]
    for name in ("events", *_LOWEST, *_HIGHEST):
        empty = zero if name == "events" else none
        value = of_side.get(name, empty).cast("bigint")
        for side in range(sides):
            mine = value if sides == 1 or name not in of_side else F.when(F.col("side") == side, value).otherwise(empty)
            row.append(mine.alias(f"{name}{side}"))
    both = {"answers": zero, **dict.fromkeys((*_OF_MESSAGE, "acked_ns", "received_ns"), none), **of_both}
    return row + [value.cast("bigint").alias(name) for name, value in both.items()]


def _field(column: str, at: int, bits: int) -> Column:
    return F.shiftright(column, at).bitwiseAND((1 << bits) - 1)


def _settled_twice(side: int) -> Column:
    left, refused, taken = (F.col(f"{name}{side}") for name in ("left", "refused", "taken"))
    return (left > 1) | (refused > 1) | ((refused > 0) & (taken > 0))


def certain(found: DataFrame) -> DataFrame:
    """Violations for which the counters are the proof."""
    kind = F.explode(F.array(*(F.when(F.col(flag), F.lit(name)) for name, flag in CERTAIN.items())))
    rows = found.select(*PLACE, F.lit(1).alias("count"), kind.alias("kind"))
    return violations_of(rows.where(F.col("kind").isNotNull()))


_GONE = {SEND: LOST, RECV: RECEIVED_LOST, ACK: ACK_LOST}


class Kept(NamedTuple):
    """Which messages' records are judged."""

    first_log_index: int
    queues: DataFrame
    """queue_id, first_index: the lowest that is kept, where the answer had no id."""
    whole_domain: bool
    """Not of chosen queues: what is of a queue that the journals do not know is missing."""


def is_kept(found: DataFrame, kept: Kept) -> DataFrame:
    """Those places whose message entered in a record that is judged."""
    first = F.when(F.lit(kept.first_log_index <= 1), F.lit(0).cast("bigint")).otherwise(F.col("first_index"))
    return found.join(kept.queues, "queue_id", "left").where(F.col("index") >= first).drop("first_index")


def lost(found: DataFrame, journal: DataFrame, asked: DataFrame, kept: Kept) -> DataFrame:
    """Violations: what was answered ok, of a time that is kept, and is in no journal under its id and index."""
    places = found.where("maybe_lost").select(F.col("queue_id").alias("at_queue"), F.col("index").alias("at_index"))
    same = F.col("queue_id").eqNullSafe(F.col("at_queue")) & (F.col("index") == F.col("at_index"))
    asked = asked.join(places, same, "left_semi").select("op", "queue", "queue_id", "index", "id", "id_log")
    if not kept.whole_domain:
        asked = asked.where(F.col("queue_id").isNotNull())
    stored = entered(journal).select(F.col("id").alias("stored_id"), F.col("index").alias("stored_at"), "queue_id")
    by_id = asked.where(F.col("id").isNotNull())
    there = (
        stored.select("stored_id", "stored_at")
        .join(by_id.select("id", "index"), (F.col("stored_id") == F.col("id")) & (F.col("stored_at") == F.col("index")))
        .select("id", "index")
        .distinct()
    )
    known = (F.col("op") == SEND) | F.col("queue_id").isNotNull()
    nameless = asked.where(F.col("id").isNull() & known)
    filled = stored.select("queue_id", F.col("stored_at").alias("index")).join(
        nameless.select(*PLACE), PLACE, "left_semi"
    )
    gone = by_id.join(there, ["id", "index"], "left_anti").where(F.col("id_log") >= kept.first_log_index)
    also_gone = is_kept(nameless.join(filled.distinct(), PLACE, "left_anti"), kept)
    kind = F.element_at(F.create_map(*(F.lit(word) for pair in _GONE.items() for word in pair)), F.col("op"))
    both = gone.unionByName(also_gone.select(*gone.columns)).select(
        kind.alias("kind"), "queue", *PLACE, F.lower(F.hex("id")).alias("id"), F.lit(1).alias("count")
    )
    return violations_of(both.distinct())


def unasked(found: DataFrame, journal: DataFrame, history: DataFrame) -> DataFrame:
    """Violations: messages in watched queues that nobody sent, or whose sender was answered that they are not stored.

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

"""Holds bodies against the CRC-32 that clients kept of them, for messages that one number cannot clear. DataFrames."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from chaos.journals import BODY_CHANGED, BODY_NOT_SENT
from pipeline.audit_messages import PLACE
from pipeline.audit_rows import entered, violations_of
from pipeline.schema import RECV, SEND

NOT_SENT, CHANGED = "sent with CRC-32 %08x, and stored with %08x", "received with CRC-32 %08x, and not with %08x"


def bodies_are_those_that_were_sent(found: DataFrame, judged: DataFrame, asked: DataFrame) -> DataFrame:
    """Violations: messages whose bodies have two CRC-32 in what is stored, was sent and was received.

    asked: what was answered ok with an index, placed. What was received is held against what was sent, and where that
    is not known against what is stored.
    """
    places = F.broadcast(found.where("bodies").select(*PLACE))
    stored = _stored(judged.join(places, PLACE, "left_semi")).select(*_as("stored"))
    answers = asked.where(F.col("payload_crc32").isNotNull()).join(places, PLACE, "left_semi")
    sent = answers.where(F.col("op") == SEND).select(*_as("sent"))
    came = answers.where(F.col("op") == RECV).select(*_as("came")).distinct()
    wrong = sent.join(stored, _same("sent", "stored")).where("sent_crc32 != stored_crc32")
    known = came.join(sent, _same("came", "sent"))
    unknown = came.join(sent, _same("came", "sent"), "left_anti").join(stored, _same("came", "stored"))
    changed = known.where("came_crc32 != sent_crc32").select("came_queue", "came_index", "came_crc32", "sent_crc32")
    also = unknown.where("came_crc32 != stored_crc32").select("came_queue", "came_index", "came_crc32", "stored_crc32")
    return _violations(wrong, BODY_NOT_SENT, "sent", "stored_crc32", NOT_SENT).unionByName(
        _violations(changed.union(also), BODY_CHANGED, "came", "sent_crc32", CHANGED)
    )


def unanswered_are_those_that_were_sent(found: DataFrame, judged: DataFrame, history: DataFrame) -> DataFrame:
    """Violations: the same, of messages that nobody got an answer about: their sender and number name them."""
    places = F.broadcast(found.where("unanswered").select(*PLACE, "name"))
    numbered = judged.where(F.col("sequence") > 0)
    stored = _stored(numbered).join(places, PLACE).select(*_as("stored"), "name", "producer", "sequence")
    sends = history.where((F.col("op") == SEND) & F.col("payload_crc32").isNotNull()).select(
        F.col("queue").alias("name"), "producer", "sequence", F.col("id").alias("sent_id"), F.col("payload_crc32")
    )
    unlike = stored.join(sends, ["name", "producer", "sequence"]).where(
        (F.col("payload_crc32") != F.col("stored_crc32"))
        & F.coalesce(F.col("sent_id") == F.col("stored_id"), F.lit(True))
    )
    renamed = unlike.withColumnsRenamed(
        {"stored_queue": "sent_queue", "stored_index": "sent_index", "payload_crc32": "sent_crc32"}
    )
    return _violations(renamed, BODY_NOT_SENT, "sent", "stored_crc32", NOT_SENT)


def _stored(journal: DataFrame) -> DataFrame:
    """Messages with a body to show, with its CRC-32."""
    return entered(journal).withColumn("payload_crc32", F.crc32("payload")).where(F.col("payload").isNotNull())


def _as(name: str) -> list[Column]:
    return [
        F.col("queue_id").alias(f"{name}_queue"),
        F.col("index").alias(f"{name}_index"),
        F.col("id").alias(f"{name}_id"),
        F.col("payload_crc32").alias(f"{name}_crc32"),
    ]


def _same(one: str, other: str) -> Column:
    """They may be one message: at one place, and not under two ids."""
    ids = F.coalesce(F.col(f"{one}_id") == F.col(f"{other}_id"), F.lit(True))
    queues = F.col(f"{one}_queue").eqNullSafe(F.col(f"{other}_queue"))
    return queues & (F.col(f"{one}_index") == F.col(f"{other}_index")) & ids


def _violations(unlike: DataFrame, kind: str, one: str, other: str, text: str) -> DataFrame:
    pairs = F.max(F.struct(F.col(f"{one}_crc32").alias("one"), F.col(other).alias("other"))).alias("pair")
    by_place = unlike.groupBy(F.col(f"{one}_queue").alias("queue_id"), F.col(f"{one}_index").alias("index")).agg(pairs)
    says = F.format_string(text, "pair.one", "pair.other")
    return violations_of(by_place.select(*PLACE, F.lit(1).alias("count"), says.alias("clients")), kind)

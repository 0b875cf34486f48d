"""Holds what clients received against leases, and the epochs they were answered with against the ids. DataFrame in and
out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from chaos.journals import (
    CONSUMED,
    DELIVERY_ORDER,
    EPOCH_TOLD,
    LEASE_BITS,
    LEASES,
    RECEIVED_AFTER_ACK,
    SENT_BY_OTHER,
)
from pipeline.audit_messages import PLACE
from pipeline.audit_order import inverted
from pipeline.audit_rows import each_of, ended, entered, violations_of
from pipeline.schema import ACK, OK, RECV, SEND


def epochs_are_those_of_ids(history: DataFrame) -> DataFrame:
    """Violations: receipts with another epoch than that of the record that their id names. history: placed."""
    asked = F.conv(F.hex(F.substring("id", 5, 4)), 16, 10).cast("bigint")
    sends = history.where((F.col("op") == SEND) & (F.col("outcome") == OK))
    wrong = sends.where(F.col("epoch").bitwiseAND(0xFFFF_FFFF) != asked)
    name = F.lower(F.hex("id"))
    rows = wrong.select(
        "queue",
        F.when(F.col("index").isNotNull(), F.col("queue_id")).alias("queue_id"),
        "index",
        F.lit(1).alias("count"),
        name.alias("id"),
        F.concat(F.lit("sent, and answered with epoch "), F.col("epoch").cast("string"), F.lit(" and id "), name).alias(
            "clients"
        ),
    )
    return violations_of(rows, EPOCH_TOLD)


def doubled(history: DataFrame) -> dict[tuple[str, bool], int]:
    """By operation, and whether it was answered ok with an index: rows that are there already."""
    is_answered = (F.col("outcome") == OK) & F.col("index").isNotNull()
    columns = [F.col(f"`{name}`") for name in history.columns]
    row = F.xxhash64(*columns, *(each.isNull() for each in columns))  # which leaves out what is null
    more = history.groupBy("op", is_answered.alias("is_answered"), row).count().where(F.col("count") > 1)
    found = more.groupBy("op", "is_answered").agg(F.sum(F.col("count") - 1).alias("rows")).collect()
    return {(each["op"], each["is_answered"]): each["rows"] for each in found}


def early(history: DataFrame) -> tuple[int, int]:
    """How many messages came, or were acknowledged, before they were sent, and by how many nanoseconds at most."""
    answered = history.where((F.col("outcome") == OK) & F.col("index").isNotNull())
    is_send = F.col("op") == SEND
    messages = answered.groupBy("queue", "index").agg(
        F.min(F.when(is_send, F.col("invoke_ns"))).alias("sent"),
        F.min(F.when(~is_send, F.col("complete_ns"))).alias("came"),
    )
    apart = messages.where(F.col("came") < F.col("sent")).agg(F.count(F.lit(1)), F.max(F.col("sent") - F.col("came")))
    count, most = apart.collect()[0]
    return count, most or 0


def messages_are_those_of_their_senders(found: DataFrame, judged: DataFrame, asked: DataFrame) -> DataFrame:
    """Violations: messages that are stored as those of another producer, or under another sequence, than was sent.

    asked: what was answered ok with an index, placed.
    """
    places = F.broadcast(found.where("other_sender").select(*PLACE))
    stored = entered(judged).join(places, PLACE, "left_semi")
    stored = stored.select(
        *PLACE,
        F.col("id").alias("stored_id"),
        F.col("producer").alias("stored_producer"),
        F.coalesce("sequence", F.lit(0)).alias("stored_sequence"),
    )
    sent = asked.where((F.col("op") == SEND) & F.col("producer").isNotNull() & F.col("sequence").isNotNull())
    pairs = sent.join(places, PLACE, "left_semi").join(stored, PLACE)
    other = ~F.col("producer").eqNullSafe(F.col("stored_producer")) | (F.col("sequence") != F.col("stored_sequence"))
    unlike = pairs.where(other & F.coalesce(F.col("id") == F.col("stored_id"), F.lit(True)))
    says = F.format_string(
        "sent as %d of %s, and stored as %d of %s",
        "sequence",
        F.lower(F.hex("producer")),
        "stored_sequence",
        F.coalesce(F.lower(F.hex("stored_producer")), F.lit("nobody")),
    )
    rows = unlike.groupBy(*PLACE).agg(F.max(says).alias("clients"), F.lit(1).alias("count"))
    return violations_of(rows, SENT_BY_OTHER)


def received_again(found: DataFrame, journal: DataFrame, asked: DataFrame) -> DataFrame:
    """Violations: messages that came after their acknowledgement was confirmed, more often than they were leased.

    asked: what was answered ok, placed. A takeover may have lost the record of one lease.
    """
    places = F.broadcast(found.where("came_again").select(*PLACE))
    leases = each_of(journal, LEASES).join(places, PLACE, "left_semi")
    ends = ended(journal).where(F.col("kind").isin(*CONSUMED)).join(places, PLACE, "left_semi")
    came = entered(journal).join(places, PLACE, "left_semi")
    op = F.col("op")
    answers = (
        asked.join(places, PLACE, "left_semi")
        .groupBy(*PLACE)
        .agg(
            F.count_distinct(F.when(op == RECV, F.struct(F.coalesce("client", F.lit("")), "invoke_ns"))).alias(
                "received"
            ),
            F.max(F.when(op == RECV, F.col("invoke_ns"))).alias("received_ns"),
            F.min(F.when(op == ACK, F.col("complete_ns"))).alias("acked_ns"),
        )
    )
    one = (
        answers.join(came.groupBy(*PLACE).agg(F.min("epoch").alias("began")), PLACE)
        .join(ends.groupBy(*PLACE).agg(F.max("epoch").alias("ended")), PLACE)
        .join(leases.groupBy(*PLACE).agg(F.count_distinct("lease_id").alias("leases")), PLACE, "left")
        .withColumn("leases", F.coalesce("leases", F.lit(0).cast("bigint")))
        .where(F.col("received") > F.col("leases") + F.col("ended") - F.col("began"))
    )
    says = F.format_string(
        "received %d times with %d leases, at %d ns too, and its acknowledgement was confirmed at %d ns",
        "received",
        "leases",
        "received_ns",
        "acked_ns",
    )
    return violations_of(one.select(*PLACE, F.lit(1).alias("count"), says.alias("clients")), RECEIVED_AFTER_ACK)


def first_deliveries_are_in_order(journal: DataFrame, asked: DataFrame) -> DataFrame:
    """Violations: messages that a client first received after one with a higher index, of one priority.

    asked: what was answered ok, placed. What was leased more than once, or had a delay, is not judged; nor are messages
    of two epochs against each other. A line is one client's, of a queue: it is what one client received.
    """
    first = F.min(
        F.struct("invoke_ns", "complete_ns", "client", "priority", F.coalesce("id", F.lit(b"")).alias("id"))
    ).alias("first")
    received = asked.where(F.col("op") == RECV).dropna(subset=["index", "queue_id", "priority", "complete_ns"])
    firsts = received.groupBy(*PLACE).agg(first).select(*PLACE, "first.*")
    lease = (
        each_of(journal, LEASES).groupBy(*PLACE).agg(F.min("lease_id").alias("low"), F.max("lease_id").alias("high"))
    )
    once = lease.where(F.col("low") == F.col("high")).select(*PLACE, F.shiftright("low", LEASE_BITS).alias("epoch"))
    matured = each_of(journal, {"MATURED"}).select(*PLACE).distinct()
    came = firsts.join(once, PLACE).join(matured, PLACE, "left_anti")
    line = F.to_json(F.struct("client", "queue_id", "priority", "epoch"))
    late = inverted(came.withColumn("line", line))
    says = F.format_string(
        "%s asked at %d ns, and had received a higher index of priority %d at %d ns",
        "client",
        "invoke_ns",
        "priority",
        "answered",
    )
    return violations_of(late.select(*PLACE, F.lit(1).alias("count"), says.alias("clients")), DELIVERY_ORDER)

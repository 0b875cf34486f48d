"""Audits a pair from the journals of both members and what clients were answered: a verdict, and a row for each
violation.

Digests of buckets come first, and rows are looked at where two digests differ or a message's counters do not add up;
there is no sort of a whole queue and no Python in a task. `chaos.journal_checks` gives the same verdict in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from chaos.journal_checks import cut_short, unfenced
from chaos.journal_kinds import KINDS
from chaos.journal_lives import TRIMMED, UNSTORED, absent
from chaos.journal_unjudged import Seen, lines_of
from chaos.journals import MEMBERS_MAX, Span, Violation
from pipeline import (
    audit_answers,
    audit_bodies,
    audit_copies,
    audit_lives,
    audit_messages,
    audit_order,
    audit_records,
    audit_sides,
)
from pipeline.audit_rows import entered, placed, queue_names, touched, violations_of, with_names
from pipeline.schema import HEADS, HISTORY, OK, RECV, SEND, VIOLATIONS, Table, ddl

PLACE = ["queue_id", "index"]
MESSAGE_KINDS = (
    "LOST",
    "DUPLICATE",
    "INDEX_TWICE",
    "GHOST",
    "UNSENT",
    "SETTLED_TWICE",
    "SETTLE_LOST",
    "REAL_TIME_ORDER",
    "ACK_LOST",
    "RECEIVED_LOST",
    "RECEIVED_AFTER_ACK",
    "DELIVERY_ORDER",
    "NEVER_ENTERED",
    "BEFORE_ENTERED",
    "LEASED_TWICE",
    "LEASED_AFTER_END",
    "BODY_NOT_SENT",
    "BODY_CHANGED",
    "SENT_BY_OTHER",
)
"""Of one message: both sides' words are gathered for it."""
OF_RECORDS = (
    audit_records.time_never_falls,
    audit_records.ids_name_their_records,
    audit_records.rows_are_of_what_is_there,
)
FEW = 1000
"""Violations of one check that are brought here; of more, Spark keeps them where they are."""
_COLUMNS = [column.name for column in VIOLATIONS]


@dataclass(frozen=True, slots=True)
class Audit:
    """What was judged, and what came of it."""

    violations: DataFrame
    """pipeline.schema.VIOLATIONS, kept in Spark until `close`."""
    counts: dict[str, int]
    """By kind, those that were found."""
    rows: dict[str, int]
    """Of the journal, by member."""
    spans: dict[str, Span]
    """Records that are there or should be, by member."""
    asked: int
    """Rows of the client history; 0: none was given, and lost, ghost, unsent and order in time were not judged."""
    unjudged: list[str]
    """What was not judged, and why; and what was seen that is no violation."""
    kept: list[DataFrame]

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return not self.counts

    def close(self) -> None:
        """Spark forgets what it kept."""
        for frame in self.kept:
            frame.unpersist()


def audit(
    journal: DataFrame,
    history: DataFrame | None = None,
    heads: DataFrame | None = None,
    ends: Mapping[str, int] | None = None,
    every_record_from: Mapping[str, int] | None = None,
) -> Audit:
    """Judge one domain of one pair.

    journal: pipeline.schema.LAKE, history: HISTORY, heads: HEADS. Without a history only the journals are held against
    each other; without heads a tail that is cut off both is not seen. What was trimmed is not judged. ends: by member,
    the first record that was not read; without it a tail is seen by its messages alone. every_record_from: by member,
    the first one from which on each record has a row; of other members no record is known to be missing.
    Raises ValueError where the journal is of more than two members. The caller closes what it is given.
    """
    found = _Found(journal.sparkSession)
    with ExitStack() as failed:
        failed.callback(found.forget)
        done = _audit(found, journal, history, heads, ends, every_record_from or {})
        failed.pop_all()
    return done


def _audit(
    found: _Found,
    journal: DataFrame,
    history: DataFrame | None,
    heads: DataFrame | None,
    ends: Mapping[str, int] | None,
    every_record_from: Mapping[str, int],
) -> Audit:
    asked, at_sides = audit_sides.aside(journal, _table(journal, history, HISTORY))
    where = _table(journal, heads, HEADS)
    digests = found.keep(audit_copies.digests(journal))
    reach = audit_copies.reaches(digests)
    spans = audit_copies.spans_of(reach, where)
    if len(spans) > MEMBERS_MAX:
        raise ValueError(f"a pair has two members, and the journals are of {', '.join(spans)}: audit one pair")
    rows = {member: sum(each.rows for (name, _), each in reach.items() if name == member) for member in spans}
    missing = _absent(journal, spans, rows)
    found.add_rows(absent(member, spans[member]) for member in sorted(missing))
    reaches = {key: (each.first, each.last) for key, each in reach.items()}
    found.add_rows(_in_queues(journal, list(unfenced(reaches))))
    every = _every_record(every_record_from, ends or {}, reaches, [each for each in spans if each not in missing])
    found.add_rows(audit_records.no_record_is_missing(journal, digests, every))
    for check in OF_RECORDS:
        found.add(check(journal))
    differ = not missing and _compare(found, journal, digests, spans)
    judged = _judged(journal, spans, rows, differ=differ)
    queues = found.keep(queue_names(judged, where))
    buckets = found.keep(audit_order.index_buckets(journal))
    whole = [member for member, span in spans.items() if span.first <= 1]
    created = journal.where(F.col("kind") == "QUEUE_CREATED").select("member", "queue_id").distinct()
    found.add(audit_order.indexes_are_dense(journal, buckets, created, whole))
    if heads is not None:
        _add_tails(found, buckets, where.where(~F.col("member").isin(*missing)), ends or {})
    kept = audit_messages.Kept(
        min((span.first for span in spans.values()), default=1),
        _first_indexes(buckets, created, whole),
        journal.where(F.coalesce("queue_id", F.lit(0)) == 0).limit(1).count() > 0,
    )
    if kept.whole_domain:
        found.add(audit_records.leases_that_end_were_given(judged, spans, reaches, differ=differ))
    history_of = _History(asked, placed(asked, queues))
    unexplained = _add_messages(found, judged, history_of, queues, kept, _Spans(spans, reaches, differ))
    if history is not None:
        _add_of_clients(found, judged, history_of)
    violations, counts = found.proven(journal, asked, queues)
    answered = F.count_if((F.col("outcome") == OK) & F.col("index").isNotNull())
    by_op = {row[0]: (row[1], row[2]) for row in asked.groupBy("op").agg(F.count(F.lit(1)), answered).collect()}
    doubled = audit_answers.doubled(asked)
    early, apart_ns = audit_answers.early(asked) if SEND in by_op and len(by_op) > 1 else (0, 0)
    seen = Seen(
        spans=spans,
        records={member: sum(each.records for (name, _), each in reach.items() if name == member) for member in spans},
        asked={op: rows for op, (rows, _) in by_op.items()},
        answered={op: rows - doubled.get((op, True), 0) for op, (_, rows) in by_op.items()},
        doubled=sum(doubled.values()),
        early=early,
        apart_ns=apart_ns,
        strange=counts.get("LOST", 0) + counts.get("SENT_BY_OTHER", 0),
        unordered=asked.where(_is_ok(RECV) & F.col("priority").isNull()).count(),
        unstored=unexplained.get(UNSTORED, 0),
        trimmed=unexplained.get(TRIMMED, 0),
        whole_domain=kept.whole_domain,
        absent=missing,
        heads=heads is not None and where.limit(1).count() > 0,
        ends=ends is not None,
        every_record_from=every_record_from,
        at_sides=at_sides,
    )
    by_kind = {kind: counts[kind] for kind in KINDS if kind in counts}
    return Audit(violations, by_kind, rows, spans, sum(seen.asked.values()) + at_sides, lines_of(seen), found.kept)


def _add_tails(found: _Found, buckets: DataFrame, there: DataFrame, ends: Mapping[str, int]) -> None:
    """`there`: what members say of themselves of which there are rows."""
    found.add(audit_order.tails_are_there(buckets, there))
    found.add_rows(_cut_short(there, ends))


class _History(NamedTuple):
    """What clients were told."""

    asked: DataFrame
    placed: DataFrame
    """With the queue of each name, as `audit_rows.placed` gives it."""

    @property
    def answered(self) -> DataFrame:
        """Ok, with an index."""
        return self.placed.where((F.col("outcome") == OK) & F.col("index").isNotNull())


class _Spans(NamedTuple):
    """Which records there are."""

    spans: Mapping[str, Span]
    reaches: Mapping[tuple[str, int], tuple[int, int]]
    differ: bool
    """The two members' journals do, where both have rows."""


def _is_ok(op: str) -> Column:
    return (F.col("op") == op) & (F.col("outcome") == OK)


def _absent(journal: DataFrame, spans: Mapping[str, Span], rows: Mapping[str, int]) -> list[str]:
    """Members of whose records there is no row, although the other one has rows among them."""
    at = F.col("log_index")
    return [
        member
        for member, span in spans.items()
        if not rows[member] and journal.where((at >= span.first) & (at < span.next)).limit(1).count()
    ]


def _every_record(
    first: Mapping[str, int],
    ends: Mapping[str, int],
    reaches: Mapping[tuple[str, int], tuple[int, int]],
    members: Iterable[str],
) -> dict[str, Span]:
    """Of these members, which records each have a row."""
    last = {
        member: max((each for (name, _), (_, each) in reaches.items() if name == member), default=0)
        for member in members
    }
    spans = {member: Span(first[member], ends.get(member, last[member] + 1)) for member in members if member in first}
    return {member: span for member, span in spans.items() if span.first < span.next}


def _in_queues(journal: DataFrame, asked: list[Violation]) -> list[Violation]:
    """The same, with the queue that their records are of, where it is one."""
    found = []
    for each in asked:
        rows = journal.where((F.col("member") == each.member) & (F.col("log_index") == each.log_index))
        queue_id = rows.agg(F.max("queue_id")).collect()[0][0]
        found.append(replace(each, queue_id=queue_id or None))
    return found


def _cut_short(heads: DataFrame, ends: Mapping[str, int]) -> list[Violation]:
    if not ends:
        return []
    asked = {row[0]: row[1] for row in heads.groupBy("member").agg(F.max("next_log_index")).collect()}
    return [cut_short(member, end, asked[member]) for member, end in ends.items() if end < asked.get(member, 0)]


class _Found:
    """Violations as they are found. Each check runs by itself: one plan of all is planned anew for each stage."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: list[DataFrame] = []
        self._rows: list[tuple[object, ...]] = []
        """Of a check that found few: what is made of them is then planned without all that found them."""
        self.kept: list[DataFrame] = []

    def keep(self, frame: DataFrame) -> DataFrame:
        """Spark keeps what it makes of it, until the audit is closed."""
        self.kept.append(frame.persist())
        return frame

    def forget(self) -> None:
        """Spark keeps nothing of it any more."""
        for frame in self.kept:
            frame.unpersist()

    def add(self, frame: DataFrame) -> int:
        """How many violations they are."""
        count: int = self.keep(frame).count()
        if count > FEW:
            self._frames.append(frame)
        elif count:
            self._rows += [tuple(row[name] for name in _COLUMNS) for row in frame.collect()]
        return count

    def add_rows(self, asked: Iterable[Violation]) -> None:
        """The same, of a few that are here."""
        self._rows += [tuple(getattr(each, name) for name in _COLUMNS) for each in asked]

    def proven(self, journal: DataFrame, history: DataFrame, queues: DataFrame) -> tuple[DataFrame, dict[str, int]]:
        """All of them, each once and with what each side says, and how many there are of each kind."""
        few = self._spark.createDataFrame(self._rows, ddl(VIOLATIONS))
        if not self._frames and not self._rows:
            return few, {}
        key = ["kind", "member", "queue_id", "index", "count", "log_index", "id"]
        rest = [F.max(name).alias(name) for name in ("queue", "journals", "clients")]
        once = self.keep(reduce(DataFrame.unionByName, self._frames, few).groupBy(*key).agg(*rest))
        once.count()  # so that what follows is planned on its size
        found = self.keep(_with_sides(once, journal, history, queues))
        return found, {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}


def _table(like: DataFrame, given: DataFrame | None, table: Table) -> DataFrame:
    return like.sparkSession.createDataFrame([], ddl(table)) if given is None else given


def _compare(found: _Found, journal: DataFrame, digests: DataFrame, spans: dict[str, Span]) -> bool:
    """Whether the two members' journals differ where both have rows."""
    first = max((span.first for span in spans.values()), default=0)
    end = min((span.next for span in spans.values()), default=0)
    if len(spans) < MEMBERS_MAX or first >= end:
        return False
    one, other = spans
    buckets = found.keep(audit_copies.differing_buckets(digests, (one, other), first, end))
    if not buckets.count():
        return False
    return found.add(audit_copies.copies_equal(journal, buckets, (one, other), first, end)) > 0


def _judged(journal: DataFrame, spans: dict[str, Span], rows: dict[str, int], *, differ: bool) -> DataFrame:
    """The rows that are judged, with `side`: in whose journal.

    Two journals that agree are one history, and what one of them alone keeps completes it. Two that differ are two.
    """
    if not spans:
        return journal.withColumn("side", F.lit(0))
    if differ:
        return journal.withColumn("side", F.when(F.col("member") == next(iter(spans)), 0).otherwise(1))
    chosen = max(spans, key=lambda member: rows.get(member, 0))
    span = spans[chosen]
    outside = ~F.col("log_index").between(span.first, span.next - 1)
    return journal.where((F.col("member") == chosen) | outside).withColumn("side", F.lit(0))


def _first_indexes(buckets: DataFrame, created: DataFrame, whole: list[str]) -> DataFrame:
    """queue_id, first_index: from where on its messages are kept; 0 where nothing of it was trimmed."""
    made = created.select("queue_id").distinct().withColumn("made", F.lit(True))
    lowest = buckets.groupBy("queue_id").agg(
        F.min("low").alias("low"), F.bool_or(F.col("member").isin(*whole)).alias("all_kept")
    )
    is_whole = F.col("all_kept") | F.coalesce("made", F.lit(False))
    first = F.when(is_whole, F.lit(0).cast("bigint")).otherwise(F.col("low"))
    return lowest.join(made, "queue_id", "left").select("queue_id", first.alias("first_index"))


def _add_messages(
    found: _Found,
    judged: DataFrame,
    history: _History,
    queues: DataFrame,
    kept: audit_messages.Kept,
    where: _Spans,
) -> dict[str, int]:
    """Violations of single messages. Says what was seen of leases that no row gives."""
    sent_to = history.asked.where(F.col("op") == SEND).select("queue").distinct()
    watched = queues.join(sent_to, "queue", "left_semi").groupBy("queue_id").agg(F.max("queue").alias("name"))
    asked = history.answered
    bodies = history.asked.where(F.col("payload_crc32").isNotNull()).limit(1).count() > 0
    sides = 2 if where.differ else 1
    suspects = found.keep(audit_messages.suspects(judged, asked, watched, sides=sides, bodies=bodies))
    counts = suspects.agg(*(F.count_if(flag).alias(flag) for flag in audit_messages.FLAGS)).collect()[0]
    if any(counts[flag] for flag in audit_messages.CERTAIN.values()):
        found.add(audit_messages.certain(suspects))
    if counts["maybe_lost"]:
        found.add(audit_messages.lost(suspects, judged, asked, kept))
    if counts["unanswered"]:
        found.add(audit_messages.unasked(suspects, judged, history.placed))
        if bodies:
            found.add(audit_bodies.unanswered_are_those_that_were_sent(suspects, judged, history.asked))
    if counts["other_sender"]:
        found.add(audit_answers.messages_are_those_of_their_senders(suspects, judged, asked))
    if bodies and counts["bodies"]:
        found.add(audit_bodies.bodies_are_those_that_were_sent(suspects, judged, asked))
    if counts["never_entered"]:
        found.add(audit_lives.never_entered(suspects, kept))
    if counts["came_again"]:
        found.add(audit_answers.received_again(suspects, judged, asked))
    senders = found.keep(audit_messages.doubled_senders(judged))
    if senders.count():
        found.add(audit_messages.stored_once(judged, senders))
    return _add_lives(found, suspects, judged, kept, where) if counts["look_closer"] else {}


def _add_lives(
    found: _Found, suspects: DataFrame, judged: DataFrame, kept: audit_messages.Kept, where: _Spans
) -> dict[str, int]:
    """Violations of messages that were leased again, or settled under a lease that no row gives."""
    rows = found.keep(audit_lives.looked_at(suspects, judged))
    if kept.whole_domain:
        found.add(audit_lives.leased_twice(rows, judged))
    unexplained = found.keep(audit_lives.unexplained(rows, where.spans, where.reaches, differ=where.differ))
    counts = audit_lives.counted(unexplained)
    if counts:
        found.add(audit_lives.unleased(unexplained))
    return counts


def _add_of_clients(found: _Found, judged: DataFrame, history: _History) -> None:
    """Violations of what clients were answered, of all of them together."""
    asked = history.answered
    found.add(audit_order.order_is_real(asked.where(F.col("op") == SEND)))
    found.add(audit_answers.epochs_are_those_of_ids(history.placed))
    ordered = asked.where(_is_ok(RECV) & F.col("priority").isNotNull())
    if ordered.limit(1).count():
        found.add(audit_answers.first_deliveries_are_in_order(judged, ordered))


def _with_sides(found: DataFrame, journal: DataFrame, history: DataFrame, queues: DataFrame) -> DataFrame:
    """The violations, with what each side says of the message that they are about."""
    about = found.where(F.col("kind").isin(*MESSAGE_KINDS)).select(*PLACE).distinct()
    where = F.concat_ws("/", F.col("log_index").cast("string"), F.col("epoch").cast("string"))
    text = F.concat_ws(" ", "kind", F.lit("at"), where, F.concat(F.lit("id "), F.lower(F.hex("id"))))
    columns = [*PLACE, "member", "kind", "log_index", "epoch", "id"]
    rows = entered(journal).select(*columns).unionByName(touched(journal).select(*columns))
    by_member = (
        rows.join(F.broadcast(about), PLACE, "left_semi")
        .groupBy(*PLACE, "member")
        .agg(F.concat_ws(", ", F.sort_array(F.collect_list(text))).alias("says"))
    )
    said = by_member.groupBy(*PLACE).agg(
        F.concat_ws("; ", F.sort_array(F.collect_list(F.concat("member", F.lit(": "), "says")))).alias("rows_say")
    )
    answer = F.concat_ws(" ", "op", "outcome", F.concat(F.lit("id "), F.lower(F.hex("id"))))
    clients = (
        placed(history, queues)
        .join(F.broadcast(about), PLACE, "left_semi")
        .groupBy(*PLACE)
        .agg(F.concat_ws(", ", F.sort_array(F.collect_list(answer))).alias("clients_say"))
    )
    of_message = F.col("kind").isin(*MESSAGE_KINDS)
    proven = (
        with_names(found.withColumnRenamed("queue", "given"), queues)
        .withColumn("queue", F.coalesce("given", "queue"))
        .join(said, PLACE, "left")
        .join(clients, PLACE, "left")
        .withColumn(
            "journals", F.when(of_message, F.coalesce("rows_say", F.lit("nothing"))).otherwise(F.col("journals"))
        )
        .withColumn(
            "clients",
            F.when(of_message, F.coalesce("clients", "clients_say", F.lit("nothing"))).otherwise(F.col("clients")),
        )
    )
    return violations_of(proven)

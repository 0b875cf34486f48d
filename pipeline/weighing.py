"""Publishes the shares that the statistics give as a table of routing weights, or reports what it would publish.

The version that is to be replaced is read before anything is computed: who was faster meanwhile is not undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyspark.sql import functions as F

import tandemq
from pipeline.outcome import Table
from pipeline.problems import LAKE_SHORT, PipelineError
from pipeline.weights import EPOCH, span, weights
from tandemq.errors import NotFound, TandemqError
from tandemq.spark.places import check_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.config import Source

Result = TypeVar("Result")
VALID_FOR = timedelta(minutes=10)
PUBLISHER = "tandemq pipeline stats"


class Publication(NamedTuple):
    """What is to be published."""

    name: str
    queues: tuple[str, ...] = ()
    """Empty: all of the lake that are there now."""
    valid_for: timedelta = VALID_FOR
    """From the end of what it is computed from: of an old lake it is over already, and refused."""
    dry_run: bool = True


class There(NamedTuple):
    """What the pair has before anything is computed."""

    version: int
    """Of the table of that name; 0: there is none."""
    queues: frozenset[str]


class Weighed(NamedTuple):
    """What was published, or would be."""

    table: Table
    facts: dict[str, Any]
    lead: str


def look(source: Source, asked: Publication, history_id: str) -> There:
    """history_id: of the lake; empty: it names none.

    Raises PipelineError with the reason of a refusal: QUEUE_NOT_FOUND for a queue that is named and not there,
    PAIR_CHANGED where the lake is of another pair, whose queues may have the same names.
    """

    def ask(client: tandemq.Client) -> There:
        if history_id:
            check_history(client.journal_head((), domain=source.domain), history_id)
        queues = frozenset(info.name for info in client.list_queues() if info.config.domain == source.domain)
        try:
            return There(client.get_weights(asked.name, domain=source.domain).version, queues)
        except NotFound:
            return There(0, queues)

    there = _asked(source, ask)
    for queue in asked.queues:
        if queue not in there.queues:
            raise PipelineError("QUEUE_NOT_FOUND", f"there is no queue {queue!r} in domain {source.domain}")
    return there


def weigh(source: Source, asked: Publication, there: There, stats: DataFrame, newest: datetime) -> Weighed:
    """Of rows of pipeline.stats.STATS; `newest`: the last record that they were computed from.

    Raises PipelineError: LAKE_SHORT when nothing is known of these queues, else with the reason of a refusal.
    """
    of = sorted(set(asked.queues) or there.queues)
    known = stats.where(F.col("queue").isin(of))
    found = span(known)
    if found is None:
        raise PipelineError(LAKE_SHORT, f"nothing happened in the lake on {', '.join(of[:5]) or 'any queue'}")
    rows = [row.asDict() for row in weights(known).orderBy("queue").collect()]
    begin, end = found[0], min(found[1], newest)
    until = end + asked.valid_for
    facts: dict[str, Any] = {
        "name": asked.name,
        "dry_run": asked.dry_run,
        "replaces_version": there.version,
        "computed_from": begin.isoformat(),
        "computed_until": end.isoformat(),
        "valid_until": until.isoformat(),
    }
    table = Table("weights", [{**row, "weight": round(row["weight"], 6)} for row in rows])
    if asked.dry_run:
        expired = until <= datetime.now(UTC)
        facts["expired"] = expired
        over = ", which is over: ingest first" if expired else ""
        lead = f"Table {asked.name} would be published, valid until {_said(until)}{over}; nothing was."
        return Weighed(table, facts, lead)
    done = _publish(source, asked, there, rows, begin, end)
    lead = f"Table {asked.name} is published as version {done.version}, valid until {_said(done.valid_until)}."
    return Weighed(table, facts | {"version": done.version}, lead)


def _publish(
    source: Source, asked: Publication, there: There, rows: Sequence[dict[str, Any]], begin: datetime, end: datetime
) -> Any:
    given = {row["queue"]: row["weight"] for row in rows}
    return _asked(
        source,
        lambda client: client.publish_weights(
            asked.name,
            given,
            valid_until=end + asked.valid_for,
            expected_version=there.version,
            published_by=PUBLISHER,
            computed_from=begin,
            computed_until=end,
            domain=source.domain,
        ),
    )


def _asked(source: Source, ask: Callable[[tandemq.Client], Result]) -> Result:
    try:
        with tandemq.connect(source.target, timeout=source.timeout_s) as client:
            return ask(client)
    except TandemqError as error:
        raise PipelineError(error.reason, error.message) from error


def _said(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S}Z"


def newest_of(journal: DataFrame) -> datetime:
    """When the last record happened; 1970 of an empty journal."""
    row = journal.agg(F.max(F.unix_micros("time")).alias("newest")).first()
    return EPOCH + timedelta(microseconds=(row["newest"] if row else None) or 0)

"""Job replay: messages of the lake, or of the journals themselves, into queues again, in their order.

With a writer's name each message enters once, however often the job is run: see `replaying`. Messages are sent with
what stood beside their bodies; docs/SPARK.md says what is not given back, and why.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

import tandemq
from pipeline.integrity import OF_BEFORE, progress_to, prove
from pipeline.lake import Lake
from pipeline.outcome import DONE, Outcome, Table
from pipeline.problems import INTERRUPTED, LAKE_SHORT, NO_PAYLOAD, PipelineError
from pipeline.replaying import Slice, Wanted, batch, chosen, groups, slices, summary
from pipeline.schema import LAKE, ddl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from pipeline.running import Context, Job

ROWS_MAX, BYTES_MAX = 200_000, 256 << 20
"""Of one batch, which is staged as a whole: the pair stages at most 1 GiB at a time."""


class Asked(NamedTuple):
    """What one replay is to do."""

    wanted: Wanted
    to: str = ""
    """One queue for all; empty: those that they were in."""
    target: str = ""
    """Endpoints; empty: those of the source."""
    journal: bool = False
    """From the journals as they are now, and not from the lake."""
    writer: str = ""
    """Empty: what is run twice is sent twice."""
    dry_run: bool = False
    skip_missing: bool = False
    """Leave out messages whose payload is nowhere; else refuse."""
    history_id: str = ""
    """Of what is sent; another one is refused. Empty: any."""

    def query_id(self, parts: Sequence[Slice], history_id: str = "") -> str:
        """Of a run under a writer's name: whoever is asked for something else is another one, and refused.

        parts: who finds other messages cuts other batches, and the pair knows them by their numbers alone. In a journal
        the messages of a queue that was deleted since have no name any more. history_id: of what is sent, for another
        pair may have the same numbers; empty: it has none.
        """
        what = json.dumps([self.wanted, self.to, self.journal, parts, *([history_id] if history_id else [])])
        return f"replay {hashlib.blake2b(what.encode(), digest_size=8).hexdigest()}"


def replaying(asked: Asked) -> Job:
    def job(context: Context) -> Outcome:
        history_id = _history_id(context, asked)
        messages = chosen(_journal(context, asked, history_id), asked.wanted).persist()
        try:
            return _replay(context, asked, messages, history_id)
        finally:
            messages.unpersist()

    return job


def _history_id(context: Context, asked: Asked) -> str:
    """Of what is sent; empty: it has none, or nobody asks. Raises PipelineError with reason PAIR_CHANGED."""
    if asked.journal:
        if asked.history_id or not asked.writer:
            return asked.history_id
        source = context.config.source
        with tandemq.connect(source.target, timeout=source.timeout_s) as client:
            return client.journal_head(domain=source.domain).next.history_id
    lake = Lake(context.config.lake.path_of())
    lake.check_one_history()
    found = lake.history_id()
    if found and asked.history_id not in ("", found):
        text = f"{lake.path} holds history {found}, and {asked.history_id} is asked for"
        raise PipelineError("PAIR_CHANGED", f"{text}: it is the lake of another pair, or of this one formed anew")
    return found


def _journal(context: Context, asked: Asked, history_id: str) -> DataFrame:
    spark, source = context.spark, context.config.source
    if not asked.journal:
        lake = Lake(context.config.lake.path_of())
        if prove(lake, on_progress=progress_to(context.notify)).of_before:
            context.notify(OF_BEFORE)
        _check_reach(lake, asked)
        return spark.read.schema(ddl(LAKE)).option("basePath", str(lake.journal)).parquet(*lake.paths())
    given = {"target": source.target, "domain": source.domain, "kinds": "enqueued", "attributes": "true"}
    given |= {"queues": ",".join(asked.wanted.queues)} if asked.wanted.queues else {}
    given |= {"startLogIndex": str(asked.wanted.from_log_index)} if asked.wanted.from_log_index else {}
    given |= {"endLogIndex": str(asked.wanted.until_log_index)} if asked.wanted.until_log_index else {}
    given |= {"historyId": history_id} if history_id else {}
    return spark.read.format("tandemq").options(**given).load()


def _check_reach(lake: Lake, asked: Asked) -> None:
    """A run that is repeated must find what it found: what was ingested between the two would be taken for sent."""
    if not lake.paths():
        raise PipelineError(LAKE_SHORT, f"{lake.path} holds no journal")
    for member in lake.members():
        end = lake.end(member)
        if asked.writer and (end is None or end.log_index < asked.wanted.until_log_index):
            text = f"of member {member} the lake ends before log index {asked.wanted.until_log_index}"
            raise PipelineError(LAKE_SHORT, text)


def _bare_before(context: Context, asked: Asked) -> int:
    """Before this log index an older version has kept bodies alone; 0: nothing of what is wanted."""
    since = 0 if asked.journal else Lake(context.config.lake.path_of()).attributes_from()
    return since if since > asked.wanted.from_log_index else 0


def _replay(context: Context, asked: Asked, messages: DataFrame, history_id: str) -> Outcome:
    rows = [{**row.asDict(), "to": asked.to or row["queue"]} for row in summary(messages).collect()]
    missing = sum(row["without_payload"] for row in rows)
    count = sum(row["rows"] for row in rows) - missing
    if missing and not asked.skip_missing and not asked.dry_run:
        text = f"{missing} messages have no payload: they were volatile, or the lake was made without payloads"
        raise PipelineError(NO_PAYLOAD, text)
    before = _bare_before(context, asked)
    bare = f" Before log index {before} an older version kept the lake: bodies alone." if before else ""
    parts = slices([tuple(row) for row in groups(messages).collect()], ROWS_MAX, BYTES_MAX)
    facts = {"batches": len(parts), "dry_run": asked.dry_run, "bare_before": before}
    if asked.dry_run:
        lead = f"{count:,} messages would be sent in {len(parts)} batches; nothing was.{bare}"
        return Outcome("replay", DONE, lead, [Table("queues", rows)], facts=facts)
    options = {"target": asked.target or context.config.source.target, "domain": context.config.source.domain}
    query_id = asked.query_id(parts, history_id)
    for number, part in enumerate(parts):
        if context.stop.is_set():
            raise PipelineError(INTERRUPTED, f"stopped by a signal after {number} of {len(parts)} batches")
        named = {"writer": asked.writer, "batchId": str(number), "queryId": query_id} if asked.writer else {}
        frame = batch(messages, part, asked.to)
        frame.write.format("tandemq").options(**options, **named).mode("append").save()
        context.notify(f"batch {number + 1} of {len(parts)}: {part.rows:,} messages, log index {part.until_log_index}")
    lead = f"{count:,} messages sent in {len(parts)} batches.{bare}"
    return Outcome("replay", DONE, lead, [Table("queues", rows)], facts=facts)

"""Follows one member's journal into the lake: a query, and what its micro-batches become. It decides nothing about
other members, and never waits for one that is away.

Each query begins where the lake ends, with a checkpoint of its own that is thrown away with it. A micro-batch is
written beside the lake, then published under the place where it ends: if this process dies before, nothing happened,
and whoever comes next reads that stretch again; after, he goes on behind it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import tandemq
from pipeline.config import Pipeline
from pipeline.heads import rows_of
from pipeline.lake import Lake, Place
from pipeline.moved import Moved, Movements
from pipeline.problems import PipelineError, problem_of
from pipeline.schema import JOURNAL, names
from tandemq.client.places import JournalPosition
from tandemq.errors import TandemqError
from tandemq.spark.options import Options
from tandemq.spark.places import connect, settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

COLUMNS = list(names(JOURNAL))
BEGINNING = Place(0, 0)


@dataclass
class Following:
    """One member. `member` is empty until it has said its name."""

    spark: SparkSession
    config: Pipeline
    lake: Lake
    endpoint: str
    notify: Callable[[str], None] = field(repr=False)
    member: str = ""
    moved: Movements = field(default_factory=Movements)
    first: int = 0
    """Where this run began; 0: it has not yet."""
    head: int = 0
    """Where the member's journal ended when it was asked last."""
    head_known: bool = True
    """It answered when it was asked last."""
    query: StreamingQuery | None = None
    progress_at: float = field(default_factory=time.monotonic)
    failed: PipelineError | None = None
    """In a micro-batch of ours, of which Spark only repeats the text."""
    every_record: bool = False
    """The member can give a row of each record, and no queues are chosen."""
    _place: Place = BEGINNING
    _checkpoint: Path | None = None
    """Of the query; None: there is none."""

    @property
    def rows(self) -> int:
        return self.moved.rows

    @property
    def at(self) -> int:
        """The first log index that is not in the lake."""
        return self._place.log_index

    @property
    def place(self) -> Place | None:
        """Where what the lake has of this member ends; None: it has nothing yet, or the member has not answered yet."""
        return self._place if self._place.epoch else None

    def begin(self, *, continuous: bool) -> None:
        """Start a query behind what is in the lake. Raises PipelineError when the member is away, or refuses."""
        try:
            self._locate()
        except TandemqError as error:
            raise PipelineError(error.reason, error.message or error.reason) from error
        self.failed = None
        self._checkpoint = self.lake.staging(f"checkpoint-{self.member}")
        source = self.config.source
        options = {
            "target": self.endpoint,
            "thisMember": "true",
            "domain": source.domain,
            "queues": ",".join(source.queues),
            "payloads": str(source.payloads).lower(),
            "attributes": "true",
            "timeoutSeconds": str(round(source.timeout_s)),
            "partitions": str(self.config.ingest.partitions),
            "maxRowsPerTrigger": str(self.config.ingest.rows_per_batch),
            "everyRecord": str(self.every_record).lower(),
            "startingPosition": self._position(),
        }
        frame = self.spark.readStream.format("tandemq").options(**options).load()
        writer = frame.writeStream.foreachBatch(self._take).queryName(f"ingest {self.member}")
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        seconds = f"{self.config.ingest.every_s:g} seconds"
        self.query = (
            writer.trigger(processingTime=seconds) if continuous else writer.trigger(availableNow=True)
        ).start()

    def _position(self) -> str:
        """The place, with what the member holds it against."""
        if not self._place.epoch:
            return str(self.at)
        history_id = self.lake.history_id()
        return f"{self._place.log_index}:{self._place.epoch}" + (f":{history_id}" if history_id else "")

    def problem(self) -> PipelineError | None:
        """Why the query ended; None while it runs, and when it came to its end."""
        assert self.query is not None
        if self.query.isActive or (error := self.query.exception()) is None:
            return None
        return self.failed or problem_of(str(error))

    def ask_head(self) -> None:
        """Where the journal ends now. A member that does not answer within a second is left alone."""
        domain = self.config.source.domain
        try:
            with connect(Options(target=self.endpoint, domain=domain, timeout_s=1, this_member=True)) as client:
                self.head = client.journal_head((), domain=domain, this_member=True).next.log_index
        except TandemqError:
            self.head_known = False
        else:
            self.head_known = True

    def summary(self) -> str:
        """Where it stands, for people."""
        behind = f"{max(0, self.head - self.at):,} records behind" if self.head_known else "the member does not answer"
        return f"{self.member or self.endpoint}: {self.rows:,} rows, at {self.at:,} of {self.head:,}, {behind}"

    def end(self) -> None:
        """Stop the query; what it has not published is gone."""
        from py4j.protocol import Py4JError

        if self.query is not None:
            with suppress(Py4JError, ConnectionError):  # it ends with Spark's process, too
                self.query.stop()
            self.query = None
        if self._checkpoint is not None:
            self.lake.discard(self._checkpoint)
            self._checkpoint = None

    def _locate(self) -> None:
        """Whose journal it is, where the lake goes on in it, and whether it still can."""
        source = self.config.source
        options = Options(
            target=self.endpoint,
            queues=source.queues,
            domain=source.domain,
            timeout_s=round(source.timeout_s),
            this_member=True,
        )
        with connect(options) as client:
            self._heads(client)
            place = self.lake.end(self.member)
            start = JournalPosition(place.log_index, place.epoch, history_id=self.lake.history_id()) if place else None
            found = settled(client, options, source.domain, start)
            self._place = place or Place(found.log_index, found.epoch)
            self.lake.note_every_record(self.member, self.at if self.every_record else None)
            self.first = self.first or self.at

    def _heads(self, client: tandemq.Client) -> None:
        source_queues = self.config.source.queues
        rows = rows_of(client, self.config.source.domain, source_queues)
        member = rows[0]["member"]
        if self.member and member != self.member:
            text = f"{self.endpoint} was member {self.member} and is {member} now"
            raise PipelineError("CONFIG_ERROR", text)
        history_id = rows[0]["history_id"] or ""
        if self.lake.hold_to(history_id, member) and self.lake.end(member) is not None:
            self.notify(f"{self.lake.path}: an older version kept it; it is held to history {history_id} from now on")
        if source_queues and self.lake.end(member) is not None:
            self._check_queues(member, rows)
        self.member, self.head = member, rows[0]["next_log_index"]
        self.every_record = rows[0]["every_record"] and not source_queues
        self.lake.save_heads(member, rows)

    def _check_queues(self, member: str, rows: list[dict[str, Any]]) -> None:
        """Rows are chosen by name: those of a queue that was deleted would be left out for a new one of its name."""
        before = {row["queue"]: row["queue_id"] for row in self.lake.heads() if row["member"] == member}
        for row in rows:
            if row["queue"] is not None and before.get(row["queue"], row["queue_id"]) != row["queue_id"]:
                text = (
                    f"queue {row['queue']!r} was deleted, and another one of its name created, since the last run: "
                    "what was not read of the first one is missing; begin a lake in another directory"
                )
                raise PipelineError("QUEUE_NOT_FOUND", text)

    # -- a micro-batch, called by Spark on a thread of its own ---------------------------------------------------------

    def _take(self, frame: DataFrame, number: int) -> None:
        try:
            end = self._end_of(number)
            if end.log_index == self.at:
                return  # Spark plans one when there is nothing, too
            staged = self.lake.staging(f"rows-{self.member}")
            frame.select(*COLUMNS).write.parquet(str(staged))
            rows = sum(pq.read_metadata(file).num_rows for file in staged.glob("*.parquet"))
            published = self.lake.publish(self.member, self.at, end, staged, rows=rows)
        except PipelineError as error:
            self.failed = error
            raise
        self._place = end
        self.progress_at = time.monotonic()
        self.moved.add(Moved(self.progress_at, rows, published.bytes, end.log_index, end.epoch))

    def _end_of(self, number: int) -> Place:
        """Where Spark has planned this micro-batch to end: it writes that down before it starts it."""
        assert self._checkpoint is not None
        text = (self._checkpoint / "offsets" / str(number)).read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text.splitlines()[-1])[self.config.source.domain]
        return Place(found["log_index"], found["epoch"])

"""Job ingest: the journals of both members into the lake, each its own copy, until their end or until it is stopped.

A member that is away is waited for, and the other one goes on meanwhile. What cannot pass ends the job, by its reason.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.adopting import settle
from pipeline.compacting import compact
from pipeline.config import Pipeline
from pipeline.following import Following
from pipeline.integrity import INGEST_BYTES, progress_to, prove
from pipeline.keeping import Keeping
from pipeline.lake import Lake
from pipeline.moved import Moved
from pipeline.problems import INTERRUPTED, LAKE_SCHEMA, PipelineError
from pipeline.running import SIGNAL_S
from pipeline.schema import BARE_JOURNAL, JOURNAL, ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S, REPORT_S, AGAIN_S = 0.1, 2.0, 1.0
COMPACT_EVERY = 200
"""Micro-batches of a job that does not end."""


class Ingested(NamedTuple):
    """What came of one member."""

    member: str
    endpoint: str
    first_log_index: int
    next_log_index: int
    rows: int
    bytes: int
    micro_batches: int
    moved: list[Moved]


def ingest(
    spark: SparkSession,
    config: Pipeline,
    *,
    continuous: bool,
    stop: threading.Event,
    notify: Callable[[str], None],
) -> list[Ingested]:
    """Follow every member of config.source.target. Without `continuous` up to what was committed when it began.

    Raises PipelineError; what was published until then stays. A continuous one returns when `stop` is set.
    """
    lake = Lake(config.lake.path_of())
    with lake.locked():
        unread = prove(lake, read_bytes=INGEST_BYTES, on_progress=progress_to(notify)).unread_bytes
        if unread:
            notify(f"{lake.path}: of {unread:,} bytes names and sizes alone were looked at: `tandemq pipeline verify`")
        facts = {
            "domain": config.source.domain,
            "queues": sorted(config.source.queues),
            "payloads": config.source.payloads,
        }
        if lake.claim(facts):
            notify(
                f"{lake.path}: an older version kept it, without what stands beside a body: those columns stay null "
                f"before log index {lake.attributes_from()}, and are filled from now on"
            )
        settle(lake, notify)
        _check_columns(spark, lake)
        members = [Following(spark, config, lake, endpoint, notify) for endpoint in config.source.endpoints]
        run = _Run(members, Keeping(config, lake, notify), continuous, notify)
        try:
            spark_lives = run.until_stopped(stop, config.ingest.wait_s)
        finally:
            for each in run.members:
                each.end()
        if stop.is_set() and not continuous:
            raise PipelineError(INTERRUPTED, f"stopped by a signal; {run.summary()}")
        for each in run.members if spark_lives else ():
            compact(spark, lake, each.member, config.ingest.compact_mib)
        return [_ingested(each) for each in run.members]


class _Run:
    """The members, and who is waited for."""

    def __init__(
        self, members: list[Following], keeping: Keeping, continuous: bool, notify: Callable[[str], None]
    ) -> None:
        self.members, self._keeping = members, keeping
        self._continuous, self._report = continuous, notify
        self._done: set[str] = set()
        self._again_at: dict[str, float] = {}
        self._compacted = dict.fromkeys((each.endpoint for each in members), 0)

    def summary(self) -> str:
        """Where it stands, for people."""
        return "; ".join(each.summary() for each in self.members)

    def until_stopped(self, stop: threading.Event, wait_s: float) -> bool:
        """As `until_done`; False: Spark's process got the signal too, and is gone. What was published stays."""
        from py4j.protocol import Py4JError

        try:
            self.until_done(stop, wait_s)
        except (Py4JError, ConnectionError):
            if not stop.wait(SIGNAL_S):
                raise
            return False
        return True

    def until_done(self, stop: threading.Event, wait_s: float) -> None:
        report_at = time.monotonic() + REPORT_S
        self._keep()  # before anything is read: what is found at the beginning is there when it is read
        while len(self._done) < len(self.members) and not stop.wait(POLL_S):
            for each in self.members:
                if each.endpoint not in self._done:
                    self._look_after(each, wait_s)
            self._keep()
            if time.monotonic() >= report_at:
                if self._continuous:  # else it ends where the journal ended when it began
                    for each in self.members:
                        each.ask_head()
                self._report(self.summary())
                report_at = time.monotonic() + REPORT_S

    def _keep(self) -> None:
        self._keeping.look([each.place for each in self.members])

    def _look_after(self, each: Following, wait_s: float) -> None:
        """Start what does not run, unless it came to its end. Raises PipelineError when waiting does not help."""
        try:
            if each.query is None:
                if time.monotonic() >= self._again_at.get(each.endpoint, 0.0):
                    each.begin(continuous=self._continuous)
                return
            if each.query.isActive:
                self._maybe_compact(each)
                return
            if (problem := each.problem()) is not None:
                raise problem
        except PipelineError as problem:
            each.end()
            waited_s = time.monotonic() - each.progress_at
            if not problem.may_pass or waited_s > wait_s:
                raise
            self._report(f"{each.member or each.endpoint}: waits since {waited_s:.0f} s: {problem}")
            self._again_at[each.endpoint] = time.monotonic() + AGAIN_S
        else:
            self._done.add(each.endpoint)

    def _maybe_compact(self, each: Following) -> None:
        if each.moved.micro_batches - self._compacted[each.endpoint] >= COMPACT_EVERY:
            self._compacted[each.endpoint] = each.moved.micro_batches
            compact(each.spark, each.lake, each.member, each.config.ingest.compact_mib)


def _check_columns(spark: SparkSession, lake: Lake) -> None:
    """The rows that are there have the columns of those that will come, or those of before. Raises PipelineError."""
    from pyspark.sql.types import StructType

    wanted, before = (StructType.fromDDL(ddl(table)) for table in (JOURNAL, BARE_JOURNAL))
    for member in lake.members():
        for stretch in lake.stretches(member)[-1:]:
            found = spark.read.parquet(str(stretch.path)).schema
            if _shape(found) not in (_shape(wanted), _shape(before)):
                text = f"{stretch.path} has the columns {found.simpleString()}, not {wanted.simpleString()}"
                raise PipelineError(LAKE_SCHEMA, text)


def _shape(schema: Any) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _ingested(each: Following) -> Ingested:
    moved = each.moved
    return Ingested(
        each.member, each.endpoint, each.first, each.at, moved.rows, moved.bytes, moved.micro_batches, moved.points
    )

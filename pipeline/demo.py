"""The demo: flight records through a pair, a kill in the middle, ingest all the while, audit, planted faults; at last
another pair under the same name.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from chaos.cluster import Cluster
from pipeline import report
from pipeline.auditing import auditing
from pipeline.config import Pipeline, parse
from pipeline.durable import unwritable
from pipeline.flights import QUEUE, Flights, Played
from pipeline.ingest import ingest
from pipeline.ingesting import ingesting
from pipeline.lake import Lake
from pipeline.outcome import CLEAN, DONE, VIOLATIONS, Mark, Outcome, Plot, Table
from pipeline.patience import while_it_moves
from pipeline.planting import FAULTS, Fault, plant
from pipeline.problems import DEMO_FAILED, PipelineError
from pipeline.running import Context, Ended, reporting_problems
from pipeline.session import opened
from pipeline.statistics import statistics
from tandemq.demo.rows import flights
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORY = "history.parquet"
FOLLOWED_S, POLL_S = 600.0, 0.1
"""Spark's first micro-batch takes ten seconds on an idle machine, and minutes on a busy one."""
CONFIG = """[source]
target = "{target}"
timeout_s = 5.0
[audit]
history = "{history}"
[ingest]
every_s = 0.5
[stats]
window_s = 1
"""


def play(out: Path, notify: Callable[[str], None], *, rows: int) -> Ended:
    """Everything, into a directory of its own under `out`; `rows` is so many records.

    The outcome's verdict is DONE when all of it came out as it must, else VIOLATIONS. Raises PipelineError.
    """
    began = time.monotonic()
    here = (out / time.strftime("%Y%m%d-%H%M%S")).resolve()
    here.mkdir(parents=True)
    cluster = Cluster(here / "pair", pair="flights")
    text = CONFIG.format(target=cluster.target, history=here / HISTORY)
    (here / "pipeline.toml").write_text(text, encoding="utf-8")
    config = parse(text, str(here / "pipeline.toml"), here)
    records = flights().texts[:rows]
    with (
        reporting_problems(),
        opened(config.spark, "demo", here) as spark,
    ):  # before any client: its JVM is forked from here
        played, ingested = _play(spark, config, cluster, records, notify)
        context = Context(spark, config, threading.Event(), notify)
        notify("auditing both journals and what the clients were answered")
        audited = auditing()(context)
        report.write(Path(config.report.path) / "audit", audited)
        counted = statistics(context)
        report.write(Path(config.report.path) / "stats", counted)
        planted = [_planted(context, here, fault) for fault in FAULTS]
        refused = _begun_anew(context, cluster)
    outcome = _outcome(played, ingested, audited, counted, planted, refused)
    context.notify(outcome.lead)
    return Ended(outcome, report.write(Path(config.report.path) / "demo", outcome), time.monotonic() - began)


def _play(
    spark: SparkSession, config: Pipeline, cluster: Cluster, records: Sequence[bytes], notify: Callable[[str], None]
) -> tuple[Played, Outcome]:
    """The load, followed all the while by a continuous ingest, and by one more to its end."""
    stop, lake = threading.Event(), Lake(Path(config.lake.path))
    failed: list[PipelineError] = []

    def follow() -> None:
        try:
            with reporting_problems():
                ingest(spark, config, continuous=True, stop=stop, notify=lambda text: notify(f"ingest: {text}"))
        except PipelineError as error:
            failed.append(error)

    async def story() -> tuple[Played, Outcome]:
        async with cluster.running():
            notify(f"pair {cluster.pair} is whole; ingest begins to follow it")
            load = Flights(cluster, records, notify)
            await load.begin()
            following = threading.Thread(target=follow, name="ingest")
            following.start()
            try:
                followed = _followed(lake, len(cluster.members), lambda: bool(failed))
                await while_it_moves(followed, lambda: _begun(lake), "members whose journal is in the lake", FOLLOWED_S)
                notify(f"{len(records):,} flight records go through it")
                played = await load.play()
            finally:
                stop.set()
                await asyncio.to_thread(following.join)
            if failed:
                raise failed[0]
            _keep(load, Path(config.audit.history))
            last = Context(spark, config, threading.Event(), lambda text: notify(f"ingest: {text}"))
            return played, await asyncio.to_thread(ingesting(continuous=False), last)

    try:
        return asyncio.run(story())
    except (TandemqError, TimeoutError, RuntimeError) as error:
        text = f"the load came to no end: {error}; logs are in {cluster.data_dir}"
        raise PipelineError(DEMO_FAILED, text) from error


def _keep(load: Flights, path: Path) -> None:
    """What its clients saw, for the audit. Raises PipelineError."""
    try:
        load.recording.write(path)
    except OSError as error:
        raise unwritable(path, error) from error


async def _followed(lake: Lake, members: int, given_up: Callable[[], bool]) -> None:
    """Returns when something of each member's journal is in the lake, or ingest has ended."""
    while True:
        if len(_begun(lake)) == members or given_up():
            return
        await asyncio.sleep(POLL_S)


def _begun(lake: Lake) -> list[str]:
    return [name for name in lake.members() if lake.end(name)]


def _planted(context: Context, here: Path, fault: Fault) -> dict[str, Any]:
    """One fault in a copy, and what the audit says of it."""
    change = msgspec.structs.replace
    copy = plant(Lake(Path(context.config.lake.path)), here / "planted" / fault.name, fault, QUEUE)
    at = change(context.config.lake, path=str(copy.path))
    reports = change(context.config.report, path=str(here / "reports" / f"planted-{fault.name}"))
    outcome = auditing()(context._replace(config=change(context.config, lake=at, report=reports)))
    named = {row["kind"]: row["count"] for row in outcome.tables[0].rows if row["count"]}
    context.notify(f"planted in a copy: {fault.title}; the audit says {_counted(named)}")
    report.write(Path(reports.path) / "audit", replace(outcome, lead=f"Planted: {fault.title}. {outcome.lead}"))
    return {"planted": fault.title, "found": fault.kind in named, "named": _counted(named)}


def _begun_anew(context: Context, cluster: Cluster) -> str:
    """By which reason an ingest into the old lake is refused, when of the pair only the names and ports are left."""

    async def story() -> str:
        async with cluster.running():
            await Flights(cluster, (), context.notify).begin()
            try:
                await asyncio.to_thread(ingesting(continuous=False), context)
            except PipelineError as problem:
                context.notify(f"ingest is refused: {problem}")
                return problem.reason
        return ""

    context.notify("everything of the pair is wiped, and it begins anew under the same name")
    for name in cluster.children:
        shutil.rmtree(cluster.data_dir / name)
    try:
        return asyncio.run(story())
    except (TandemqError, RuntimeError) as error:
        raise PipelineError(DEMO_FAILED, f"the pair did not begin anew: {error}") from error


def _counted(named: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in named.items()) or "nothing"


def _outcome(
    played: Played,
    ingested: Outcome,
    audited: Outcome,
    counted: Outcome,
    planted: list[dict[str, Any]],
    refused: str,
) -> Outcome:
    good = audited.verdict == CLEAN and all(row["found"] for row in planted) and refused == "PAIR_CHANGED"
    steps = [
        {"step": "load", "came_to": f"{played.rows:,} records, master {played.victim} killed"},
        {"step": "takeover", "came_to": f"{played.takeover_ms:,} ms to the next acknowledgement"},
        *(
            {"step": f"lake, member {row['member']}", "came_to": f"to log index {row['next_log_index']:,}"}
            for row in ingested.tables[0].rows
        ),
        {"step": "audit", "came_to": audited.verdict},
        *({"step": f"planted: {row['planted']}", "came_to": f"named {row['named']}"} for row in planted),
        {"step": "the pair wiped and formed anew", "came_to": f"ingest is refused: {refused or 'NO, it went on'}"},
    ]
    lead = (
        "PASS: the audit is clean, names each planted fault, and another pair is refused."
        if good
        else "FAIL: not all came out as it must."
    )
    tables = [Table("steps", steps), *audited.tables[:1], *counted.tables[:1]]
    return Outcome(
        "demo", DONE if good else VIOLATIONS, lead, tables, [_with_kill(plot, played) for plot in counted.plots]
    )


def _with_kill(plot: Plot, played: Played) -> Plot:
    """Statistics are made of the journal, which knows of no kill."""
    kill = Mark((played.killed_ms - plot.began_ms) / 1000, f"kill -9 {played.victim}", kill=True)
    return plot._replace(marks=[*plot.marks, kill])

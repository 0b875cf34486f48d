"""Shows what the two audits are worth: many faults are planted in a lake of real flights, each alone and all together,
and both must name each at its place; and runs that are right, with kills among them, must raise nothing.

Example: python -m bench.audit.run --simulated 200 --campaigns 3 --spark-faults 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.audit.evidence import Evidence, evidence_of, places, written
from bench.audit.faults import ALONE, Named
from bench.audit.faults_told import FAULTS
from bench.machine import ROOT, facts
from bench.peers.place import ending_all, stoppable
from chaos.cluster import Cluster
from chaos.journals import Violation
from chaos.sim.draw.profiles import PROFILES, draw
from chaos.sim.tools.audited import audited
from pipeline.audit_small import audit_small, ends_of
from pipeline.config import parse
from pipeline.flights import QUEUE, Flights
from pipeline.ingest import ingest
from pipeline.lake import Lake
from tandemq.demo.rows import flights
from tandemq.spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUT = ROOT / "build" / "audit-check.json"
CONFIG = '[source]\ntarget = "{target}"\ntimeout_s = 30.0\n[ingest]\nwait_s = 300.0\n'
CONF = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    # What is compiled for a few rows is run once: most of the time would go there.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
KILLS = frozenset({"crash", "kill_in_sync", "blackout"})
"""Of the simulator: members that die."""
SHOWN = 3
"""Violations of a clean run that are told."""
Audit = Callable[[Lake, Path], list[Violation]]


@dataclass
class Line:
    """One fault, or all of them."""

    fault: str
    wanted: list[str]
    missed: dict[str, list[str]] = field(default_factory=dict)
    """By audit, what it did not name."""
    also: list[str] = field(default_factory=list)
    """Other kinds that were named: what follows from the fault."""
    differ: int = 0
    """Violations that one audit names and the other does not."""

    @property
    def good(self) -> bool:
        """Both named it, and said the same."""
        return not any(self.missed.values()) and not self.differ


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def in_memory(lake: Lake, history: Path) -> list[Violation]:
    return audit_small(lake, str(history)).violations


def on(spark: SparkSession) -> Audit:
    from pipeline.audit import audit
    from pipeline.reading import heads_of, history_of, journal_of

    def run(lake: Lake, history: Path) -> list[Violation]:
        told = history_of(spark, str(history))
        found = audit(journal_of(spark, lake), told, heads_of(spark, lake), ends_of(lake), lake.every_record_from())
        try:
            return [Violation(**row.asDict()) for row in found.violations.collect()]
        finally:
            found.close()

    return run


def flown(spark: SparkSession, here: Path, count: int) -> tuple[Lake, Path]:
    """A lake of so many flights through a pair whose master was killed, and what its clients were told."""
    cluster = Cluster(here / "pair", pair="flights")
    config = parse(CONFIG.format(target=cluster.target), str(here / "pipeline.toml"), here)
    history = here / "history.parquet"

    async def story() -> None:
        async with cluster.running():
            load = Flights(cluster, flights().texts[:count], say)
            await load.begin()
            await load.play()
            load.recording.write(history)
            await asyncio.to_thread(ingest, spark, config, continuous=False, stop=threading.Event(), notify=say)

    asyncio.run(story())
    return Lake(Path(config.lake.path)), history


def planted(
    audits: dict[str, Audit], lake: Lake, evidence: Evidence, faults: Sequence[str], at: Sequence[int], here: Path
) -> Line:
    """These faults in one copy."""
    spoilt = evidence.copy()
    wanted = [named for name, place in zip(faults, at, strict=True) for named in FAULTS[name](spoilt, place)]
    line = Line(faults[0] if len(faults) == 1 else f"all {len(faults)} together", sorted({n.kind for n in wanted}))
    place = here / "planted"
    found = {}
    try:
        copy, history = written(spoilt, lake, place)
        for name, audit in audits.items():
            found[name] = audit(copy, history)
            missed = [each for each in wanted if not any(each.is_in(one) for one in found[name])]
            line.missed[name] = [told(each) for each in missed]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    line.also = sorted({one.kind for each in found.values() for one in each} - set(line.wanted))
    keys = [{key(one) for one in each} for each in found.values()]
    line.differ = max((len(one ^ other) for one in keys for other in keys), default=0)
    return line


def told(each: Named) -> str:
    """For people."""
    return " ".join(str(part) for part in (each.kind, each.index, each.log_index, each.member) if part is not None)


def key(each: Violation) -> tuple[Any, ...]:
    """What both audits must say alike."""
    return each.kind, each.member, each.queue_id, each.index, each.count, each.log_index


def clean_campaigns(audits: dict[str, Audit], spark: SparkSession, here: Path, count: int, size: int) -> list[str]:
    """False alarms of runs of real pairs whose master was killed."""
    found = []
    for number in range(count):
        place = here / f"campaign-{number}"
        lake, history = flown(spark, place, size)
        for name, audit in audits.items():
            found += [f"campaign {number}, {name}: {each}" for each in audit(lake, history)[:SHOWN]]
        shutil.rmtree(place)
        say(f"campaign {number + 1} of {count}: {len(found)} false alarms so far")
    return found


class Simulated(msgspec.Struct):
    """Runs of the simulator, which are real members on virtual time."""

    runs: int = 0
    rows: int = 0
    with_kills: int = 0
    unfinished: int = 0
    false_alarms: list[str] = []


def simulated(count: int, first: int) -> Simulated:
    found, names, seed = Simulated(), list(PROFILES), first
    while found.runs < count and found.unfinished <= count:
        plan = draw(names[seed % len(names)], seed)
        run = audited(plan)
        seed += 1
        if run.found is None:
            found.unfinished += 1
            continue
        found.runs += 1
        found.rows += sum(run.found.rows.values())
        found.with_kills += any(each.kind in KILLS for each in plan.faults)
        found.false_alarms += [f"{plan.profile} {plan.seed}: {each}" for each in run.found.violations[:SHOWN]]
    return found


@contextmanager
def session() -> Iterator[SparkSession]:
    spark = local_session("local[2]", CONF)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark has put its own in its place
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def measured(options: argparse.Namespace, here: Path) -> dict[str, Any]:
    """Everything that is asked for."""
    began = time.monotonic()
    sims = simulated(options.simulated, options.seed)
    say(f"{sims.runs} simulated runs, {len(sims.false_alarms)} false alarms")
    with session() as spark:
        both: dict[str, Audit] = {"memory": in_memory, "spark": on(spark)}
        lake, history = flown(spark, here / "flights", options.flights)
        evidence = evidence_of(lake, history, QUEUE)
        names = list(FAULTS)[: options.faults or None]
        at = places(evidence, len(names))
        alarms = [f"the lake itself, {name}: {each}" for name, audit in both.items() for each in audit(lake, history)]
        lines = []
        for number, (name, place) in enumerate(zip(names, at, strict=True)):
            audits = both if number < options.spark_faults else {"memory": in_memory}
            lines.append(planted(audits, lake, evidence, [name], [place], here))
            say(shown(lines[-1]))
        beside = [(name, place) for name, place in zip(names, at, strict=True) if name not in ALONE]
        lines.append(planted(both, lake, evidence, [n for n, _ in beside], [p for _, p in beside], here))
        say(shown(lines[-1]))
        alarms += clean_campaigns(both, spark, here, options.campaigns, options.flights // 8)
    alarms += sims.false_alarms
    good = not alarms and all(line.good for line in lines)
    return {
        **facts(),
        "verdict": "PASS" if good else "FAIL",
        "faults": len(names),
        "of_them_alone_on_spark": min(len(names), options.spark_faults),
        "journal_rows": sum(len(rows) for rows in evidence.rows.values()),
        "history_rows": len(evidence.told),
        "lines": [{**msgspec.to_builtins(line), "named": line.good} for line in lines],
        "clean_runs": {
            "simulated": sims.runs,
            "of_them_with_kills": sims.with_kills,
            "rows_of_them": sims.rows,
            "real_pairs_with_a_kill": options.campaigns + 1,
        },
        "false_alarms": alarms,
        "took_s": round(time.monotonic() - began),
    }


def shown(line: Line) -> str:
    """A row of the table."""
    missed = [f"{name}: {', '.join(each)}" for name, each in line.missed.items() if each]
    verdict = "named" if line.good else f"MISSED {'; '.join(missed)}" if missed else f"{line.differ} told otherwise"
    return f"{line.fault:42} {', '.join(line.wanted):40} {verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flights", default=8_000, type=int, help="messages in the lake that faults are planted in")
    parser.add_argument("--faults", default=0, type=int, help="only the first so many; 0: all")
    parser.add_argument("--simulated", default=200, type=int, help="clean runs of the simulator")
    parser.add_argument("--campaigns", default=3, type=int, help="clean runs of real pairs, each with a kill")
    parser.add_argument("--seed", default=1, type=int, help="of the first simulated run")
    parser.add_argument(
        "--spark-faults", default=1_000, type=int, help="faults that Spark judges alone too; 0: together"
    )
    parser.add_argument("--out", default=OUT, type=Path)
    options = parser.parse_args()
    where = {"prefix": "tandemq-audit-", "dir": os.environ.get("BENCH_DIR")}
    with stoppable("audit-check"), tempfile.TemporaryDirectory(**where) as folder, ending_all():
        document = measured(options, Path(folder))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    for each in document["lines"]:
        print(f"{each['fault']:42} {', '.join(each['wanted']):60} {'named' if each['named'] else 'MISSED'}")
    runs, alone = document["clean_runs"], document["of_them_alone_on_spark"]
    print(f"{document['faults']} faults: each alone in memory, {alone} of them on Spark too; all together by both")
    print(f"{runs['simulated']} simulated runs in memory, {runs['of_them_with_kills']} of them with kills")
    print(f"{runs['real_pairs_with_a_kill']} runs of real pairs with a kill, by both")
    print(f"false alarms: {len(document['false_alarms'])}")
    for alarm in document["false_alarms"]:
        print(f"  {alarm}")
    print(f"{document['verdict']}: {options.out}, {document['took_s']} s")
    sys.exit(0 if document["verdict"] == "PASS" else 1)


if __name__ == "__main__":
    main()

"""Job audit: the lake and the client history to one of the two audits, and what that finds into a report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.journal_kinds import MEANING
from chaos.journals import Violation
from pipeline.audit_small import audit_small, ends_of, rows_there
from pipeline.config import Pipeline
from pipeline.durable import unwritable
from pipeline.integrity import OF_BEFORE, Proof, progress_to, prove
from pipeline.lake import Lake
from pipeline.outcome import CLEAN, VIOLATIONS, Outcome, Table
from pipeline.reading import not_compared
from pipeline.running import Context, Job
from pipeline.schema import VIOLATIONS as VIOLATION_COLUMNS

LISTED_MAX = 200
"""Violations in a report; all of them are in the Parquet beside it."""
_ARROW = {"STRING": pa.string(), "BIGINT": pa.int64()}


class Found(NamedTuple):
    """What either audit came to."""

    counts: Mapping[str, int]
    rows: Mapping[str, int]
    """Of the journal, by member."""
    asked: int
    unjudged: Sequence[str]
    listed: Sequence[Mapping[str, Any]]
    """The first violations."""
    how: str


def auditing(history: str = "") -> Job:
    """Both journals, against each other and against what clients were answered; rows that prove what is wrong."""

    def job(context: Context) -> Outcome:
        config = context.config
        asked = history or config.audit.history
        found = _in_memory(config, asked) or _on_spark(context, asked)
        return _outcome(found, bool(asked))

    return job


def auditing_small(history: str = "") -> Callable[[Pipeline], Outcome | None]:
    """The same without Spark; None where there is too much for it."""

    def job(config: Pipeline) -> Outcome | None:
        asked = history or config.audit.history
        found = _in_memory(config, asked)
        return None if found is None else _outcome(found, bool(asked))

    return job


def _in_memory(config: Pipeline, history: str) -> Found | None:
    lake = Lake(config.lake.path_of())
    names = prove(lake, read_bytes=0)  # who judges the rows reads all
    lake.check_one_history()
    there = rows_there(lake, history, None if names.of_before else names.rows)
    if there > config.audit.memory_rows:
        return None
    proof = prove(lake)
    found = audit_small(lake, history)
    in_order = sorted(found.violations, key=lambda each: (each.kind, each.queue or "", each.index or 0))
    if in_order:
        _write(_place(config), in_order)
    else:
        _forget(_place(config))
    counts = {kind: sum(each.kind == kind for each in in_order) for kind in MEANING}
    listed = [asdict(each) for each in in_order[:LISTED_MAX]]
    how = f"in memory, because there are {there:,} rows (audit.memory_rows: {config.audit.memory_rows:,})"
    unjudged = [*_unproven(proof), *found.unjudged, *not_compared(lake)]
    return Found(counts, found.rows, found.asked, unjudged, listed, how)


def _on_spark(context: Context, history: str) -> Found:
    from pipeline.audit import audit
    from pipeline.reading import compared_of, heads_of, history_of

    config, spark = context.config, context.spark
    lake = Lake(config.lake.path_of())
    proof = prove(lake, on_progress=progress_to(context.notify))
    asked = history_of(spark, history) if history else None
    found = audit(compared_of(spark, lake), asked, heads_of(spark, lake), ends_of(lake), lake.every_record_from())
    try:
        first = found.violations.orderBy("kind", "queue", "index").limit(LISTED_MAX)
        listed = [row.asDict() for row in first.collect()]
        if found.clean:
            _forget(_place(config))
        else:
            found.violations.write.mode("overwrite").parquet(str(_place(config)))
    finally:
        found.close()
    unjudged = [*_unproven(proof), *found.unjudged, *not_compared(lake)]
    return Found(found.counts, found.rows, found.asked, unjudged, listed, "on Spark")


def _unproven(proof: Proof) -> list[str]:
    return [OF_BEFORE] if proof.of_before else []


def _place(config: Pipeline) -> Path:
    return Path(config.report.path) / "audit" / "violations"


def _write(place: Path, found: Sequence[Violation]) -> None:
    """As the audit on Spark writes them, in the place of those of an earlier run."""
    schema = pa.schema([(column.name, _ARROW[column.kind]) for column in VIOLATION_COLUMNS])
    try:
        place.mkdir(parents=True, exist_ok=True)
        for old in place.iterdir():
            old.unlink()
        pq.write_table(pa.Table.from_pylist([asdict(each) for each in found], schema), place / "part-00000.parquet")
    except OSError as error:
        raise unwritable(place, error) from error


def _forget(place: Path) -> None:
    """Violations of an earlier run are none of this one."""
    try:
        shutil.rmtree(place)
    except (FileNotFoundError, NotADirectoryError):
        return  # where no report can be, who writes it says so
    except OSError as error:
        raise unwritable(place, error) from error


def _outcome(found: Found, has_history: bool) -> Outcome:
    kinds = [
        {"kind": kind, "count": found.counts.get(kind, 0), "meaning": meaning} for kind, meaning in MEANING.items()
    ]
    against = (
        f"{found.asked:,} rows of clients" if has_history else "no client history, so nothing is said of lost messages"
    )
    rows = ", ".join(f"{count:,} rows of member {member}" for member, count in found.rows.items())
    lead = " ".join([f"{rows}, against each other and against {against}, {found.how}.", *found.unjudged])
    verdict = VIOLATIONS if any(found.counts.values()) else CLEAN
    tables = [Table("checks", kinds), Table("violations", list(found.listed))]
    return Outcome("audit", verdict, lead, tables, facts={"not_judged": list(found.unjudged), "checked": found.how})

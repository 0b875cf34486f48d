"""Job audit: the lake and the client history to `pipeline.audit`, and what that finds into a report."""

from __future__ import annotations

from pathlib import Path

from chaos.journals import MEANING
from pipeline.audit import audit
from pipeline.lake import Lake
from pipeline.outcome import CLEAN, VIOLATIONS, Outcome, Table
from pipeline.reading import heads_of, history_of, journal_of
from pipeline.running import Context, Job

SHOWN_MAX = 200
"""Violations in a report; all of them are in the Parquet beside it."""


def auditing(history: str = "") -> Job:
    """Both journals, against each other and against what clients were told; rows that prove what is wrong."""

    def job(context: Context) -> Outcome:
        config, spark = context.config, context.spark
        lake = Lake(Path(config.lake.path))
        told = history or config.audit.history
        found = audit(journal_of(spark, lake), history_of(spark, told) if told else None, heads_of(spark, lake))
        try:
            kinds = [
                {"kind": kind, "count": found.counts.get(kind, 0), "meaning": meaning}
                for kind, meaning in MEANING.items()
            ]
            first = found.violations.orderBy("kind", "queue", "index").limit(SHOWN_MAX)
            shown = [row.asDict() for row in first.collect()]
            if not found.clean:
                place = Path(config.report.path) / "audit" / "violations"
                found.violations.write.mode("overwrite").parquet(str(place))
        finally:
            found.close()
        against = (
            f"{found.told:,} rows of clients" if told else "no client history, so nothing is said of lost messages"
        )
        rows = ", ".join(f"{count:,} rows of member {member}" for member, count in found.rows.items())
        lead = f"{rows}, against each other and against {against}."
        tables = [Table("checks", kinds), Table("violations", shown)]
        return Outcome("audit", CLEAN if found.clean else VIOLATIONS, lead, tables)

    return job

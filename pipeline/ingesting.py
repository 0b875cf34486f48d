"""Job ingest as a command starts it, and what its report shows."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.ingest import Ingested, ingest
from pipeline.outcome import DONE, Mark, Outcome, Plot, Table
from pipeline.running import Context, Job


def ingesting(*, continuous: bool) -> Job:
    """The journals of both members into the lake."""

    def job(context: Context) -> Outcome:
        found = ingest(context.spark, context.config, continuous=continuous, stop=context.stop, notify=context.notify)
        rows = [
            {
                "member": each.member,
                "endpoint": each.endpoint,
                "from_log_index": each.first_log_index,
                "next_log_index": each.next_log_index,
                "rows": each.rows,
                "micro_batches": each.micro_batches,
                "bytes": each.bytes,
            }
            for each in found
        ]
        lead = f"{sum(each.rows for each in found):,} rows of {len(found)} members into {context.config.lake.path}."
        return Outcome("ingest", DONE, lead, [Table("members", rows)], _plots(found))

    return job


def _plots(found: Sequence[Ingested]) -> list[Plot]:
    began = min((moved.at_s for each in found for moved in each.moved), default=0.0)
    total: dict[str, list[tuple[float, float]]] = {}
    epochs: dict[int, float] = {}
    for each in found:
        rows, line = 0, total.setdefault(f"member {each.member}", [])
        for moved in each.moved:
            rows += moved.rows
            line.append((moved.at_s - began, float(rows)))
            epochs[moved.epoch] = min(epochs.get(moved.epoch, moved.at_s), moved.at_s)
    if not any(total.values()):
        return []
    marks = [Mark(at_s - began, f"epoch {epoch}") for epoch, at_s in sorted(epochs.items())[1:]]
    return [Plot("rows in the lake, since the first micro-batch", "", total, marks)]

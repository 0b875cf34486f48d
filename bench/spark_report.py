"""Holds what `bench.spark_read` measured against its targets: whether one was reached, never why."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from bench.document import Document, Of

AUDIT_ROWS = (1_000_000, 5_000_000, 20_000_000)
READ, STREAM, MEMBERS, MASTER, AUDIT = "read", "stream", "members", "master", "audit"
TARGETS = {
    "batch read, rows/s": (300_000, 1),
    "stream, rows/s in steady batches": (70_000, 1),
    "member CPU of a bounded stream, of a whole read": (1.15, -1),
    "master CPU with ingest, share more": (0.10, -1),
    "master CPU with ingest, share more than beside a query that asks it nothing": (0.10, -1),
    "audit of 20 million rows, s": (120, -1),
    "audit, growth beside linear": (1.0, -1),
    "audit, growth of CPU": (1.0, -1),
}
"""The bound, and whether more (1) or less (-1) than it is good."""


class Judged(NamedTuple):
    """One target beside what was measured."""

    value: float
    target: float
    reached: bool


def judged(document: Document) -> dict[str, Judged]:
    """Each target of which there is a figure."""
    figures = document.figures()

    def median(*of: str) -> float | None:
        found = figures[of].spread("value") if of in figures else None
        return found.median if found else None

    def more(ours: Of, theirs: Of) -> float | None:
        a, b = median(*ours), median(*theirs)
        return a / b if a and b else None

    audited = sorted((run for of, found in figures.items() if of[0] == AUDIT for run in found.good.values()), key=rows)
    bounded = more((MEMBERS, "bounded"), (MEMBERS, "whole"))
    alone, other = (more((MASTER, "ingest"), (MASTER, each)) for each in ("alone", "other"))
    whole = bool(audited) and rows(audited[-1]) >= 0.999 * AUDIT_ROWS[-1]

    def growth(what: str) -> float | None:
        return max(((b[what] / a[what]) / (rows(b) / rows(a)) for a, b in pairwise(audited)), default=None)

    values = (
        *(median(READ), median(STREAM), bounded, alone and alone - 1, other and other - 1),
        *(audited[-1]["all_s"] if whole else None, growth("checks_s"), growth("checks_cpu_s")),
    )
    return {
        name: Judged(round(value, 3), bound, (value - bound) * sign >= 0)
        for (name, (bound, sign)), value in zip(TARGETS.items(), values, strict=True)
        if value is not None
    }


def rows(run: dict[str, int]) -> int:
    return run["rows"]

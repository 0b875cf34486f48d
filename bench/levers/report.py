"""Turns a document of levers into tables. A refused run is in no figure; a ratio is one of two turns of one round."""

from __future__ import annotations

from bench.check import Plan
from bench.document import Document, Figures, Of, Run
from bench.levers.table import LEVERS, SHIPPED, WORKLOADS
from bench.tables import grid, number, ranged, where

ROLES = ("master", "replica", "client")
CPU = tuple(f"us.{role}" for role in ROLES)
SWITCHES = tuple(f"switches.{role}" for role in ROLES)
RUNS_MIN = 5
SLOW = "does not keep up"
"""A turn of two seconds cannot show that: waiting for the last answer is a part of it."""


def wanted(document: Document) -> dict[Of, int]:
    """Every lever under every load."""
    runs = document.options["runs"]
    return {(work.name, lever.name): runs for work in WORKLOADS for lever in LEVERS}


def fields(_: Of, run: Run) -> tuple[str, ...]:
    times = ("late_p50_ms", "late_p99_ms") if "rate" in run else ()
    return ("value", "p50_ms", "p99_ms", "per_frame", *CPU, *SWITCHES, "copies", "syncs", "foreign_cores", *times)


PLAN = Plan(wanted, RUNS_MIN, fields, quiet=False)
"""In turns: what others take, they take of all alike, and the table says how much that was."""


def rows(document: Document) -> list[tuple[str, ...]]:
    """Heads, then a row a load and lever: medians and ranges, and beside them what they are divided by the shipped
    one's of the same round.
    """
    out = [
        (
            *("load", "variant", "p50, ms", "of shipped", "p99, ms"),
            *("us a message, all", "of shipped", "of master", "switches", "a frame", ""),
        )
    ]
    figures = document.figures()
    for work in WORKLOADS:
        shipped = figures.get((work.name, SHIPPED))
        for lever in LEVERS:
            found = figures.get((work.name, lever.name))
            if found is not None:
                out.append((work.name, lever.name, *cells(found, shipped if lever.name != SHIPPED else None)))
    return out


def cells(found: Figures, shipped: Figures | None) -> tuple[str, ...]:
    return (
        ranged(found.spread("p50_ms"), _two),
        ranged(found.ratio(shipped, "p50_ms"), _two),
        ranged(found.spread("p99_ms"), _two),
        ranged(found.spread(*CPU), number),
        ranged(found.ratio(shipped, *CPU), _two),
        _median(found, "us.master"),
        _median(found, *SWITCHES),
        _median(found, "per_frame"),
        "; ".join(said for said in found.said if said != SLOW),
    )


def _two(value: float) -> str:
    return f"{value:.2f}"


def _median(found: Figures, *names: str) -> str:
    each = found.spread(*names)
    return "" if each is None else number(each.median)


def markdown(document: Document) -> str:
    """The part of docs/PERFORMANCE.md."""
    options = document.options
    most = max((found.foreign_cores for found in document.figures().values()), default=0.0)
    how = (
        f"1 KiB payloads, {options['runs']} turns of {options['seconds']:g} s each; median (range). "
        f"Others used at most {most:.2f} cores."
    )
    return "\n".join([f"{where(document)}; {how}", "", *grid(rows(document))])

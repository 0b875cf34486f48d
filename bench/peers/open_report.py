"""Turns a document of open loops (`run.py --open`) into a table and a plot. A refused result is in no figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.peers import fit
from bench.peers.place import ROOT
from bench.peers.plots import Curve, curves
from bench.peers.report import amount, grid, summary

RESULTS = ROOT / "bench/results/open.json"
PAGE = ROOT / "docs/PERFORMANCE.md"
BEGIN, END = "<!-- open: written by make bench-report -->", "<!-- open: end -->"
PARTS = {
    "p50_ms": "p50",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "max_ms": "max",
    "late_p99_ms": "load's own lateness, p99",
}


PEERS = ("tandemq", "redis", "rabbitmq-quorum")
RATES = (1000.0, 5000.0, 20_000.0)
"""What the page shows: a document of fewer would take its place."""


def unfit(document: Mapping[str, Any]) -> list[str]:
    """Why a document must not be shown to readers; empty when it may."""
    found = fit.unfit(document)
    if missing := [name for name in PEERS if name not in document["peers"]]:
        found.append(f"without {', '.join(missing)}")
    if missing := [f"{rate:,.0f}/s" for rate in RATES if rate not in document["options"]["rates"]]:
        found.append(f"without {', '.join(missing)}")
    wrong = [line for line in document["results"] if not line["refused"] and line["rate"] != rate_of(line["workload"])]
    return found + [f"{line['peer']} {line['workload']} was due at {line['rate']:,.0f}/s" for line in wrong]


def rate_of(workload: str) -> float:
    """Of "open 1,000/s"."""
    return float(workload.removeprefix("open ").removesuffix("/s").replace(",", ""))


def rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Heads, then a row a system and rate: milliseconds from when a message was due, medians over runs."""
    found = summary(document)
    out = [("system", "due", "answered/s", *(f"{title}, ms" for title in PARTS.values()), "")]
    for name, about in document["peers"].items():
        entries = found.get(name, {})
        for workload in sorted(entries, key=rate_of):
            entry = entries[workload]
            figures = [""] * (1 + len(PARTS))
            if "median" in entry:
                figures = [amount(entry["median"]), *(f"{entry[part]:,.2f}" for part in PARTS)]
            said = [f"refused: {why}" for why in entry["refused"]] + entry.get("remarks", [])
            out.append((about["title"], workload.removeprefix("open "), *figures, "; ".join(said)))
    return out


def markdown(document: Mapping[str, Any]) -> str:
    """The part of docs/PERFORMANCE.md."""
    about, options = document["about"], document["options"]
    where = f"Commit {about['commit']}, {about['cpu']}, {about['cores']} cores for everything"
    how = f"{options['size']} B payloads, medians of {options['runs']} runs of {options['seconds']:g} s."
    image = "![p99 of each system at fixed rates](img/open-p99.svg)"
    return "\n".join([f"{where}; {how}", "", *grid(rows(document)), "", image])


def drawn(document: Mapping[str, Any]) -> dict[str, str]:
    """p99 against rate, a line a system that has all of them."""
    found = summary(document)
    workloads = sorted({workload for entries in found.values() for workload in entries}, key=rate_of)
    series = []
    for name in document["peers"]:
        entries = [found.get(name, {}).get(workload, {}) for workload in workloads]
        if all("median" in entry for entry in entries):
            values = tuple(entry["p99_ms"] * 1e3 for entry in entries)
            series.append(Curve(name, values, tuple((value, value) for value in values)))
    steps = [workload.removeprefix("open ") for workload in workloads]
    title = "p99 from when a message was due to its acknowledgement, microseconds"
    return {"open-p99.svg": curves(title, "messages a second", steps, series, decades=True)}

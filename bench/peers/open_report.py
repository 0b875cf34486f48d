"""Turns a document of open loops (`run.py --open`) into a table and a plot. A refused result is in no figure."""

from __future__ import annotations

from collections.abc import Iterator

from bench.document import Document, Figures, Of
from bench.peers.plots import Curve, curves
from bench.peers.report import compared, outdone_said, plan, standing
from bench.tables import amount, grid, number, where

OF_CONSUMER = ("received_p50_ms", "received_p99_ms")
PARTS = {
    "p50_ms": "p50",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "max_ms": "max",
    **dict(zip(OF_CONSUMER, ("received, p50", "received, p99"), strict=True)),
    "late_p99_ms": "load's own lateness, p99",
}


SYSTEMS = ("tandemq", "redis", "rabbitmq-quorum", "nats", "postgres")
BESIDE = ("valkey", "redis-older", "rabbitmq-quorum-older", "postgres-older")
"""Measured too where they are at hand."""
RATES = (300.0, 1000.0, 5000.0, 20_000.0)
PRODUCERS = (1, 50)
"""What the page shows: a document of fewer would take its place."""


def open_name(rate: float, producers: int) -> str:
    """Of a workload."""
    return f"open {rate:,.0f}/s" + (f" from {producers}" if producers > 1 else "")


def workloads(document: Document) -> list[str]:
    options = document.options
    return [open_name(rate, count) for count in producers(document) for rate in options["rates"]]


def producers(document: Document) -> list[int]:
    found: list[int] = document.options["producers"]
    return found


def wrong(document: Document) -> Iterator[str]:
    if missing := [name for name in SYSTEMS if name not in document.peers]:
        yield f"without {', '.join(missing)}"
    if missing := [f"{rate:,.0f}/s" for rate in RATES if rate not in document.options["rates"]]:
        yield f"without {', '.join(missing)}"
    if missing := [str(count) for count in PRODUCERS if count not in producers(document)]:
        yield f"without {', '.join(missing)} producers"
    for of, found in document.figures().items():
        if len(found.values(*OF_CONSUMER)) < len(found.good):
            yield f"{of[0]} {of[1]} does not say when messages came"
        for rate in sorted(set(found.values("rate").values()) - {rate_of(of)}):
            yield f"{of[0]} {of[1]} was due at {rate:,.0f}/s"


PLAN = plan(lambda document, _: workloads(document), compared, wrong)


def rate_of(of: Of) -> float:
    """Of "open 1,000/s from 50"."""
    return float(of[1].removeprefix("open ").partition("/s")[0].replace(",", ""))


def producers_of(of: Of) -> int:
    """Of "open 1,000/s from 50"."""
    return int(of[1].partition(" from ")[2] or 1)


def rows(document: Document) -> list[tuple[str, ...]]:
    """Heads, then a row a system that stands and rate: milliseconds from when a message was due, medians over runs."""
    heads = ("system", "due", "producers", "answered/s", *(f"{title}, ms" for title in PARTS.values()))
    out = [(*heads, "us a message, servers", "load", "")]
    found = sorted(document.figures().values(), key=lambda each: (producers_of(each.of), rate_of(each.of)))
    for name, about in standing(document).items():
        for each in (each for each in found if each.of[0] == name):
            spreads = [each.spread(part) for part in ("value", *PARTS)]
            answered, *times = [spread.median if spread else None for spread in spreads]
            rate = "" if answered is None else amount(answered)
            cells = ("" if ms is None else f"{ms:,.2f}" for ms in times)
            due, count = f"{rate_of(each.of):,.0f}/s", f"{producers_of(each.of)}"
            out.append((about["title"], due, count, rate, *cells, *used(each), "; ".join(each.said)))
    return out


def used(found: Figures) -> tuple[str, str]:
    """Processor time a message: of all processes of the system, and of producers and consumer."""
    servers, load = found.spread("cpu_us.servers"), found.spread("cpu_us.producer")
    return tuple("" if each is None else number(each.median) for each in (servers, load))  # type: ignore[return-value]


def markdown(document: Document) -> str:
    """The part of docs/PERFORMANCE.md."""
    options = document.options
    how = f"{options['size']} B payloads, medians of {options['runs']} runs of {options['seconds']:g} s."
    image = "![p99 of each system at fixed rates](img/open-p99.svg)"
    return "\n".join([f"{where(document)}; {how}", "", *grid(rows(document)), *outdone_said(document), "", image])


def drawn(document: Document) -> dict[str, str]:
    """p99 against rate, a line a system that has all of them."""
    figures = document.figures()
    steps = sorted({of[1] for of in figures if producers_of(of) == 1}, key=lambda workload: rate_of(("", workload)))
    series = []
    for name in standing(document):
        found = [figures[name, step].spread("p99_ms") if (name, step) in figures else None for step in steps]
        values = tuple(each.median * 1e3 for each in found if each)
        if len(values) == len(steps):
            series.append(Curve(name, values, tuple((value, value) for value in values)))
    title = "p99 from when a message was due to its acknowledgement, microseconds"
    labels = [step.removeprefix("open ") for step in steps]
    return {"open-p99.svg": curves(title, "messages a second", labels, series, decades=True)}

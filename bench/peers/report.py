"""Turns a document of run.py into a table, plots and the README's part; `bench/shown.py` puts them there.

A refused result is in no figure, and the table says that it was refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.check import Plan
from bench.document import Document, Figures, Of, Run
from bench.peers.adapters import PEERS
from bench.peers.contract import WORKLOADS
from bench.peers.figures import PERCENTILES
from bench.peers.packaged import OLDER
from bench.peers.plots import Series, bars, percentiles
from bench.tables import aligned, amount, grid, ranged, where

OURS = "tandemq"
RATES = {"enqueue": "enqueue", "flow": "enqueue + consume + ack", "drain": "drain"}
PARTS = {"p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99", "p999_ms": "p99.9"}
SINGLE = "single"


# -- what is whole -----------------------------------------------------------------------------------------------------

FIELDS = (
    "size", "messages", "value", "cpu_us", "load_share", "foreign_cores", "settings_wrong", "syncs", "copies",
)  # fmt: skip
OF_VERIFIED = ("account", "seconds")
OF_SINGLE = ("p50_ms", "p99_ms")
OF_OPEN = ("rate", *PERCENTILES, "late_p50_ms", "late_p99_ms")


def plan(
    workloads_of: Callable[[Document, str], Sequence[str]],
    verified_of: Callable[[str], bool],
    more: Callable[[Document], Iterable[str]] = lambda _: (),
) -> Plan:
    """Of documents of peers: what is measured of each, and whether what came was compared."""

    def wanted(document: Document) -> dict[Of, int]:
        options = document.options
        return {(peer, each): options["runs"] for peer in options["peers"] for each in workloads_of(document, peer)}

    def fields(of: Of, _: Run) -> Iterator[str]:
        verified = verified_of(of[0])
        yield from FIELDS
        if verified:
            yield from OF_VERIFIED
        if of[1] == SINGLE:
            yield from PERCENTILES[:-1] if verified else OF_SINGLE
        if of[1].startswith("open "):
            yield from OF_OPEN

    def wrong(document: Document) -> Iterator[str]:
        if OURS not in document.options["peers"]:
            yield "without ours there is nothing to compare with"
        if silent := sorted(set(document.options["peers"]) - document.peers.keys()):
            yield f"nothing is said of {', '.join(silent)}"
        if sizes := sorted({run["size"] for _, run in document.all_runs()} - {document.options["size"]}):
            yield f"payloads of {', '.join(map(str, sizes))} B, not {document.options['size']}"
        yield from more(document)

    return Plan(wanted, 3, fields, seconds_min=3.0, more=wrong)


def compared(peer: str) -> bool:
    return peer not in PEERS or PEERS[peer].verified


PLAN = plan(lambda _, peer: PEERS[peer].workloads if peer in PEERS else WORKLOADS, compared)


# -- tables ------------------------------------------------------------------------------------------------------------


def figure_of(of: Of) -> str:
    """Messages a second; of one message in flight the median."""
    return "p50_ms" if of[1] == SINGLE else "value"


def scaled(of: Of) -> Callable[[float], str]:
    return (lambda value: amount(value * 1e3)) if of[1] == SINGLE else amount


def cell(figures: Mapping[Of, Figures], of: Of) -> str:
    """Median (range) and, of a peer, how many times that is of ours."""
    if (found := figures.get(of)) is None:
        return ""
    said = [ranged(found.spread(figure_of(of)), scaled(of))] if found.good else []
    ours = figures.get((OURS, of[1]))
    if of[0] != OURS and found.good and ours and (ratio := ours.ratio(found, figure_of(of))):
        said[0] += f", {ratio.median:.2f}x"
    return "; ".join([*said, *found.said])


def is_faster(older: Figures, newer: Figures) -> bool:
    """In each run: between two of a median there is chance alone."""
    if older.of[1] != SINGLE and not older.of[1].startswith("open "):
        return bool((rate := older.ratio(newer, "value")) and rate.least > 1)
    times = (older.ratio(newer, name) for name in ("p50_ms", "p99_ms"))
    return any(time is not None and time.most < 1 for time in times)


def outdone(document: Document) -> list[str]:
    """Older versions that promise no more than the newer one, and are faster in nothing that was measured of both."""
    figures, peers = document.figures(), document.peers
    faster = {
        of[0]
        for of, found in figures.items()
        if (newer := figures.get((of[0].removesuffix(OLDER), *of[1:]))) is None
        or not newer.good
        or is_faster(found, newer)
    }
    out = [name for name in peers if name.endswith(OLDER) and name not in faster]
    return [name for name in out if peers[name]["copies"] <= peers[name.removesuffix(OLDER)]["copies"]]


def outdone_said(document: Document) -> list[str]:
    """A paragraph that names them, or none."""
    said = [
        f"{document.peers[name]['title']} ({document.peers[name]['versions'].get('server')})"
        for name in outdone(document)
    ]
    return (
        ["", f"Measured too, faster than the newer version in nothing, and left out: {'; '.join(said)}."]
        if said
        else []
    )


def standing(document: Document) -> dict[str, dict[str, Any]]:
    """What a page shows: all others."""
    out = outdone(document)
    return {name: about for name, about in document.peers.items() if name not in out}


def rows(document: Document, peers: Mapping[str, Mapping[str, Any]] | None = None) -> list[tuple[str, ...]]:
    """Heads, then a row a peer, in the order in which peers were measured; of all, or of these."""
    figures = document.figures()
    rates = (f"{title}, msg/s" for title in RATES.values())
    out = [("system", "synced copies", *rates, "one in flight, p50 us", "p99 us", "load, of a core")]
    for name, about in (document.peers if peers is None else peers).items():
        single = figures.get((name, SINGLE))
        p99 = single.spread("p99_ms") if single else None
        cells = [cell(figures, (name, workload)) for workload in (*RATES, SINGLE)]
        last = (amount(p99.median * 1e3) if p99 else "", most_load(figures, name))
        out.append((about["title"], str(about["copies"]), *cells, *last))
    return out


def most_load(figures: Mapping[Of, Figures], peer: str) -> str:
    """Of a core, by a producer or a consumer of one peer."""
    return f"at most {max((found.load for of, found in figures.items() if of[0] == peer), default=0.0):.0%}"


def table(document: Document) -> str:
    """For a terminal."""
    how = "Nx: ours divided by theirs, within a run; of one in flight less than 1 is faster"
    return f"{aligned(rows(document))}\n{how}"


def markdown(document: Document) -> str:
    """The README's part."""
    options = document.options
    servers = {each["title"]: each["versions"].get("server") for each in standing(document).values()}
    versions = "; ".join(f"{title}: {version}" for title, version in servers.items() if version)
    head = (
        f"{where(document)}; {options['size']} B payloads; median (range) of {options['runs']} runs. "
        "Nx: ours divided by theirs within a run (one in flight: below 1 is faster)."
    )
    return "\n".join(
        [
            head,
            "",
            *grid(rows(document, standing(document))),
            *outdone_said(document),
            "",
            f"Versions: {versions}. What each promises, its settings and client: [bench/README.md](bench/README.md).",
            "",
            "![Throughput of each system](docs/img/peers-throughput.svg)",
            "",
            "![Latency percentiles of one message in flight](docs/img/peers-latency.svg)",
        ]
    )


def drawn(document: Document) -> dict[str, str]:
    """SVG by file name."""
    figures = document.figures()

    def median(of: Of, name: str) -> float:
        found = figures[of].spread(name) if of in figures else None
        return found.median if found else 0.0

    labels = {name: f"{name}, {about['copies'] or 'not'} synced" for name, about in standing(document).items()}
    throughput = [
        Series(label, {title: median((name, rate), "value") for rate, title in RATES.items()})
        for name, label in labels.items()
    ]
    latency = [
        Series(label, {title: median((name, SINGLE), part) * 1e3 for part, title in PARTS.items()})
        for name, label in labels.items()
        if median((name, SINGLE), "p50_ms")
    ]
    return {
        "peers-throughput.svg": bars(f"Messages a second, {document.options['size']} B", throughput),
        "peers-latency.svg": percentiles("One message in flight, microseconds", latency),
    }

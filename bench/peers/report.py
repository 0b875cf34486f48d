"""Turns a document of run.py into a table, plots and the README's part; `bench/shown.py` puts them there.

A refused result is in no figure, and the table says that it was refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.peers.figures import ratios, spread
from bench.peers.place import ROOT
from bench.peers.plots import Series, bars, percentiles

RESULTS = ROOT / "bench/results/peers.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- peers: written by make bench-report -->", "<!-- peers: end -->"
OURS = "tandemq"
RATES = {"enqueue": "enqueue", "flow": "enqueue + consume + ack", "drain": "drain"}
REMARK = re.compile(r" \(|: ")  # the figure of one run follows
PARTS = {"p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99", "p999_ms": "p99.9"}


def figure_of(line: Mapping[str, Any]) -> float:
    """Messages a second; of one message in flight the median, in microseconds."""
    return float(line["p50_ms"]) * 1e3 if line["workload"] == "single" else float(line["value"])


def summary(document: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """By peer and workload: the figure over runs, its ratio to ours run by run, what was refused, what must be said."""
    by: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    refused: dict[tuple[str, str], list[str]] = {}
    for line in document["results"]:
        key = (line["peer"], line["workload"])
        if line["refused"]:
            refused.setdefault(key, []).extend(line["refused"])
        else:
            by.setdefault(key, {})[line["run"]] = line
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for peer, workload in sorted(by.keys() | refused.keys()):
        lines = by.get((peer, workload), {})
        entry: dict[str, Any] = {"refused": sorted(set(refused.get((peer, workload), [])))}
        if lines:
            figures = {run: figure_of(line) for run, line in lines.items()}
            ours = {run: figure_of(line) for run, line in by.get((OURS, workload), {}).items() if run in figures}
            entry |= spread(list(figures.values()))
            entry["ratio"] = spread(found_ratios) if (found_ratios := ratios(ours, figures)) else None
            entry["load"] = max(max(line.get("load_share", {}).values(), default=0.0) for line in lines.values())
            entry["remarks"] = sorted({REMARK.split(text)[0] for line in lines.values() for text in line["remarks"]})
            times = PARTS.keys() | {name for line in lines.values() for name in line if name.endswith("_ms")}
            entry |= {name: spread([line.get(name, 0.0) for line in lines.values()])["median"] for name in times}
        found.setdefault(peer, {})[workload] = entry
    return found


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def cell(entry: Mapping[str, Any] | None, *, ours: bool) -> str:
    """Median (range) and, of a peer, how many times that is of ours."""
    if entry is None:
        return ""
    if "median" not in entry:
        return "refused: " + "; ".join(entry["refused"])
    said = amount(entry["median"])
    if len(entry["runs"]) > 1:
        said += f" ({amount(entry['min'])} to {amount(entry['max'])})"
    if entry["ratio"] and not ours:
        said += f", {entry['ratio']['median']:.2f}x"
    if entry["refused"]:
        said += ", a run refused"
    return said + "".join(f"; {remark}" for remark in entry["remarks"])


def rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Heads, then a row a peer, in the order in which peers were measured."""
    found = summary(document)
    heads = (
        "system",
        "synced copies",
        *(f"{title}, msg/s" for title in RATES.values()),
        "one in flight, p50 us",
        "p99 us",
        "load, of a core",
    )
    out = [heads]
    for name, about in document["peers"].items():
        entries = found.get(name, {})
        single = entries.get("single")
        rates = [cell(entries.get(workload), ours=name == OURS) for workload in RATES]
        p99 = amount(single["p99_ms"] * 1e3) if single and "p99_ms" in single else ""
        said = (cell(single, ours=name == OURS), p99, most_load(entries))
        out.append((about["title"], str(about["copies"]), *rates, *said))
    return out


def table(document: Mapping[str, Any]) -> str:
    """For a terminal."""
    how = "Nx: ours divided by theirs, within a run; of one in flight less than 1 is faster"
    return f"{aligned(rows(document))}\n{how}"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns for a terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    said = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join(said)


def grid(lines: Sequence[Sequence[str]]) -> list[str]:
    """Heads and rows as Markdown."""
    heads, *body = lines
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(row)} |" for row in body)]


def most_load(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """Of a core, by a producer or a consumer of one peer."""
    return f"at most {max((entry['load'] for entry in entries.values() if 'load' in entry), default=0.0):.0%}"


def markdown(document: Mapping[str, Any]) -> str:
    """The README's part."""
    about, options = document["about"], document["options"]
    versions = "; ".join(
        f"{entry['title']}: {entry['versions']['server']}"
        for entry in document["peers"].values()
        if "server" in entry["versions"]
    )
    head = (
        f"Commit {about['commit']}, {about['cpu']}, {about['cores']} cores for everything, Linux {about['kernel']}, "
        f"Python {about['python']}; {options['size']} B payloads; median (range) of {options['runs']} runs. "
        "Nx: ours divided by theirs within a run (one in flight: below 1 is faster)."
    )
    return "\n".join(
        [
            head,
            "",
            *grid(rows(document)),
            "",
            f"Versions: {versions}. What each promises, its settings and client: [bench/README.md](bench/README.md).",
            "",
            "![Throughput of each system](docs/img/peers-throughput.svg)",
            "",
            "![Latency percentiles of one message in flight](docs/img/peers-latency.svg)",
        ]
    )


def drawn(document: Mapping[str, Any]) -> dict[str, str]:
    """SVG by file name."""
    found, peers = summary(document), document["peers"]
    labels = {name: f"{name}, {about['copies'] or 'not'} synced" for name, about in peers.items()}
    throughput = [
        Series(label, {title: found.get(name, {}).get(rate, {}).get("median", 0.0) for rate, title in RATES.items()})
        for name, label in labels.items()
    ]
    latency = [
        Series(label, {title: found[name]["single"].get(part, 0.0) * 1e3 for part, title in PARTS.items()})
        for name, label in labels.items()
        if "median" in found.get(name, {}).get("single", {})
    ]
    return {
        "peers-throughput.svg": bars(f"Messages a second, {document['options']['size']} B", throughput),
        "peers-latency.svg": percentiles("One message in flight, microseconds", latency),
    }

"""Turns a document of `bench.native.run` into a table. A refused result is in no figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.native.tools import TOOLS
from bench.peers import fit
from bench.peers.place import ROOT
from bench.peers.report import OURS, RATES, aligned, cell, grid, most_load, summary

RESULTS = ROOT / "bench/results/native.json"
PAGE = ROOT / "docs/PERFORMANCE.md"
BEGIN, END = "<!-- native: written by make bench-report -->", "<!-- native: end -->"
WORKLOADS = ("enqueue", "flow")


def unfit(document: Mapping[str, Any]) -> list[str]:
    """Why a document must not be shown to readers; empty when it may. Who compares what came is ours alone."""
    return fit.unfit(document, workloads_of, lambda peer: peer == OURS)


def workloads_of(peer: str) -> Sequence[str]:
    """A tool that cannot consume has one."""
    return WORKLOADS if peer not in TOOLS or TOOLS[peer].flow else WORKLOADS[:1]


def rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Heads, then a row a system."""
    found = summary(document)
    heads = (
        "system",
        "load tool",
        "an answer means",
        *(f"{RATES[each]}, msg/s" for each in WORKLOADS),
        "load, of a core",
    )
    out = [heads]
    for name, about in document["peers"].items():
        entries = found.get(name, {})
        rates = [cell(entries.get(workload), ours=name == OURS) for workload in WORKLOADS]
        tool = f"{about['client']}; {about['lacks']}" if about.get("lacks") else about["client"]
        out.append((about["title"], tool, about["promise"], *rates, most_load(entries)))
    return out


def table(document: Mapping[str, Any]) -> str:
    """For a terminal."""
    return f"{aligned(rows(document))}\nNx: ours divided by theirs, within a run"


def markdown(document: Mapping[str, Any]) -> str:
    """The part of docs/PERFORMANCE.md."""
    about, options = document["about"], document["options"]
    left = [f"{name} (no {', '.join(programs)})" for name, programs in document.get("left_out", {}).items()]
    commands: dict[str, str] = {}
    for line in document["results"]:
        for role, command in line.get("commands", {}).items():
            commands.setdefault(f"{line['peer']}, {line['workload']}, {role}", command)
    head = (
        f"Commit {about['commit']}, {about['cpu']}, {about['cores']} cores for everything, "
        f"Linux {about['kernel']}; "
        f"{options['size']} B payloads; median (range) of {options['runs']} runs. "
        "Nx: ours divided by theirs within a run."
    )
    return "\n".join(
        [
            head,
            "",
            *grid(rows(document)),
            *(["", f"Left out: {'; '.join(left)}."] if left else []),
            "",
            *(f"- {which}: `{command}`" for which, command in commands.items()),
        ]
    )

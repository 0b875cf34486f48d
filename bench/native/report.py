"""Turns a document of `bench.native.run` into a table. A refused result is in no figure."""

from __future__ import annotations

from collections.abc import Sequence

from bench.document import Document
from bench.native.tools import TOOLS
from bench.peers.report import OURS, RATES, cell, most_load, outdone_said, plan, standing
from bench.tables import aligned, grid, where

WORKLOADS = ("enqueue", "flow")


def workloads_of(peer: str) -> Sequence[str]:
    """A tool that cannot consume has one."""
    return WORKLOADS if peer not in TOOLS or TOOLS[peer].flow else WORKLOADS[:1]


PLAN = plan(lambda _, peer: workloads_of(peer), lambda peer: peer == OURS)  # who compares what came is ours alone


def rows(document: Document) -> list[tuple[str, ...]]:
    """Heads, then a row a system."""
    figures = document.figures()
    rates = (f"{RATES[each]}, msg/s" for each in WORKLOADS)
    out = [("system", "load tool", "an answer means", *rates, "load, of a core")]
    for name, about in standing(document).items():
        cells = [cell(figures, (name, workload)) for workload in WORKLOADS]
        tool = f"{about['client']}; {about['lacks']}" if about.get("lacks") else about["client"]
        out.append((about["title"], tool, about["promise"], *cells, most_load(figures, name)))
    return out


def table(document: Document) -> str:
    """For a terminal."""
    return f"{aligned(rows(document))}\nNx: ours divided by theirs, within a run"


def markdown(document: Document) -> str:
    """The part of docs/PERFORMANCE.md."""
    options = document.options
    left = [f"{name} (no {', '.join(programs)})" for name, programs in document.left_out.items()]
    commands: dict[str, str] = {}
    for result, run in document.all_runs():
        for role, command in run.get("commands", {}).items():
            commands.setdefault(f"{', '.join(result['of'])}, {role}", command)
    head = (
        f"{where(document)}; {options['size']} B payloads; median (range) of {options['runs']} runs. "
        "Nx: ours divided by theirs within a run."
    )
    return "\n".join(
        [
            head,
            "",
            *grid(rows(document)),
            *outdone_said(document),
            *(["", f"Left out: {'; '.join(left)}."] if left else []),
            "",
            *(f"- {which}: `{command}`" for which, command in commands.items()),
        ]
    )

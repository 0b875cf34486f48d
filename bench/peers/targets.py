"""Compares a document of run.py with the project's targets; whether a target was reached, never why.

The targets are those of the design: ratios to other systems, and to the floor of the same stack, within one run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bench.peers import fit, report
from bench.peers.place import ROOT
from bench.peers.report import summary

PAGE = ROOT / "docs/PERFORMANCE.md"
BEGIN, END = "<!-- targets: written by make bench-report -->", "<!-- targets: end -->"


class Target(NamedTuple):
    """Ours divided by theirs: at least this of a rate, at most this of a time."""

    what: str
    workload: str
    peer: str
    bound: float

    @property
    def is_time(self) -> bool:
        return self.workload == "single"

    def reached(self, ratio: float) -> bool:
        return ratio <= self.bound if self.is_time else ratio >= self.bound


SIZE = 1024
"""Bytes of a payload for which the targets hold."""
PIPELINED, FLOW, SINGLE = "pipelined enqueue", "enqueue + consume + ack", "one in flight, p50"
TARGETS = (
    Target(PIPELINED, "enqueue", "rabbitmq-quorum", 10.0),
    Target(PIPELINED, "enqueue", "nats-debian", 7.0),
    Target(PIPELINED, "enqueue", "redis", 5.0),
    Target(PIPELINED, "enqueue", "postgres", 1.5),
    Target(PIPELINED, "enqueue", "floor", 0.8),
    Target(FLOW, "flow", "rabbitmq-quorum", 8.0),
    Target(FLOW, "flow", "nats-debian", 5.0),
    Target(FLOW, "flow", "redis", 3.5),
    Target(FLOW, "flow", "postgres", 4.5),
    Target(FLOW, "flow", "floor", 0.8),
    Target(SINGLE, "single", "rabbitmq-quorum", 1.0),
    Target(SINGLE, "single", "floor", 1.5),
)


def rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Heads, then a row a target. What was not measured, or refused, is neither reached nor missed."""
    found = summary(document)
    out = [("what", "beside", "target", "measured", "")]
    for target in TARGETS:
        about = document["peers"].get(target.peer)
        ratio = found.get(target.peer, {}).get(target.workload, {}).get("ratio")
        bound = f"at {'most' if target.is_time else 'least'} {target.bound:g}x"
        said, verdict = "", "not measured"
        if ratio:
            said = f"{ratio['median']:.2f}x ({ratio['min']:.2f} to {ratio['max']:.2f})"
            verdict = "reached" if target.reached(ratio["median"]) else "**missed**"
        out.append((target.what, about["title"] if about else target.peer, bound, said, verdict))
    return out


def unfit(document: Mapping[str, Any]) -> list[str]:
    """Why a document must not be shown beside the targets; empty when it may."""
    found = fit.unfit(document)
    if (size := document["options"]["size"]) != SIZE:
        found.append(f"payloads of {size} B; the targets are for {SIZE}")
    if missing := sorted({target.peer for target in TARGETS} - document["peers"].keys()):
        found.append(f"without {', '.join(missing)}, which targets compare with")
    return found


def markdown(document: Mapping[str, Any]) -> str:
    """The part of docs/PERFORMANCE.md."""
    about = document["about"]
    head = (
        f"Commit {about['commit']}, {about['cpu']}, {about['cores']} cores for everything: ours divided by theirs, "
        "run by run; median (range)."
    )
    return "\n".join([head, "", *report.grid(rows(document))])

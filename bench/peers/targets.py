"""Compares a document of run.py with the project's targets; whether a target was reached, never why.

The targets are those of the design: ratios to other systems, and to the floor of the same stack, within one run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from bench.document import Document
from bench.peers import report
from bench.peers.packaged import OLDER
from bench.peers.report import OURS, figure_of
from bench.tables import grid, where


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


def rows(document: Document) -> list[tuple[str, ...]]:
    """Heads, then a row a target. What was not measured, or refused, is neither reached nor missed."""
    figures = document.figures()
    out: list[tuple[str, ...]] = [("what", "beside", "target", "measured", "")]
    for target in TARGETS:
        ours, found = figures.get((OURS, target.workload)), []
        for name in (
            target.peer,
            target.peer + OLDER,
        ):  # of two versions the faster one is what a target is held against
            of = (name, target.workload)
            if ours and (each := ours.ratio(figures.get(of), figure_of(of))):
                found.append((each.median if target.is_time else -each.median, name, each))
        _, name, ratio = max(found, default=(0.0, target.peer, None))
        about = document.peers.get(name)
        bound = f"at {'most' if target.is_time else 'least'} {target.bound:g}x"
        said, verdict = "", "not measured"
        if ratio:
            said = f"{ratio.median:.2f}x ({ratio.least:.2f} to {ratio.most:.2f})"
            verdict = "reached" if target.reached(ratio.median) else "**missed**"
        out.append((target.what, about["title"] if about else target.peer, bound, said, verdict))
    return out


def wrong(document: Document) -> Iterator[str]:
    """Why it is not shown beside the targets."""
    if (size := document.options["size"]) != SIZE:
        yield f"payloads of {size} B; the targets are for {SIZE}"
    if missing := sorted({target.peer for target in TARGETS} - document.peers.keys()):
        yield f"without {', '.join(missing)}, which targets compare with"


PLAN = replace(report.PLAN, more=lambda document: (*report.PLAN.more(document), *wrong(document)))


def markdown(document: Document) -> str:
    """The part of docs/PERFORMANCE.md."""
    head = f"{where(document)}: ours divided by theirs, run by run; median (range)."
    return "\n".join([head, "", *grid(rows(document))])

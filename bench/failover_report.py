"""Turns a document of failover.py into a table for the README; whether a target was reached, never why."""

from __future__ import annotations

from collections.abc import Iterator

from bench.check import Plan
from bench.document import Document, Figures
from bench.peers.figures import NOISY_CORES, percentile
from bench.tables import grid, where

HANDOFF_PER_S = 20_000
"""Messages that are due while a master hands over."""
UNDER_LOAD = 0.9
"""Of these must have been acknowledged, or it was no handoff under load."""
TARGETS_MS: dict[str, tuple[int | None, int]] = {
    "kill -9": (300, 1000), "frozen": (None, 3000), "cut off": (None, 3000), "handoff": (None, 200),
}  # fmt: skip
"""Of the median and of the greatest."""
TITLES = {
    "kill -9": "kill -9 of the master",
    "frozen": "master frozen (SIGSTOP)",
    "cut off": "master cut off from peer and witness",
    "handoff": "handoff under load",
}


def wrong(document: Document) -> Iterator[str]:
    if "rate" in document.options:
        yield f"messages were sent one by one, {document.options['rate']:,.0f} a second"
    handoffs = document.figures().get(("handoff",))
    slow = [each for each in handoffs.values("per_s").values() if each < UNDER_LOAD * HANDOFF_PER_S] if handoffs else []
    if slow:
        yield f"handoffs at {min(slow):,} messages a second, not {HANDOFF_PER_S:,}"


PLAN = Plan(
    lambda document: {(name,): document.options["runs"] for name in TARGETS_MS},
    20,
    lambda of, _: ("ms", "foreign_cores", *(("per_s",) if of == ("handoff",) else ())),
    quiet=False,  # a busy machine makes a takeover later, never earlier
    more=wrong,
)


def summary(found: Figures) -> dict[str, float]:
    values = list(found.values("ms").values())
    spread = found.spread("ms")
    assert spread
    return {"p50": round(spread.median, 1), "p90": percentile(values, 0.9), "max": spread.most}


def verdict(name: str, found: dict[str, float]) -> str:
    """Empty: it has no target."""
    if name not in TARGETS_MS:
        return ""
    p50, most = TARGETS_MS[name]
    missed = [f"{key} {limit} ms" for key, limit in (("p50", p50), ("max", most)) if limit and found[key] > limit]
    return f"missed: {', '.join(missed)}" if missed else "met"


def markdown(document: Document) -> str:
    """The README's part, from the single runs."""
    figures = document.figures()
    foreign = [cores for found in figures.values() for cores in found.values("foreign_cores").values()]
    noisy = sum(cores > NOISY_CORES for cores in foreign)
    head = (
        f"{where(document)}; {document.options['runs']} runs each, milliseconds. Others used at most "
        f"{max(foreign):.2f} cores, in {noisy} of {len(foreign)} runs more than {NOISY_CORES:g}."
    )
    out: list[tuple[str, ...]] = [("what", "p50", "p90", "max", "target", "")]
    for name, (p50, most) in TARGETS_MS.items():
        found = summary(figures[name,])
        target = (f"p50 {p50:,}, " if p50 else "") + f"max {most:,}"
        said = "reached" if verdict(name, found) == "met" else f"**{verdict(name, found)}**"
        out.append((TITLES[name], *(f"{found[key]:,.0f}" for key in ("p50", "p90", "max")), target, said))
    return "\n".join([head, "", *grid(out)])

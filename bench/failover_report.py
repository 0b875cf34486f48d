"""Turns a document of failover.py into a table for the README; whether a target was reached, never why."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.machine import is_commit
from bench.peers.figures import NOISY_CORES
from bench.peers.place import ROOT
from bench.peers.report import grid

RESULTS, README = ROOT / "bench/results/failover.json", ROOT / "README.md"
BEGIN, END = "<!-- failover: written by make bench-report -->", "<!-- failover: end -->"
RUNS_MIN = 20
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

Run = Mapping[str, Any]


def summary(runs: Sequence[Run]) -> dict[str, float]:
    values = sorted(run["ms"] for run in runs)
    place = max(0, -(-9 * len(values) // 10) - 1)  # nearest rank
    return {"runs": len(values), "p50": round(statistics.median(values), 1), "p90": values[place], "max": values[-1]}


def verdict(name: str, found: Mapping[str, float]) -> str:
    p50, most = TARGETS_MS[name]
    missed = [f"{key} {limit} ms" for key, limit in (("p50", p50), ("max", most)) if limit and found[key] > limit]
    return f"missed: {', '.join(missed)}" if missed else "met"


def unfit(document: Mapping[str, Any]) -> list[str]:
    """Why a document must not be shown to readers; empty when it may. A busy machine is told on the page: it makes a
    takeover later, never earlier."""
    about, runs = document["about"], document["runs"]
    found = []
    if not is_commit(about["commit"]):
        found.append("it was measured on changes that are in no commit")
    if about["commit"] != about["commit_afterwards"]:
        found.append("the sources changed while it was measured")
    counts = {name: len(runs.get(name, ())) for name in TARGETS_MS}
    found += [f"{count} runs of {name}; {RUNS_MIN} show a spread" for name, count in counts.items() if count < RUNS_MIN]
    asked = document["options"]["runs"]
    found += [f"{count} runs of {name}, not {asked}" for name, count in counts.items() if RUNS_MIN <= count < asked]
    uncounted = [name for name in counts if any(run.get("foreign_cores") is None for run in runs.get(name, ()))]
    found += [f"what others used was not measured of {name}" for name in uncounted]
    slow = [run["per_s"] for run in runs.get("handoff", ()) if run["per_s"] < UNDER_LOAD * HANDOFF_PER_S]
    if slow:
        found.append(f"handoffs at {min(slow):,} messages a second, not {HANDOFF_PER_S:,}")
    return found


def markdown(document: Mapping[str, Any]) -> str:
    """The README's part, from the single runs."""
    about, runs = document["about"], document["runs"]
    foreign = [run["foreign_cores"] for name in TARGETS_MS for run in runs[name]]
    noisy = sum(cores > NOISY_CORES for cores in foreign)
    head = (
        f"Commit {about['commit']}, {document['time'][:10]}, {about['cpu']}, {about['cores']} cores for everything, "
        f"Linux {about['kernel']}, Python {about['python']}; {min(len(runs[name]) for name in TARGETS_MS)} runs each, "
        f"milliseconds. Others used at most {max(foreign):.2f} cores, in {noisy} of {len(foreign)} runs more than "
        f"{NOISY_CORES:g}."
    )
    return "\n".join([head, "", *grid([("what", "p50", "p90", "max", "target", ""), *rows(runs)])])


def rows(runs: Mapping[str, Sequence[Run]]) -> list[tuple[str, ...]]:
    out = []
    for name, (p50, most) in TARGETS_MS.items():
        found = summary(runs[name])
        target = (f"p50 {p50:,}, " if p50 else "") + f"max {most:,}"
        said = "reached" if verdict(name, found) == "met" else f"**{verdict(name, found)}**"
        out.append((TITLES[name], *(f"{found[key]:,.0f}" for key in ("p50", "p90", "max")), target, said))
    return out

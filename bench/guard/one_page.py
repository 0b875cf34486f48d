"""What one message in flight costs each process, as the table of docs/ONE_MESSAGE.md; measures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.tables import grid, number

ROLES = ("client", "master", "replica")
CALLS: Mapping[str, str] = {
    "wake-ups (write)": "write",
    "turns (epoll_pwait)": "epoll_pwait",
    "futexes": "futex",
    "syncs (fdatasync)": "fdatasync",
    "system calls": "all",
}
SWITCHES, CPU, P50 = "context switches", "processor us", "p50 us"
KINDS = (*CALLS, SWITCHES, CPU)
FLOOR, BEFORE, NOW = SIDES = "floor", "before", "now"
Figures = dict[str, float]


def markdown(document: Mapping[str, Any]) -> str:
    """Where it was measured, and a table."""
    figures: Mapping[str, Mapping[str, Figures]] = document["figures"]
    about = document["about"]
    lines = [("process", "of one message", *SIDES, "now / before", "now / floor")]
    for role in (*ROLES, "all"):
        for kind in (*KINDS, P50):
            if kind not in figures[NOW][role]:
                continue
            floor, before, now = (figures[side][role][kind] for side in SIDES)
            ratios = (f"{now / each:.2f}" if each >= 0.05 else "" for each in (before, floor))
            lines.append((role, kind, *map(number, (floor, before, now)), *ratios))
    machine = f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']}"
    turns = f"Medians of {document['runs']} turns of {document['seconds']} s of each, all alive at once"
    where = (f"Commit {about['commit']}, {machine}.", f"{turns}; load average at the end {document['load']}.")
    return "\n".join([*where, "", *grid(lines)])

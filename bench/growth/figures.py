"""The arithmetic of growth: what a turn costs a message, and what others used. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.peers.figures import shares

ROLES = ("master", "replica", "client")

Turn = Mapping[str, Any]


def cost(turn: Turn) -> dict[str, float]:
    """Microseconds of processor time by role, and of time, for a message. Turns of a point send as many messages each,
    so that their mean is that of all messages."""
    found = {**{role: turn["used_us"][role] for role in ROLES}, "wall": turn["seconds"] * 1e6}
    return {name: round(each / turn["messages"], 5) for name, each in found.items()}


def load_share(turns: Sequence[Turn]) -> float:
    """Of a core that the load used, over all turns."""
    return round(sum(turn["used_us"]["client"] for turn in turns) / 1e6 / sum(turn["seconds"] for turn in turns), 3)


def foreign_cores(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> float:
    """Of the machine, beyond everything of the benchmark's."""
    used = {role: time - before.get(role, 0.0) for role, time in after.items()}
    return float(shares(used, seconds, 1, ())["foreign_cores"])

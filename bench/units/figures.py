"""Decides how turns of two things that were measured in one run become a ratio with its spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

KEYS = ("unused", "batch_cost", "latency", "against_postgres", "against_artemis", "sticky", "react_by_id", "link")


class Turn(NamedTuple):
    """What was measured of ours, and of what it stands beside, one right after the other."""

    ours: float
    beside: float

    @property
    def ratio(self) -> float:
        return self.ours / self.beside


class Bound(NamedTuple):
    """What issue 23 asks for."""

    value: float
    at_least: bool = False

    def met(self, ratio: float) -> bool:
        return ratio >= self.value if self.at_least else ratio <= self.value

    def __str__(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.value:g}"


class Figure(NamedTuple):
    """One key of `units.json`: the median of the turns' ratios."""

    what: str  # what is divided by what
    unit: str
    bound: Bound | None
    turns: Sequence[Turn]

    @property
    def ratio(self) -> float:
        return statistics.median(turn.ratio for turn in self.turns)

    @property
    def met(self) -> bool | None:
        """None where nothing is asked of it."""
        return self.bound.met(self.ratio) if self.bound else None

    def document(self) -> dict[str, Any]:
        ratios = [turn.ratio for turn in self.turns]
        return {
            "ratio": round(self.ratio, 4),
            "n": len(self.turns),
            "spread": [round(min(ratios), 4), round(max(ratios), 4)],
            "bound": str(self.bound) if self.bound else None,
            "met": self.met,
            "what": self.what,
            "unit": self.unit,
            "ours": [round(turn.ours, 3) for turn in self.turns],
            "beside": [round(turn.beside, 3) for turn in self.turns],
        }


class Missing(NamedTuple):
    """A key without a figure, and why."""

    why: str

    def document(self) -> dict[str, Any]:
        return {"ratio": None, "n": 0, "spread": None, "why": self.why}


def row(key: str, figure: Figure | Missing) -> list[str]:
    """A line of the table."""
    if isinstance(figure, Missing):
        return [key, "-", "-", "-", "-", figure.why]
    ratios = [turn.ratio for turn in figure.turns]
    return [
        key,
        f"{figure.ratio:.3f}",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
        str(len(ratios)),
        f"{figure.bound or '-'}{': MISSED' if figure.met is False else ''}",
        f"{figure.what}, {figure.unit}",
    ]

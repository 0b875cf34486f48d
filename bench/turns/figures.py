"""Decides how the turns of one run become a key of the document: a ratio of two things, or the value of one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple


class Turn(NamedTuple):
    """What was measured of ours, and of what it stands beside, one right after the other."""

    ours: float
    beside: float

    @property
    def ratio(self) -> float:
        return self.ours / self.beside


class Bound(NamedTuple):
    """What is asked for."""

    value: float
    at_least: bool = False

    def met(self, ratio: float) -> bool:
        return ratio >= self.value if self.at_least else ratio <= self.value

    def __str__(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.value:g}"


class Figure(NamedTuple):
    """The median of the turns' ratios."""

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


class Single(NamedTuple):
    """The median of the turns, in the unit that its key names."""

    what: str
    bound: Bound | None
    turns: Sequence[float]

    @property
    def value(self) -> float:
        return statistics.median(self.turns)

    @property
    def met(self) -> bool | None:
        """None where nothing is asked of it."""
        return self.bound.met(self.value) if self.bound else None

    def document(self) -> dict[str, Any]:
        return {
            "value": round(self.value, 3),
            "n": len(self.turns),
            "spread": [round(min(self.turns), 3), round(max(self.turns), 3)],
            "bound": str(self.bound) if self.bound else None,
            "met": self.met,
            "what": self.what,
            "turns": [round(each, 3) for each in self.turns],
        }


class Missing(NamedTuple):
    """A key without a figure, and why."""

    why: str

    def document(self) -> dict[str, Any]:
        return {"ratio": None, "n": 0, "spread": None, "why": self.why}


def row(key: str, figure: Figure | Single | Missing) -> list[str]:
    """A line of the table."""
    if isinstance(figure, Missing):
        return [key, "-", "-", "-", "-", figure.why]
    if isinstance(figure, Single):
        value, each, what = f"{figure.value:,.1f}", [f"{turn:,.1f}" for turn in _ends(figure.turns)], figure.what
    else:
        ratios = [turn.ratio for turn in figure.turns]
        value, each = f"{figure.ratio:.3f}", [f"{ratio:.3f}" for ratio in _ends(ratios)]
        what = f"{figure.what}, {figure.unit}"
    asked = f"{figure.bound or '-'}{': MISSED' if figure.met is False else ''}"
    return [key, value, " to ".join(each), str(len(figure.turns)), asked, what]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)

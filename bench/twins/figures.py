"""Decides how what was measured once a turn, and stands beside nothing, becomes a key of the document."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.units.figures import Bound, Figure, Missing
from bench.units.figures import row as row_of_ratio

KEYS = ("enqueue", "lockstep", "priority", "unused", "takeover_ms", "replay_per_s")


class Single(NamedTuple):
    """The median of the turns, in the unit that its key names."""

    what: str
    bound: Bound
    turns: Sequence[float]

    @property
    def value(self) -> float:
        return statistics.median(self.turns)

    @property
    def met(self) -> bool:
        return self.bound.met(self.value)

    def document(self) -> dict[str, Any]:
        return {
            "value": round(self.value, 3),
            "n": len(self.turns),
            "spread": [round(min(self.turns), 3), round(max(self.turns), 3)],
            "bound": str(self.bound),
            "met": self.met,
            "what": self.what,
            "turns": [round(each, 3) for each in self.turns],
        }


def row(key: str, figure: Figure | Single | Missing) -> list[str]:
    """A line of the table."""
    if not isinstance(figure, Single):
        return row_of_ratio(key, figure)
    return [
        key,
        f"{figure.value:,.1f}",
        f"{min(figure.turns):,.1f} to {max(figure.turns):,.1f}",
        str(len(figure.turns)),
        f"{figure.bound}{'' if figure.met else ': MISSED'}",
        figure.what,
    ]

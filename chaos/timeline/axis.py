"""Where times and values stand in a picture of a run; it draws nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

LETTER = 6.8  # the width of one letter of 12 px in what browsers take for system-ui, rather too wide
TICK_ROOM = 46
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


class Layout(NamedTuple):
    """How wide a picture is, what stands left of the axis, and how much room a lane has above itself for its name."""

    name: str
    width: int
    left: int
    right: int
    head: int


WIDE = Layout("wide", 1100, 120, 1076, 0)
NARROW = Layout("narrow", 400, 58, 382, 15)


class Axis:
    """Seconds to places."""

    def __init__(self, layout: Layout, end_s: float) -> None:
        self.layout, self.end_s = layout, max(end_s, _STEPS_S[0])
        self.second = (layout.right - layout.left) / self.end_s

    def x(self, at_s: float) -> float:
        return round(self.layout.left + min(max(at_s, 0.0), self.end_s) * self.second, 1)

    def ticks(self) -> Iterator[float]:
        """Seconds worth a number below the picture."""
        step_s = next((step for step in _STEPS_S if step * self.second >= TICK_ROOM), _STEPS_S[-1])
        return (place * step_s for place in range(math.floor(self.end_s / step_s + 1e-9) + 1))

    def bucket_s(self) -> float:
        """The shortest stretch that is wide enough to be drawn: two places."""
        return next((step for step in _STEPS_S if step * self.second >= 2), _STEPS_S[-1])


def fits(text: str, room: float) -> bool:
    """Whether a text can be written into a bar so wide."""
    return LETTER * len(text) + 8 <= room


def round_up(value: float) -> float:
    """To 1, 2 or 5 of some power of ten: where a scale ends."""
    power = 10.0 ** math.floor(math.log10(max(value, 1.0)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)

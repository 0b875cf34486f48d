"""Places labels of moments below one line in so many rows that none covers another one; draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WIDE = 0.62
"""Of the size of the letters: the mean width of one."""
GAP = 8.0


class Place(NamedTuple):
    """Where a label begins, in pixels, and in which row from 0."""

    left: float
    row: int


def placed(labels: Sequence[tuple[float, str]], size: float, right: float) -> list[Place]:
    """For each label, at its moment's x, the first row in which it covers no other one; none goes beyond `right`."""
    ends: list[float] = []
    places = []
    for x, label in labels:
        wide = WIDE * size * len(label)
        left = min(x + 2, right - wide)
        row = next((number for number, end in enumerate(ends) if end <= left), len(ends))
        ends[row : row + 1] = [left + wide + GAP]
        places.append(Place(left, row))
    return places

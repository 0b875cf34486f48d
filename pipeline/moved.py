"""Keeps what a run has moved into the lake, for its report: a bounded number of points, however long it is. Pure."""

from __future__ import annotations

from typing import NamedTuple

POINTS_MAX = 2_000
"""More than a plot shows. A job that follows the journal has as many micro-batches in an hour."""


class Moved(NamedTuple):
    """Micro-batches that follow each other and are in the lake, mostly one."""

    at_s: float
    """When the last of them was published."""
    rows: int
    bytes: int
    end: int
    """First log index behind them."""
    epoch: int = 0
    """Of the record before that one."""


class Movements:
    """Of one member, in order."""

    def __init__(self) -> None:
        self.points: list[Moved] = []
        self.micro_batches = 0

    def add(self, moved: Moved) -> None:
        """One more micro-batch. Where there would be too many points, each two become one."""
        self.micro_batches += 1
        if len(self.points) < POINTS_MAX:
            self.points.append(moved)
            return
        points = [*self.points, moved]
        pairs = [points[at : at + 2] for at in range(0, len(points), 2)]
        self.points = [
            pair[-1]._replace(rows=sum(each.rows for each in pair), bytes=sum(each.bytes for each in pair))
            for pair in pairs
        ]

    @property
    def rows(self) -> int:
        """Of all micro-batches."""
        return sum(each.rows for each in self.points)

    @property
    def bytes(self) -> int:
        """Of all of their files."""
        return sum(each.bytes for each in self.points)

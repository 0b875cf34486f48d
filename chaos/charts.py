"""Draws one chart over the seconds of a run as SVG: its scale, axes, lines, and the moments that are named below it. It
knows nothing of what is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from chaos.labels import placed
from tandemq.escaping import in_html

WIDTH, TOP, HEIGHT, LEFT = 1_000, 60, 320, 70
BOTTOM = TOP + HEIGHT
LABEL = 10
"""Size of the letters of what stands beside axes and below moments."""
BELOW, ROW = BOTTOM + 30, 13
TICKS_S = (1, 2, 5, 10, 20, 60, 120, 300, 600)
GREY = "#666666"


class Chart(NamedTuple):
    """From 0 to `end_s` seconds, and from 0 to `most`."""

    end_s: float
    most: float

    def x(self, at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * at_s / self.end_s

    def y(self, value: float) -> float:
        return TOP + HEIGHT - HEIGHT * value / self.most

    def line(self, points: Iterable[tuple[float, float]], colour: str) -> str:
        """Through these values at these seconds."""
        drawn = " ".join(f"{self.x(at_s):.1f},{self.y(value):.1f}" for at_s, value in points)
        return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{drawn}"/>'

    def axes(self, counted: str) -> Iterator[str]:
        """`counted`: what the values are, beside the highest one."""
        step = next((each for each in TICKS_S if self.end_s <= 12 * each), 3_600)
        yield f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{BOTTOM}" y2="{BOTTOM}" stroke="{GREY}"/>'
        for at_s in range(0, int(self.end_s) + 1, step):
            yield text(self.x(at_s), BOTTOM + 14, f"{at_s} s", LABEL, GREY)
        yield text(6, TOP + 10, f"{self.most:,.0f}", LABEL, GREY)
        yield text(6, TOP + 22, counted, LABEL, GREY)


class Moments(NamedTuple):
    """Lines through a chart, and their labels below it."""

    parts: list[str]
    bottom: int
    """Of the last row of labels."""


def moments(labels: Sequence[tuple[float, str]]) -> Moments:
    """Each by its x and what it is called."""
    parts, places = list[str](), placed(labels, LABEL, WIDTH - 4)
    for (x, label), place in zip(labels, places, strict=True):
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{BOTTOM}" stroke="#bbbbbb"/>')
        parts.append(text(place.left, BELOW + ROW * place.row, label, LABEL))
    return Moments(parts, BELOW + ROW * (max((each.row for each in places), default=0) + 1))


def text(x: float, y: float, shown: str, size: int, colour: str = "#222222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">{in_html(shown)}</text>'


def document(parts: Iterable[str], height: int) -> str:
    """The whole picture, on white."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )

"""Draws lines over time as SVG, in the style of a run's page (chaos/timeline). It measures nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from chaos.timeline.axis import LETTER, NARROW, WIDE, Axis, Layout, round_up
from pipeline.outcome import Mark, Plot
from tandemq.escaping import in_html

HEIGHT, HEAD, FOOT, KEY = 130, 24, 26, 22
KINDS = ("median", "longest", "MASTER", "fail", "unknown", "rate")
"""Classes of the page's style that look different; lines beyond so many are not drawn."""
POINTS_MAX = 600
"""Of one line: more cannot be distinguished in a picture so wide."""
MARKS_MAX = 60
"""The last ones are drawn; kills always."""


def draw(plot: Plot) -> str:
    """Both widths; the page's style shows one of them."""
    return "\n".join(_picture(plot, layout) for layout in (WIDE, NARROW))


def _picture(plot: Plot, layout: Layout) -> str:
    lines = dict(list(plot.lines.items())[: len(KINDS)])
    points = [point for line in lines.values() for point in line]
    axis = Axis(layout, max((x for x, _ in points), default=1.0))
    highest = round_up(max((y for _, y in points), default=1.0)) if points else 1.0
    small = max((y for _, y in points), default=0.0) < 1.0
    highest = 1.0 if small else highest
    bottom = HEAD + HEIGHT
    size = f'viewBox="0 0 {layout.width} {bottom + FOOT + KEY}"'
    return "\n".join(
        [
            f'<svg class="{layout.name}" {size} role="img" aria-label="{in_html(plot.title)}">',
            f'<text class="name" x="{layout.left}" y="14">{in_html(plot.title)}</text>',
            *_levels(plot, axis, highest),
            *_seconds(axis, bottom),
            *_marks(plot.marks, axis, bottom),
            *(
                part
                for kind, line in zip(KINDS, lines.values(), strict=False)
                for part in _line(kind, line, axis, highest)
            ),
            *_keys(list(lines), layout, bottom + FOOT + 12),
            "</svg>",
        ]
    )


def _levels(plot: Plot, axis: Axis, highest: float) -> Iterator[str]:
    left, right = axis.layout.left, axis.layout.right
    for value in (0.0, highest / 2, highest):
        y = HEAD + HEIGHT * (1 - value / highest)
        number = f"{value:,.0f}" if highest > 2 else f"{value:g}"
        yield f'<line class="grid" x1="{left}" y1="{y:g}" x2="{right}" y2="{y:g}"/>'
        text = f"{number} {plot.unit}".strip()
        yield f'<text class="tick" x="{left - 6}" y="{y + 4:g}" text-anchor="end">{in_html(text)}</text>'


def _seconds(axis: Axis, bottom: float) -> Iterator[str]:
    for at_s in axis.ticks():
        x = axis.x(at_s)
        yield f'<text class="tick" x="{x}" y="{bottom + 17:g}" text-anchor="middle">{at_s:g} s</text>'


def _marks(marks: Sequence[Mark], axis: Axis, bottom: float) -> Iterator[str]:
    """Each is a line with its text as a title; the text is written beside it where there is room, kills first."""
    within = [mark for mark in marks if 0 <= mark.at_s <= axis.end_s]
    others = [mark for mark in within if not mark.kill][-MARKS_MAX:]
    taken: list[tuple[float, float]] = []
    for mark in [*(mark for mark in within if mark.kill), *others]:
        x, kind = axis.x(mark.at_s), "kill" if mark.kill else "tick"
        yield (
            f'<line class="mark {kind}" x1="{x}" y1="{HEAD}" x2="{x}" y2="{bottom:g}">'
            f"<title>{in_html(mark.text)}, at {mark.at_s:.1f} s</title></line>"
        )
        left, right = x + 4, x + 4 + LETTER * len(mark.text)
        if right > axis.layout.right:
            left, right = x - 4 - LETTER * len(mark.text), x - 4
        if all(right < begin or left > end for begin, end in taken):
            taken.append((left, right))
            yield f'<text class="{kind}" x="{left:g}" y="{HEAD + 10}">{in_html(mark.text)}</text>'


def _line(kind: str, points: Sequence[tuple[float, float]], axis: Axis, highest: float) -> Iterator[str]:
    step = -(-len(points) // POINTS_MAX) or 1
    places = [
        (axis.x(x), round(HEAD + HEIGHT * (1 - min(max(y, 0.0), highest) / highest), 1)) for x, y in points[::step]
    ]
    for (x1, y1), (x2, y2) in pairwise(places):
        yield f'<line class="drawn {kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'
    if len(places) <= 60:
        yield from (f'<circle class="{kind}" cx="{x}" cy="{y}" r="2.2"/>' for x, y in places)


def _keys(names: Sequence[str], layout: Layout, y: float) -> Iterator[str]:
    x = float(layout.left)
    for kind, name in zip(KINDS, names, strict=False):
        yield f'<circle class="{kind}" cx="{x + 4:g}" cy="{y - 4:g}" r="4"/>'
        yield f'<text class="tick" x="{x + 13:g}" y="{y:g}">{in_html(name)}</text>'
        x += 30 + 7 * len(name)

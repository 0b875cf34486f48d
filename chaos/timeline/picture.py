"""Puts a run on one axis of time, as SVG: members, faults and clients in lanes, below them the rate and the latency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chaos.history import History, Struck
from chaos.timeline import charts, lanes
from chaos.timeline.axis import Axis, Layout

TOP, GAP, CHART_HEAD, TICKS = 8, 6, 40, 26


def picture(history: History, struck: Iterable[Struck], layout: Layout) -> str:
    """The whole picture. Faults are bands over all of it."""
    struck = list(struck)
    axis = Axis(layout, end_of(history, struck))
    top = float(TOP)
    parts: list[str] = []
    for lane in (
        *lanes.members(history, axis.end_s),
        *lanes.faults(struck, axis.end_s),
        *lanes.clients(history.operations, axis),
    ):
        top += layout.head
        parts += lanes.draw(lane, axis, top)
        top += lane.height + GAP
    for chart in (charts.rate, charts.latency):
        top += CHART_HEAD - GAP
        parts += chart(history.acked, axis, top)
        top += charts.HEIGHT + GAP
    bottom = top - GAP
    height = bottom + TICKS
    size = f'viewBox="0 0 {layout.width} {height:g}"'
    return "\n".join(
        [
            f'<svg class="{layout.name}" {size} role="img" aria-label="timeline: {axis.end_s:.1f} seconds">',
            *_bands(struck, axis, bottom),
            *_ticks(axis, bottom),
            *parts,
            "</svg>",
        ]
    )


def end_of(history: History, struck: Iterable[Struck]) -> float:
    """When the last thing was seen."""
    lists = (history.acked, history.seen, history.delivered, history.operations)
    times = [events[-1].at_s for events in lists if events]
    return max([*times, *(each.from_s for each in struck)], default=1.0)


def _bands(struck: Iterable[Struck], axis: Axis, bottom: float) -> Iterator[str]:
    for each in struck:
        left, right = axis.x(each.from_s), axis.x(lanes.ended(each, axis.end_s))
        size = f'x="{left}" y="0" width="{max(right - left, 1):.1f}" height="{bottom:g}"'
        yield f'<rect class="band" {size}/>'


def _ticks(axis: Axis, bottom: float) -> Iterator[str]:
    for at_s in axis.ticks():
        x = axis.x(at_s)
        yield f'<line class="grid" x1="{x}" y1="0" x2="{x}" y2="{bottom + 5:g}"/>'
        yield f'<text class="tick second" x="{x}" y="{bottom + 19:g}" text-anchor="middle">{at_s:g} s</text>'

"""Draws figures as SVG: groups of bars, percentiles on a logarithmic scale, and curves. Text in, text out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, LABELS, RIGHT, TOP = 960, 210, 90, 64
BAR, GAP, GROUP_GAP = 15, 3, 16
CURVES_LEFT, CURVES_TALL = 80, 260
COLOURS = ("#2e7d4f", "#3b6fb6", "#c77b1e", "#8a4fa3", "#b33f4c", "#4d8f8b", "#7a7a7a", "#a8893a", "#5c5fb0", "#93605c")


@dataclass(frozen=True, slots=True)
class Series:
    """One system; a figure of 0 is one that there is not."""

    title: str
    figures: dict[str, float]


def bars(title: str, series: Sequence[Series]) -> str:
    """A group of bars a system, a bar a figure, each with its number; one linear scale for all."""
    kinds = list(series[0].figures) if series else []
    top = max((value for each in series for value in each.figures.values()), default=0.0) or 1.0
    out, y = [*legend(kinds)], float(TOP)
    for each in series:
        middle = y + len(kinds) * (BAR + GAP) / 2
        out.append(text(LABELS - 10, middle + 2, each.title, anchor="end"))
        for place, kind in enumerate(kinds):
            value = each.figures[kind]
            width = value / top * (WIDTH - LABELS - RIGHT)
            out.append(f'<rect x="{LABELS}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[place]}"/>')
            out.append(text(LABELS + width + 5, y + BAR - 3, f"{value:,.0f}" if value else "none", size=11))
            y += BAR + GAP
        y += GROUP_GAP
    return framed(title, out, y)


def percentiles(title: str, series: Sequence[Series]) -> str:
    """A row a system, its percentiles as points joined by a line; decades as a grid."""
    values = [value for each in series for value in each.figures.values() if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) - 1e-9)
    high = max(high, low + 1)
    kinds = list(series[0].figures) if series else []
    bottom = TOP + len(series) * 30 + 8

    def across(value: float) -> float:
        return LABELS + (math.log10(value) - low) / (high - low) * (WIDTH - LABELS - RIGHT)

    out = [*legend(kinds)]
    for decade in range(low, high + 1):
        x = across(10.0**decade)
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>')
        out.append(text(x, bottom + 15, f"{10.0**decade:,.0f}", anchor="middle", size=11))
    for row, each in enumerate(series):
        y = TOP + row * 30 + 12
        points = [(across(value), kind) for kind, value in each.figures.items() if value > 0]
        out.append(text(LABELS - 10, y + 4, each.title, anchor="end"))
        line = " ".join(f"{x:.1f},{y}" for x, _ in points)
        out.append(f'<polyline points="{line}" stroke="#999" stroke-width="2" fill="none"/>')
        for x, kind in points:
            colour = COLOURS[kinds.index(kind)]
            hint = f"<title>{kind} {each.figures[kind]:,.0f}</title>"
            out.append(f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{colour}">{hint}</circle>')
    return framed(title, out, bottom + 20)


@dataclass(frozen=True, slots=True)
class Curve:
    """One figure along an axis: at each of its steps the value, and between what it was."""

    title: str
    values: tuple[float, ...]
    ranges: tuple[tuple[float, float], ...]
    dashed: bool = False


def curves(
    title: str,
    axis: str,
    steps: Sequence[str],
    series: Sequence[Curve],
    *,
    band: tuple[float, float] | None = None,
    decades: bool = False,
) -> str:
    """A line a figure over the steps of an axis, each step as far from the next; `band` is shaded across all of them.
    From zero, or with `decades` on a logarithmic scale.
    """
    figures = [figure for each in series for pair in each.ranges for figure in pair] + list(band or ())
    highest = max(figures, default=1.0) or 1.0
    lowest = min((figure for figure in figures if figure > 0), default=1.0)
    bottom = TOP + CURVES_TALL
    if decades:
        low = math.floor(math.log10(lowest))
        high = max(low + 1, math.ceil(math.log10(highest) - 1e-9))
        ticks = [10.0**power for power in range(low, high + 1)]
    else:
        unit = tick_of(highest)
        ticks = [unit * number for number in range(math.ceil(highest / unit) + 1)]

    def up(value: float) -> float:
        if decades:
            share = (math.log10(max(value, ticks[0])) - low) / (high - low)
        else:
            share = value / ticks[-1]
        return bottom - share * CURVES_TALL

    def across(place: int) -> float:
        return CURVES_LEFT + 40 + place * (WIDTH - CURVES_LEFT - RIGHT - 40) / max(1, len(steps) - 1)

    out = legend([each.title for each in series])
    if band:
        out.append(
            f'<rect x="{CURVES_LEFT}" y="{up(band[1]):.1f}" width="{WIDTH - CURVES_LEFT - 20}" '
            f'height="{up(band[0]) - up(band[1]):.1f}" fill="#e8f2ea"/>'
        )
    for tick in ticks:
        line = f'x1="{CURVES_LEFT}" y1="{up(tick):.1f}" x2="{WIDTH - 20}" y2="{up(tick):.1f}"'
        out.append(f'<line {line} stroke="#ddd"/>')
        out.append(text(CURVES_LEFT - 8, up(tick) + 4, f"{tick:,.10g}", anchor="end", size=11))
    for place, step in enumerate(steps):
        out.append(text(across(place), bottom + 18, step, anchor="middle", size=11))
    out.append(text(WIDTH / 2, bottom + 38, axis, anchor="middle", size=12))
    for number, each in enumerate(series):
        out += curve_of(each, COLOURS[number], across, up)
    return framed(title, out, bottom + 44)


def curve_of(each: Curve, colour: str, across: Callable[[int], float], up: Callable[[float], float]) -> list[str]:
    """The line, its points, and how far each one's runs lie apart."""
    points = " ".join(f"{across(place):.1f},{up(value):.1f}" for place, value in enumerate(each.values))
    dash = ' stroke-dasharray="5 4"' if each.dashed else ""
    out = [f'<polyline points="{points}" stroke="{colour}" stroke-width="2" fill="none"{dash}/>']
    for place, (value, (low, high)) in enumerate(zip(each.values, each.ranges, strict=True)):
        x = across(place)
        out.append(f'<line x1="{x:.1f}" y1="{up(low):.1f}" x2="{x:.1f}" y2="{up(high):.1f}" stroke="{colour}"/>')
        hint = f"<title>{escape(each.title)} {value:,.2f} ({low:,.2f} to {high:,.2f})</title>"
        out.append(f'<circle cx="{x:.1f}" cy="{up(value):.1f}" r="4" fill="{colour}">{hint}</circle>')
    return out


def tick_of(highest: float) -> float:
    """A round distance of which about five reach the highest."""
    power = 10.0 ** math.floor(math.log10(highest / 5))
    return next(unit * power for unit in (1, 2, 5, 10) if unit * power * 6 >= highest)


def legend(kinds: Sequence[str]) -> list[str]:
    out, x = [], float(LABELS)
    for place, kind in enumerate(kinds):
        out.append(f'<rect x="{x:.0f}" y="36" width="11" height="11" fill="{COLOURS[place]}"/>')
        out.append(text(x + 16, 46, kind, size=12))
        x += 40 + 7 * len(kind)
    return out


def text(x: float, y: float, what: str, *, anchor: str = "start", size: int = 13) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#222">{escape(what)}</text>'


def framed(title: str, parts: Sequence[str], height: float) -> str:
    tall = round(height) + 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" width="{WIDTH}" height="{tall}" '
        f'font-family="system-ui, sans-serif" role="img" aria-label="{escape(title)}">'
    )
    background = f'<rect width="{WIDTH}" height="{tall}" fill="#ffffff"/>'
    return "\n".join([head, background, text(12, 24, title, size=16), *parts, "</svg>"]) + "\n"

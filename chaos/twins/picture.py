"""Draws a run of twins: delays by carrier, and how far both sides were when something happened; it decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.charts import LABEL, LEFT, TOP, Chart, document, moments, text
from chaos.twins.account import Sample, Watched

BAR = 18
LINES = (("sent", "#888888"), ("a", "#1f77b4"), ("b", "#d62728"), ("outputs", "#2ca02c"))


def draw(watched: Watched, carriers: Mapping[str, Mapping[str, int]], title: str, first_difference: int = 0) -> str:
    """As SVG. `first_difference`: the first input of which the two made something else; 0: there is none."""
    end_s = max((sample.at_s for sample in watched.samples), default=1.0) or 1.0
    chart = Chart(end_s, max(watched.inputs, 1))
    parts = [text(LEFT, 24, title, 15)]
    for number, (name, colour) in enumerate(LINES):
        parts.append(chart.line(((each.at_s, _of(each, name)) for each in watched.samples), colour))
        shown = {"a": "settled at a", "b": "settled at b"}.get(name, name)
        parts.append(text(LEFT + 10, TOP + 16 + 16 * number, shown, 12, colour))
    parts += chart.axes("inputs")
    labels = [(chart.x(fault.at_s), f"{fault.what} {fault.member}".strip()) for fault in watched.faults]
    differed_s = next((each.at_s for each in watched.samples if 0 < first_difference <= each.outputs), None)
    if differed_s is not None:
        at, high = chart.x(differed_s), chart.y(first_difference)
        parts.append(f'<circle cx="{at:.1f}" cy="{high:.1f}" r="5" fill="none" stroke="#d62728" stroke-width="2"/>')
        parts.append(text(at + 9, high + 4, f"input {first_difference:,}: here they differ", LABEL, "#d62728"))
        labels = sorted([*labels, (at, f"first difference, input {first_difference:,}")])
    marked = moments(labels)
    board, height = _board(carriers, marked.bottom + 30)
    return document([*parts, *marked.parts, *board], height)


def _board(carriers: Mapping[str, Mapping[str, int]], top: int) -> tuple[list[str], int]:
    """Delays by carrier, and where the picture ends below them."""
    parts = [text(LEFT, top - 10, "mean delay of departures, minutes", 13)]
    means = {name: each["minutes"] / each["flights"] for name, each in sorted(carriers.items())}
    widest = max([1.0, *map(abs, means.values())])
    for number, (name, minutes) in enumerate(means.items()):
        bar_top = top + BAR * number
        parts.append(text(LEFT - 34, bar_top + 12, name, 12))
        width = 600 * abs(minutes) / widest
        colour = "#d62728" if minutes > 0 else "#2ca02c"
        parts.append(f'<rect x="{LEFT}" y="{bar_top}" width="{width:.1f}" height="{BAR - 4}" fill="{colour}"/>')
        flights, worst = carriers[name]["flights"], carriers[name]["worst"]
        parts.append(text(LEFT + width + 6, bar_top + 12, f"{minutes:.1f} of {flights:,} flights, worst {worst}", 11))
    return parts, top + BAR * len(means) + 20


def _of(sample: Sample, name: str) -> int:
    found: dict[str, Any] = sample._asdict()
    return int(found[name])

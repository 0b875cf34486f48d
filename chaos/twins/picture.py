"""Draws a run of twins: delays by carrier, and how far both sides were when something happened; it decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chaos.labels import placed
from chaos.twins.account import Sample, Watched
from tandemq.escaping import in_html

WIDTH, TOP, HEIGHT, LEFT, BAR = 1_000, 60, 320, 70, 18
LABEL, ROW = 10, 13
LINES = (("sent", "#888888"), ("a", "#1f77b4"), ("b", "#d62728"), ("outputs", "#2ca02c"))


def draw(watched: Watched, carriers: Mapping[str, Mapping[str, int]], title: str, first_difference: int = 0) -> str:
    """As SVG. `first_difference`: the first input of which the two made something else; 0: there is none."""
    end_s = max((sample.at_s for sample in watched.samples), default=1.0) or 1.0
    most = max(watched.inputs, 1)

    def x(at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * at_s / end_s

    def y(count: int) -> float:
        return TOP + HEIGHT - HEIGHT * count / most

    parts = [_text(LEFT, 24, title, 15)]
    for number, (name, colour) in enumerate(LINES):
        points = " ".join(f"{x(each.at_s):.1f},{y(_of(each, name)):.1f}" for each in watched.samples)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        shown = {"a": "settled at a", "b": "settled at b"}.get(name, name)
        parts.append(_text(LEFT + 10, TOP + 16 + 16 * number, shown, 12, colour))
    parts += _axes(x, end_s, most)
    below = TOP + HEIGHT + 30
    labels = [(x(fault.at_s), f"{fault.what} {fault.member}".strip()) for fault in watched.faults]
    differed_s = next((each.at_s for each in watched.samples if 0 < first_difference <= each.outputs), None)
    if differed_s is not None:
        at, high = x(differed_s), y(first_difference)
        parts.append(f'<circle cx="{at:.1f}" cy="{high:.1f}" r="5" fill="none" stroke="#d62728" stroke-width="2"/>')
        parts.append(_text(at + 9, high + 4, f"input {first_difference:,}: here they differ", LABEL, "#d62728"))
        labels = sorted([*labels, (at, f"first difference, input {first_difference:,}")])
    places = placed(labels, LABEL, WIDTH - 4)
    for (at, label), place in zip(labels, places, strict=True):
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{TOP + HEIGHT}" stroke="#bbbbbb"/>')
        parts.append(_text(place.left, below + ROW * place.row, label, LABEL))
    board_top = below + ROW * (max((each.row for each in places), default=0) + 1) + 30
    parts.append(_text(LEFT, board_top - 10, "mean delay of departures, minutes", 13))
    means = {name: each["minutes"] / each["flights"] for name, each in sorted(carriers.items())}
    widest = max([1.0, *map(abs, means.values())])
    for number, (name, minutes) in enumerate(means.items()):
        top = board_top + BAR * number
        parts.append(_text(LEFT - 34, top + 12, name, 12))
        width = 600 * abs(minutes) / widest
        colour = "#d62728" if minutes > 0 else "#2ca02c"
        parts.append(f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR - 4}" fill="{colour}"/>')
        flights, worst = carriers[name]["flights"], carriers[name]["worst"]
        parts.append(_text(LEFT + width + 6, top + 12, f"{minutes:.1f} of {flights:,} flights, worst {worst}", 11))
    height = board_top + BAR * len(means) + 20
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _axes(x: Callable[[float], float], end_s: float, most: int) -> Iterator[str]:
    step = next((each for each in (1, 2, 5, 10, 20, 60, 120, 300, 600) if end_s <= 12 * each), 3_600)
    bottom = TOP + HEIGHT
    yield f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{bottom}" y2="{bottom}" stroke="#666666"/>'
    for at_s in range(0, int(end_s) + 1, step):
        yield _text(x(at_s), bottom + 14, f"{at_s} s", LABEL, "#666666")
    yield _text(6, TOP + 10, f"{most:,}", LABEL, "#666666")
    yield _text(6, TOP + 22, "inputs", LABEL, "#666666")


def _of(sample: Sample, name: str) -> int:
    found: dict[str, Any] = sample._asdict()
    return int(found[name])


def _text(x: float, y: float, text: str, size: int, colour: str = "#222222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">{in_html(text)}</text>'

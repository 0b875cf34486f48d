"""Draws a run of the demo of macro queues: what was settled of each member over time, with the faults; it decides
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chaos.labels import placed
from chaos.macros.account import settled_over_time
from chaos.macros.seen import Seen
from tandemq.escaping import in_html

WIDTH, TOP, HEIGHT, LEFT = 1_000, 60, 320, 70
BUCKET_MS = 500
LABEL, ROW = 10, 13
COLOURS = ("#1f77b4", "#2ca02c", "#8c564b", "#d62728", "#ff7f0e", "#9467bd")


def draw(seen: Seen, title: str) -> str:
    """As SVG."""
    lines = list(settled_over_time(seen, BUCKET_MS))
    rates = [count * 1_000 / BUCKET_MS for _, counts in lines for count in counts.values()]
    last = max((place for _, counts in lines for place in counts), default=0) + 1
    ends_s = [last * BUCKET_MS / 1_000, *(fault.over_s or fault.at_s for fault in seen.faults), 1.0]
    end_s, most = max(ends_s), max([1.0, *rates])

    def x(at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * at_s / end_s

    def y(rate: float) -> float:
        return TOP + HEIGHT - HEIGHT * rate / most

    parts = [_text(LEFT, 24, title, 15)]
    for fault in seen.faults:
        if fault.over_s is not None:
            left, right = x(fault.at_s), x(fault.over_s)
            box = f'x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{HEIGHT}"'
            parts.append(f'<rect {box} fill="#f6dddd"/>')
    for number, (member, counts) in enumerate(lines):
        points = " ".join(
            f"{x(place * BUCKET_MS / 1_000):.1f},{y(counts.get(place, 0) * 1_000 / BUCKET_MS):.1f}"
            for place in range(last + 1)
        )
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        where = f"{member.target}, priority {member.priority}: {sum(counts.values()):,} settled"
        parts.append(_text(WIDTH - 330, TOP + 16 + 16 * number, where, 12, colour))
    parts += _axes(x, end_s, most)
    below = TOP + HEIGHT + 30
    labels = [(x(fault.at_s), f"{fault.what} {fault.member}") for fault in seen.faults]
    places = placed(labels, LABEL, WIDTH - 4)
    for (at, label), place in zip(labels, places, strict=True):
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{TOP + HEIGHT}" stroke="#bbbbbb"/>')
        parts.append(_text(place.left, below + ROW * place.row, label, LABEL))
    height = below + ROW * (max((each.row for each in places), default=0) + 1) + 10
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _axes(x: Callable[[float], float], end_s: float, most: float) -> Iterator[str]:
    step = next((each for each in (1, 2, 5, 10, 20, 60, 120, 300, 600) if end_s <= 12 * each), 3_600)
    bottom = TOP + HEIGHT
    yield f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{bottom}" y2="{bottom}" stroke="#666666"/>'
    for at_s in range(0, int(end_s) + 1, step):
        yield _text(x(at_s), bottom + 14, f"{at_s} s", LABEL, "#666666")
    yield _text(6, TOP + 10, f"{most:,.0f}", LABEL, "#666666")
    yield _text(6, TOP + 22, "settled a s", LABEL, "#666666")


def _text(x: float, y: float, text: str, size: int, colour: str = "#222222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">{in_html(text)}</text>'

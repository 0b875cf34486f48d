"""Draws a run of the demo of macro queues: what was settled of each member over time, with the faults; it decides
nothing.
"""

from __future__ import annotations

from chaos.charts import HEIGHT, LEFT, TOP, WIDTH, Chart, document, moments, text
from chaos.macros.account import settled_over_time
from chaos.macros.seen import Seen

BUCKET_MS = 500
COLOURS = ("#1f77b4", "#2ca02c", "#8c564b", "#d62728", "#ff7f0e", "#9467bd")


def draw(seen: Seen, title: str) -> str:
    """As SVG."""
    lines = list(settled_over_time(seen, BUCKET_MS))
    rates = [count * 1_000 / BUCKET_MS for _, counts in lines for count in counts.values()]
    last = max((place for _, counts in lines for place in counts), default=0) + 1
    ends_s = [last * BUCKET_MS / 1_000, *(fault.over_s or fault.at_s for fault in seen.faults), 1.0]
    chart = Chart(max(ends_s), max([1.0, *rates]))
    parts = [text(LEFT, 24, title, 15)]
    for fault in seen.faults:
        if fault.over_s is not None:
            left, right = chart.x(fault.at_s), chart.x(fault.over_s)
            box = f'x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{HEIGHT}"'
            parts.append(f'<rect {box} fill="#f6dddd"/>')
    for number, (member, counts) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        points = ((place * BUCKET_MS / 1_000, counts.get(place, 0) * 1_000 / BUCKET_MS) for place in range(last + 1))
        parts.append(chart.line(points, colour))
        where = f"{member.target}, priority {member.priority}: {sum(counts.values()):,} settled"
        parts.append(text(WIDTH - 330, TOP + 16 + 16 * number, where, 12, colour))
    parts += chart.axes("settled a s")
    faults = moments([(chart.x(fault.at_s), f"{fault.what} {fault.member}") for fault in seen.faults])
    return document([*parts, *faults.parts], faults.bottom + 10)

"""Draws the rate of acknowledgements and how long each took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from chaos.history import Acked
from chaos.timeline.axis import Axis, round_up

HEIGHT = 110
FLOOR_MS = 1.0


def rate(acked: Iterable[Acked], axis: Axis, top: float) -> Iterator[str]:
    """Messages a second, in steps."""
    bucket_s, bottom = axis.bucket_s(), top + HEIGHT
    buckets = [0] * (math.floor(axis.end_s / bucket_s) + 1)
    for ack in acked:
        buckets[min(int(ack.at_s / bucket_s), len(buckets) - 1)] += 1
    highest = round_up(max(buckets) / bucket_s)
    yield _title(axis, top, f"acknowledged a second, steps of {bucket_s:g} s")
    for value in (0.0, highest / 2, highest):
        yield from _level(axis, bottom - HEIGHT * value / highest, f"{value:,.0f}/s")
    points = [f"{axis.x(0)},{bottom:g}"]
    for place, count in enumerate(buckets):
        y = f"{bottom - HEIGHT * count / bucket_s / highest:.1f}"
        points += [f"{axis.x(place * bucket_s)},{y}", f"{axis.x((place + 1) * bucket_s)},{y}"]
    points.append(f"{axis.x(axis.end_s)},{bottom:g}")
    yield f'<polygon class="rate" points="{" ".join(points)}"/>'


def latency(acked: Iterable[Acked], axis: Axis, top: float) -> Iterator[str]:
    """The median and the longest of each step, on a scale of powers of ten."""
    bucket_s, bottom = axis.bucket_s(), top + HEIGHT
    took: dict[int, list[float]] = {}
    for ack in acked:
        took.setdefault(int(ack.at_s / bucket_s), []).append((ack.at_s - ack.asked_s) * 1000)
    highest = max((max(each) for each in took.values()), default=FLOOR_MS)
    powers = max(1, math.ceil(math.log10(max(highest, 10 * FLOOR_MS))))

    def y(value_ms: float) -> float:
        return round(bottom - HEIGHT * math.log10(max(value_ms, FLOOR_MS)) / powers, 1)

    yield _title(axis, top, f"time until acknowledged, steps of {bucket_s:g} s")
    for power in range(powers + 1):
        yield from _level(axis, y(10.0**power), f"{10**power:,} ms" if power < 3 else f"{10 ** (power - 3):,} s")
    for place, values in took.items():
        x = axis.x((place + 0.5) * bucket_s)
        values.sort()
        yield f'<circle class="longest" cx="{x}" cy="{y(values[-1])}" r="1.7"/>'
        yield f'<circle class="median" cx="{x}" cy="{y(values[len(values) // 2])}" r="1.7"/>'


def _title(axis: Axis, top: float, text: str) -> str:
    return f'<text class="name" x="{axis.layout.left}" y="{top - 9:g}">{text}</text>'


def _level(axis: Axis, y: float, text: str) -> Iterator[str]:
    left, right = axis.layout.left, axis.layout.right
    yield f'<line class="grid" x1="{left}" y1="{y:g}" x2="{right}" y2="{y:g}"/>'
    yield f'<text class="tick level" x="{left - 6}" y="{y + 4:g}" text-anchor="end">{text}</text>'

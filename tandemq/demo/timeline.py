"""Draws a run as a picture: each member's role, the kills, and how many rows were acknowledged; it never measures."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from tandemq.demo.record import GONE, IN_SYNC, KILL, RESTART, TAKEOVER, Record
from tandemq.escaping import in_html

WIDTH, HEIGHT = 1000, 348
LEFT, RIGHT = 108, 976
LANES_TOP, LANE_HEIGHT, LANE_STEP = 56, 34, 50
CHART_TOP, CHART_BOTTOM = 176, 286
BUCKET_S = 0.1
LABEL_WIDTH_MIN = 70  # a narrower stretch gets no text

_FILLS = MappingProxyType({"MASTER": "#2e7d4f", "REPLICA": "#4a7fb5", GONE: "#2b2b2b"})
_OTHER_FILL = "#c9a227"
_MARKS = MappingProxyType({KILL: "#c62828", TAKEOVER: "#2e7d4f", RESTART: "#4a7fb5", IN_SYNC: "#4a7fb5"})
_TICKS_S = (0.5, 1, 2, 5, 10, 20, 30, 60)


def draw(record: Record, title: str, longest_pause_s: tuple[float, float] = (0.0, 0.0)) -> str:
    """The whole SVG document."""
    end_s = max(record.ended_s, BUCKET_S)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    font = f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{in_html(title)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="26" font-size="15" font-weight="600" fill="#222">{in_html(title)}</text>',
        *_lanes(record, end_s),
        *_chart(record, end_s, longest_pause_s),
        *_marks(record, end_s),
        *_axis(end_s),
        *_legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(at_s: float, end_s: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * min(at_s, end_s) / end_s, 1)


def _lane_top(number: int) -> int:
    return LANES_TOP + number * LANE_STEP


def _lanes(record: Record, end_s: float) -> Iterator[str]:
    for number, name in enumerate(record.members):
        top = _lane_top(number)
        middle = top + LANE_HEIGHT / 2 + 4
        yield f'<text x="12" y="{middle}" font-weight="600" fill="#222">member {in_html(name)}</text>'
        samples = record.samples.get(name, [])
        for place, sample in enumerate(samples):
            until_s = samples[place + 1].at_s if place + 1 < len(samples) else end_s
            left, right = _x(sample.at_s, end_s), _x(until_s, end_s)
            fill = _FILLS.get(sample.role, _OTHER_FILL)
            label = sample.role.lower() if sample.role != GONE else "killed"
            epoch = f", epoch {sample.epoch}" if sample.role == "MASTER" else ""
            yield (
                f'<rect x="{left}" y="{top}" width="{max(right - left, 0.5):.1f}" height="{LANE_HEIGHT}" fill="{fill}">'
                f"<title>{in_html(label + epoch)} from {sample.at_s:.2f} s to {until_s:.2f} s</title></rect>"
            )
            if right - left >= LABEL_WIDTH_MIN:
                text = label + (epoch if right - left >= 2 * LABEL_WIDTH_MIN else "")
                yield f'<text x="{left + 6}" y="{middle}" fill="#fff">{in_html(text)}</text>'


def _chart(record: Record, end_s: float, pause_s: tuple[float, float]) -> Iterator[str]:
    buckets = [0] * (int(end_s / BUCKET_S) + 1)
    for at_s, count in record.acks:
        buckets[min(int(at_s / BUCKET_S), len(buckets) - 1)] += count
    top_rate = max(max(buckets) / BUCKET_S, 1.0)
    height = CHART_BOTTOM - CHART_TOP
    points = [f"{LEFT},{CHART_BOTTOM}"]
    for number, count in enumerate(buckets):
        y = round(CHART_BOTTOM - height * count / BUCKET_S / top_rate, 1)
        points += [f"{_x(number * BUCKET_S, end_s)},{y}", f"{_x((number + 1) * BUCKET_S, end_s)},{y}"]
    points.append(f"{RIGHT},{CHART_BOTTOM}")
    if pause_s[1] > pause_s[0]:
        left, right = _x(pause_s[0], end_s), _x(pause_s[1], end_s)
        yield f'<rect x="{left}" y="{CHART_TOP}" width="{right - left:.1f}" height="{height}" fill="#fbe3e3"/>'
        length = round((pause_s[1] - pause_s[0]) * 1000)
        yield f'<text x="{left}" y="{CHART_TOP - 6}" fill="#c62828">longest pause {length:,} ms</text>'
    yield f'<polygon points="{" ".join(points)}" fill="#8fb8a0" stroke="none"/>'
    yield f'<text x="12" y="{CHART_TOP + 10}" fill="#222">rows</text>'
    yield f'<text x="12" y="{CHART_TOP + 25}" fill="#222">acknowledged</text>'
    yield f'<text x="12" y="{CHART_TOP + 40}" fill="#666">up to {top_rate:,.0f}/s</text>'


def _marks(record: Record, end_s: float) -> Iterator[str]:
    for event in record.events:
        if event.kind not in _MARKS or not event.member:
            continue
        x, colour = _x(event.at_s, end_s), _MARKS[event.kind]
        tooltip = f"<title>{event.at_s:.2f} s: {in_html(event.text)}</title>"
        if event.kind == KILL:
            top = _lane_top(record.members.index(event.member))
            yield (
                f'<line x1="{x}" y1="{LANES_TOP - 8}" x2="{x}" y2="{CHART_BOTTOM}" stroke="{colour}" '
                f'stroke-dasharray="4 3">{tooltip}</line>'
            )
            style = f'fill="{colour}" font-weight="600" text-anchor="end"'
            yield f'<text x="{x - 4}" y="{top - 4}" {style}>kill -9</text>'
        else:
            top = _lane_top(record.members.index(event.member)) + LANE_HEIGHT
            yield f'<path d="M{x} {top} l-4 8 h8 z" fill="{colour}">{tooltip}</path>'


def _axis(end_s: float) -> Iterator[str]:
    step_s = next((step for step in _TICKS_S if end_s / step <= 16), _TICKS_S[-1])
    yield f'<line x1="{LEFT}" y1="{CHART_BOTTOM}" x2="{RIGHT}" y2="{CHART_BOTTOM}" stroke="#888"/>'
    for number in range(int(end_s / step_s) + 1):
        x = _x(number * step_s, end_s)
        yield f'<line x1="{x}" y1="{CHART_BOTTOM}" x2="{x}" y2="{CHART_BOTTOM + 5}" stroke="#888"/>'
        yield f'<text x="{x}" y="{CHART_BOTTOM + 19}" text-anchor="middle" fill="#666">{number * step_s:g} s</text>'


def _legend() -> Iterator[str]:
    x = LEFT
    for label, fill in (
        ("master", _FILLS["MASTER"]),
        ("replica", _FILLS["REPLICA"]),
        ("starting, probing, transferring", _OTHER_FILL),
        ("killed", _FILLS[GONE]),
    ):
        yield f'<rect x="{x}" y="{HEIGHT - 26}" width="12" height="12" fill="{fill}"/>'
        yield f'<text x="{x + 18}" y="{HEIGHT - 16}" fill="#444">{label}</text>'
        x += 40 + 7 * len(label)

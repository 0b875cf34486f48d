"""Draws a run of the demo of units: roles, units committed and rolled back, reactions, what waits for the second pair,
and the faults, over time; it never measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from chaos.labels import placed
from chaos.units.seen import DEAD, FLIGHTS, LEDGER, REPORTS, XMIT, Seen
from chaos.units.story import CUT, HEALED, REACTION, WORKER
from tandemq.client.journal import JournalKind
from tandemq.demo.record import GONE, KILL, Record
from tandemq.escaping import in_html

WIDTH, LEFT, RIGHT = 1000, 150, 976
LANES_TOP, LANE_HEIGHT, LANE_STEP = 48, 26, 34
CHART_HEIGHT, CHART_STEP = 84, 112
BUCKETS = 200
_FILLS = MappingProxyType({"MASTER": "#2e7d4f", "REPLICA": "#4a7fb5", GONE: "#2b2b2b"})
_OTHER_FILL = "#c9a227"
_MARKS = MappingProxyType({KILL: "#c62828", WORKER: "#c62828", CUT: "#8e44ad", HEALED: "#8e44ad", REACTION: "#b36b00"})
_WORDS = MappingProxyType(
    {KILL: "kill -9 master", WORKER: "kill -9 worker", CUT: "cut off", HEALED: "healed", REACTION: "airline"}
)
_TICKS_S = (1, 2, 5, 10, 20, 30, 60, 120)


@dataclass(frozen=True, slots=True)
class Chart:
    """Columns over time; `unit`: what one of them counts."""

    title: str
    unit: str
    columns: tuple[tuple[str, str, list[int]], ...]  # name, colour, a count for each stretch of time


def draw(seen: Seen, record: Record, began_ms: int, title: str) -> str:
    """The whole SVG document. `began_ms`: the second 0 of the record, in milliseconds since 1970."""
    end_s = max(record.ended_s, 1.0)
    charts = _charts(seen, began_ms, end_s)
    top = LANES_TOP + LANE_STEP * len(record.members) + 42
    bottom = top + CHART_STEP * len(charts) - (CHART_STEP - CHART_HEIGHT)
    height = bottom + 66
    view = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    font = f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{in_html(title)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} {font}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="600" fill="#222">{in_html(title)}</text>',
        *_lanes(record, end_s),
    ]
    for number, chart in enumerate(charts):
        parts += _chart(chart, top + CHART_STEP * number)
    parts += [*_marks(record, end_s, bottom), *_axis(end_s, bottom), "</svg>"]
    return "\n".join(parts) + "\n"


def _x(share: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0), 1)


def _charts(seen: Seen, began_ms: int, end_s: float) -> list[Chart]:
    def over_time(times_ms: Iterable[int]) -> list[int]:
        counts = Counter(int((at_ms - began_ms) / 1000 / end_s * BUCKETS) for at_ms in times_ms)
        return [counts[number] for number in range(BUCKETS)]

    def times(queue: str, kind: JournalKind) -> Iterator[int]:
        return (
            row.time_ms for row in seen.here if row.queue == queue and row.kind is kind for _ in range(row.messages)
        )

    arrived = over_time(row.time_ms for row in seen.there if row.queue == LEDGER and row.kind is JournalKind.ENQUEUED)
    onward = over_time(times(XMIT, JournalKind.ENQUEUED))
    waiting: list[int] = []
    for came, went in zip(onward, arrived, strict=True):
        waiting.append(max((waiting[-1] if waiting else 0) + came - went, 0))
    stretch = f"in {end_s / BUCKETS:.1f} s"
    rolled_back = over_time(times(FLIGHTS, JournalKind.RELEASED))
    dead = over_time(times(DEAD, JournalKind.ENQUEUED))
    committed = over_time(times(FLIGHTS, JournalKind.ACKED))
    cancelled = over_time(times(FLIGHTS, JournalKind.REMOVED))
    changed = over_time(times(FLIGHTS, JournalKind.MOVED))
    asked = over_time(times(REPORTS, JournalKind.ENQUEUED))
    return [
        Chart("units", stretch, (("committed", "#8fb8a0", committed),)),
        Chart("units", stretch, (("rolled back", "#c62828", rolled_back), ("dead letters", "#2b2b2b", dead))),
        Chart(
            "reactions",
            stretch,
            (("cancelled", "#b36b00", cancelled), ("exchanged", "#4a7fb5", changed), ("reports", "#999999", asked)),
        ),
        Chart("second pair", "now", (("waiting", "#b79fd1", waiting),)),
    ]  # fmt: skip


def _lanes(record: Record, end_s: float) -> Iterator[str]:
    for number, name in enumerate(record.members):
        top = LANES_TOP + number * LANE_STEP
        middle = top + LANE_HEIGHT / 2 + 4
        yield f'<text x="12" y="{middle}" font-weight="600" fill="#222">member {in_html(name)}</text>'
        samples = record.samples.get(name, [])
        for place, sample in enumerate(samples):
            until_s = samples[place + 1].at_s if place + 1 < len(samples) else end_s
            left, right = _x(sample.at_s / end_s), _x(until_s / end_s)
            label = sample.role.lower() if sample.role != GONE else "killed"
            epoch = f", epoch {sample.epoch}" if sample.role == "MASTER" else ""
            yield (
                f'<rect x="{left}" y="{top}" width="{max(right - left, 0.5):.1f}" height="{LANE_HEIGHT}" '
                f'fill="{_FILLS.get(sample.role, _OTHER_FILL)}">'
                f"<title>{in_html(label + epoch)} from {sample.at_s:.2f} s to {until_s:.2f} s</title></rect>"
            )
            if right - left >= 120:
                yield f'<text x="{left + 6}" y="{middle}" fill="#fff">{in_html(label + epoch)}</text>'


def _chart(chart: Chart, top: int) -> Iterator[str]:
    bottom, width = top + CHART_HEIGHT, (RIGHT - LEFT) / BUCKETS
    most = max(1, *(max(counts) for _, _, counts in chart.columns))
    yield f'<text x="12" y="{top + 12}" font-weight="600" fill="#222">{chart.title}</text>'
    yield f'<text x="12" y="{top + 28}" fill="#666">up to {most:,} {chart.unit}</text>'
    for place, (name, colour, counts) in enumerate(chart.columns):
        text = f"{in_html(name)}: {_total(chart, counts)}"
        yield f'<text x="12" y="{top + 46 + 16 * place}" fill="{colour}">{text}</text>'
        for number, count in enumerate(counts):
            if count:
                tall = max(CHART_HEIGHT * count / most, 1.0)
                share = width / len(chart.columns)
                left = LEFT + number * width + place * share
                size = f'width="{share:.2f}" height="{tall:.1f}"'
                yield f'<rect x="{left:.1f}" y="{bottom - tall:.1f}" {size} fill="{colour}"/>'
    yield f'<line x1="{LEFT}" y1="{bottom}" x2="{RIGHT}" y2="{bottom}" stroke="#bbb"/>'


def _total(chart: Chart, counts: Sequence[int]) -> str:
    return f"{max(counts):,} at most" if chart.unit == "now" else f"{sum(counts):,}"


def _marks(record: Record, end_s: float, bottom: int) -> Iterator[str]:
    marked = [event for event in record.events if event.kind in _MARKS]
    labels = [(_x(event.at_s / end_s), _WORDS[event.kind]) for event in marked]
    for event, (x, label), place in zip(marked, labels, placed(labels, 11, WIDTH), strict=True):
        colour = _MARKS[event.kind]
        yield (
            f'<line x1="{x}" y1="{LANES_TOP - 6}" x2="{x}" y2="{bottom}" stroke="{colour}" stroke-dasharray="4 3">'
            f"<title>{event.at_s:.2f} s: {in_html(event.text)}</title></line>"
        )
        y = LANES_TOP + LANE_STEP * len(record.members) + 4 + 12 * place.row
        yield f'<text x="{place.left:.1f}" y="{y}" font-size="11" fill="{colour}">{label}</text>'


def _axis(end_s: float, bottom: int) -> Iterator[str]:
    step_s = next((step for step in _TICKS_S if end_s / step <= 16), _TICKS_S[-1])
    for number in range(int(end_s / step_s) + 1):
        x = _x(number * step_s / end_s)
        yield f'<line x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 5}" stroke="#888"/>'
        yield f'<text x="{x}" y="{bottom + 19}" text-anchor="middle" fill="#666">{number * step_s} s</text>'

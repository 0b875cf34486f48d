"""Draws a drill as one page of HTML with its pictures in it, no scripts and nothing from elsewhere; it never measures.

One axis of time for all: the members' roles, the faults, the rate of acknowledgements, and how long each took.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from chaos.drill.playing import Outcome, ended
from chaos.history import Seen

WIDTH, LEFT, RIGHT = 1100, 120, 1080
TOP, LANE, STEP, CHART = 30, 26, 36, 110
BUCKET_S = 0.1
SILENT_S = 0.5  # without a word for so long a member is drawn as gone
LATENCY_FLOOR_MS = 1.0
_ROLES = {"MASTER": "#2e7d4f", "REPLICA": "#4a7fb5"}
_GONE, _OTHER, _FAULT, _INK, _DIM = "#2b2b2b", "#c9a227", "#c62828", "#222222", "#777777"
_TICKS_S = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1100px;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.4rem} h2{font-size:1.1rem;margin-top:2rem} table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #ddd;vertical-align:top}
.pass{color:#2e7d4f}.fail,.invalid{color:#c62828} svg{width:100%;height:auto} code{font-size:.9em}
@media(prefers-color-scheme:dark){body{background:#16181b;color:#ddd}th,td{border-color:#333}svg{background:#fff}}
"""


def page(outcome: Outcome) -> str:
    """The whole document."""
    drill, result = outcome.drill, outcome.result
    title = f"Drill {drill.name}: {outcome.verdict}"
    rows = [
        f"<tr><td>{escape(line.name)}</td><td>{escape(line.text)}</td>"
        f'<td class="{"pass" if line.held else "fail"}">{_mark(line.limit, held=line.held)}</td></tr>'
        for line in outcome.lines
    ]
    faults = [
        f"<tr><td>{escape(kind)}</td><td>{bitten} of {made} had an effect that was seen</td></tr>"
        for kind, (bitten, made) in result.faults.items()
    ]
    found = [
        f"<li><code>{escape(name)}</code> {escape(line)}</li>" for name, ls in result.broken.items() for line in ls
    ]
    found += [f"<li>invalid: {escape(line)}</li>" for line in result.invalid]
    told = [
        f"<tr><td>{each.at_s:.2f} s</td><td>{escape(each.phase)}</td><td>{escape(each.text)}</td></tr>"
        for each in outcome.progress.told
    ]
    word = f'<span id="verdict" class="{outcome.verdict}">{outcome.verdict}</span>'
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<style>{_STYLE}</style></head><body>",
            f"<h1>Drill {escape(drill.name)}: {word}</h1>",
            f"<p>{escape(drill.title)}. {escape(outcome.progress.origin)}; {outcome.seconds:.0f} s.</p>",
            f'<table id="lines">{"".join(rows)}</table>',
            f"<h2>What stands against it</h2><ul>{''.join(found)}</ul>" if found else "",
            "<h2>Timeline</h2>",
            picture(outcome),
            f"<h2>Faults</h2><table>{''.join(faults)}</table>",
            f"<h2>What happened</h2><table>{''.join(told)}</table>",
            "</body></html>",
        ]
    )


def _mark(limit: float | None, *, held: bool) -> str:
    return "measured" if limit is None else "held" if held else "NOT HELD"


class _Axis:
    """Seconds to places."""

    def __init__(self, end_s: float) -> None:
        self.end_s = max(end_s, BUCKET_S)

    def x(self, at_s: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * min(max(at_s, 0.0), self.end_s) / self.end_s, 1)


def picture(outcome: Outcome) -> str:
    """The timeline as SVG."""
    history = outcome.result.history
    times = [event.at_s for events in (history.acked, history.seen, history.delivered) for event in events[-1:]]
    axis = _Axis(max(times, default=1.0))
    members = sorted({seen.member for seen in history.seen})
    lanes_end = TOP + STEP * (len(members) + 1)
    rate_top, latency_top = lanes_end + 20, lanes_end + 20 + CHART + 40
    height = latency_top + CHART + 50
    size = f'viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="timeline of the drill">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_bands(outcome, axis, latency_top + CHART),
        *(part for place, name in enumerate(members) for part in _lane(outcome, axis, name, TOP + STEP * place)),
        *_fault_lane(outcome, axis, TOP + STEP * len(members)),
        *_rate(outcome, axis, rate_top),
        *_latency(outcome, axis, latency_top),
        *_ticks(axis, latency_top + CHART),
        *_legend(height - 12),
        "</svg>",
    ]
    return "\n".join(parts)


def _label(y: float, text: str, small: str = "") -> str:
    more = f'<tspan x="10" dy="15" fill="{_DIM}">{escape(small)}</tspan>' if small else ""
    return f'<text x="10" y="{y}" fill="{_INK}" font-weight="600">{escape(text)}{more}</text>'


def _bands(outcome: Outcome, axis: _Axis, bottom: float) -> Iterator[str]:
    for struck in outcome.result.struck:
        left, right = axis.x(struck.from_s), axis.x(ended(struck, axis.end_s))
        yield (
            f'<rect class="band" x="{left}" y="{TOP - 6}" width="{max(right - left, 1):.1f}" '
            f'height="{bottom - TOP + 6}" fill="#fbe3e3"/>'
        )


def _lane(outcome: Outcome, axis: _Axis, member: str, top: int) -> Iterator[str]:
    yield _label(top + 17, f"member {member}")
    for role, epoch, from_s, to_s in _stretches([s for s in outcome.result.history.seen if s.member == member], axis):
        left, right = axis.x(from_s), axis.x(to_s)
        fill = _GONE if role == "GONE" else _ROLES.get(role, _OTHER)
        text = "no answer" if role == "GONE" else f"{role.lower()}, epoch {epoch}"
        yield (
            f'<rect x="{left}" y="{top}" width="{max(right - left, 0.5):.1f}" height="{LANE}" fill="{fill}">'
            f"<title>{escape(text)} from {from_s:.2f} s to {to_s:.2f} s</title></rect>"
        )
        if right - left > 8 * len(text):
            yield f'<text x="{left + 5}" y="{top + 17}" fill="#fff">{escape(text)}</text>'


def _stretches(seen: list[Seen], axis: _Axis) -> Iterator[tuple[str, int, float, float]]:
    """(role, epoch, from, to) of one member; GONE where it was silent."""
    role, epoch, since_s, last_s = "", 0, 0.0, 0.0
    for each in seen:
        if role and each.at_s - last_s > SILENT_S:
            yield role, epoch, since_s, last_s
            yield "GONE", epoch, last_s, each.at_s
            role, epoch, since_s = each.role, each.epoch, each.at_s
        elif (each.role, each.epoch) != (role, epoch):
            if role:
                yield role, epoch, since_s, each.at_s
            role, epoch, since_s = each.role, each.epoch, each.at_s
        last_s = each.at_s
    if role:
        yield role, epoch, since_s, last_s
        if axis.end_s - last_s > SILENT_S:
            yield "GONE", epoch, last_s, axis.end_s


def _fault_lane(outcome: Outcome, axis: _Axis, top: int) -> Iterator[str]:
    yield _label(top + 17, "faults")
    for struck in outcome.result.struck:
        left, right = axis.x(struck.from_s), axis.x(ended(struck, axis.end_s))
        name = f"{struck.kind} {'/'.join(struck.members)}"
        yield (
            f'<rect class="fault" x="{left}" y="{top + 4}" width="{max(right - left, 2):.1f}" height="{LANE - 8}" '
            f'fill="{_FAULT}"><title>{escape(name)} from {struck.from_s:.2f} s to {struck.to_s:.2f} s</title></rect>'
        )
        if right - left > 7 * len(name):
            yield f'<text x="{left + 4}" y="{top + 17}" fill="#fff">{escape(name)}</text>'


def _rate(outcome: Outcome, axis: _Axis, top: int) -> Iterator[str]:
    buckets = [0] * (int(axis.end_s / BUCKET_S) + 1)
    for ack in outcome.result.history.acked:
        buckets[min(int(ack.at_s / BUCKET_S), len(buckets) - 1)] += 1
    highest = max([*buckets, 1])
    bottom = top + CHART
    points = [f"{LEFT},{bottom}"]
    for place, count in enumerate(buckets):
        y = round(bottom - CHART * count / highest, 1)
        points += [f"{axis.x(place * BUCKET_S)},{y}", f"{axis.x((place + 1) * BUCKET_S)},{y}"]
    points.append(f"{RIGHT},{bottom}")
    yield _label(top + 12, "acknowledged", f"up to {highest / BUCKET_S:,.0f}/s")
    yield f'<polygon id="rate" points="{" ".join(points)}" fill="#8fb8a0" fill-opacity="0.85"/>'
    yield f'<line x1="{LEFT}" y1="{bottom}" x2="{RIGHT}" y2="{bottom}" stroke="{_DIM}"/>'


def _latency(outcome: Outcome, axis: _Axis, top: int) -> Iterator[str]:
    """For each tenth of a second the median and the longest, on a scale of powers of ten."""
    took: dict[int, list[float]] = {}
    for ack in outcome.result.history.acked:
        took.setdefault(int(ack.at_s / BUCKET_S), []).append((ack.at_s - ack.asked_s) * 1000)
    highest = max((max(each) for each in took.values()), default=LATENCY_FLOOR_MS)
    powers = max(1, math.ceil(math.log10(max(highest, 10 * LATENCY_FLOOR_MS))))

    def y(value_ms: float) -> float:
        return round(top + CHART - CHART * math.log10(max(value_ms, LATENCY_FLOOR_MS)) / powers, 1)

    yield _label(top + 12, "latency", "median, longest")
    for power in range(powers + 1):
        at = y(10.0**power)
        yield f'<line x1="{LEFT}" y1="{at}" x2="{RIGHT}" y2="{at}" stroke="#e4e4e4"/>'
        yield f'<text x="{LEFT - 6}" y="{at + 4}" text-anchor="end" fill="{_DIM}">{10**power:,} ms</text>'
    for place, values in took.items():
        x = axis.x((place + 0.5) * BUCKET_S)
        values.sort()
        yield f'<circle cx="{x}" cy="{y(values[-1])}" r="1.6" fill="{_OTHER}"/>'
        yield f'<circle cx="{x}" cy="{y(values[len(values) // 2])}" r="1.6" fill="#4a7fb5"/>'


def _ticks(axis: _Axis, bottom: int) -> Iterator[str]:
    step_s = next((step for step in _TICKS_S if axis.end_s / step <= 20), _TICKS_S[-1])
    for place in range(int(axis.end_s / step_s) + 1):
        x = axis.x(place * step_s)
        yield f'<line x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 5}" stroke="{_DIM}"/>'
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" fill="{_DIM}">{place * step_s:g} s</text>'


def _legend(y: int) -> Iterator[str]:
    x = LEFT
    for text, fill in (
        *((role.lower(), fill) for role, fill in _ROLES.items()),
        ("other", _OTHER),
        ("no answer", _GONE),
    ):
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{fill}"/>'
        yield f'<text x="{x + 17}" y="{y}" fill="{_INK}">{text}</text>'
        x += 40 + 7 * len(text)

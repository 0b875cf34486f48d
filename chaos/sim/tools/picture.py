"""Draws the story of one run as a message-sequence picture, in SVG, time downwards; it decides nothing about the run.

A lifeline each for clients, members and the register; an arrow for each frame, call and answer, one that is lost ends
in a cross; bars of colour on a lifeline are roles. What is equal is drawn once (`chaos.sim.tools.fold`). The distance
between two rows says their order, not their time: long silences are cut and say how long they were.

Asked of a trace: the text of a `role` event is the role's name and then its epoch ("MASTER 3", "DOWN").
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from types import MappingProxyType
from xml.sax.saxutils import escape

from chaos.sim.pair.plan import Outcome
from chaos.sim.tools.fold import LOST, Arrow, Folded, Item, Mark, fold

ITEMS_MAX = 600
MEMBERS = ("a", "b", "register")

LEFT, TOP, ROW, STEP = 84, 96, 17, 5
"""Left of all lifelines; above all times; the height of what has a text, and of what has none."""
CLIENT_WIDTH, MEMBER_WIDTH, REGISTER_WIDTH, RIGHT = 140, 400, 330, 60
LETTER = 6.05  # width of one letter at FONT_SIZE in the fonts that browsers take for monospace
FONT_SIZE = 10
SILENCE_MS, SILENCE_HEIGHT = 250, 24
HEADS_EVERY = 900  # the names are written again, so that they are in sight on any page

ROLE_COLOURS = MappingProxyType(
    {
        "MASTER": "#2e7d32",
        "REPLICA": "#1565c0",
        "MASTER_SUSPENDED": "#ef6c00",
        "MAINTENANCE": "#6d4c41",
        "DIVERGED": "#8e24aa",
        "FAILED": "#ad1457",
        "DOWN": "#ffffff",
    }
)
OTHER_ROLE = "#78909c"
RED, GREEN, GREY, INK = "#c62828", "#2e7d32", "#757575", "#263238"
ARROW_COLOURS = MappingProxyType({"sent": "#455a64", "call": "#00695c", "answer": "#00695c"})

STYLE = f"""
text {{ font: {FONT_SIZE}px "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: {INK}; }}
.label {{ paint-order: stroke; stroke: #fff; stroke-width: 3px; stroke-linejoin: round; }}
.time {{ fill: {GREY}; text-anchor: end; }}
.title {{ font-size: 15px; font-weight: bold; }}
.head {{ font-size: 12px; font-weight: bold; text-anchor: middle; }}
.small {{ fill: {GREY}; }}
.white {{ fill: #fff; }}
.red {{ fill: {RED}; }}
""".strip()


@dataclass(frozen=True, slots=True)
class Row:
    """A thing and where it is drawn."""

    item: Item
    y: float
    end_y: float


def picture(outcome: Outcome) -> str:
    """The whole SVG document. Raises ValueError for an outcome without a trace."""
    if not outcome.trace:
        raise ValueError("this run kept no trace: there is nothing to draw")
    folded = fold(outcome.trace, ITEMS_MAX)
    return _Page(outcome, folded).document()


class _Page:
    """One document while it is written."""

    def __init__(self, outcome: Outcome, folded: Folded) -> None:
        self.outcome = outcome
        self.folded = folded
        self.columns = _columns(outcome, folded)
        self.width = max(self.columns.values()) + RIGHT
        self.silences: list[tuple[float, float]] = []  # where, and how many milliseconds
        self.times: list[tuple[float, float]] = []
        self.rows = self._rows()
        self.height = max([TOP, *(max(row.y, row.end_y) for row in self.rows)]) + 2 * ROW
        self.lines: list[str] = []
        self.labels: list[str] = []
        """Drawn last, so that no arrow crosses a text."""

    def document(self) -> str:
        bands = self._closing_bands()
        self.height += len(bands) * ROW + ROW
        self._lifelines()
        for row in self.rows:
            match row.item:
                case Arrow() as arrow:
                    self._arrow(arrow, row.y, row.end_y)
                case Mark() as mark:
                    self._mark(mark, row.y)
        for number, text in enumerate(bands):
            self._band(self.height - (len(bands) - number) * ROW - ROW / 2, text, RED)
        self._margin()
        self._title()
        size = f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
                f"<style>{STYLE}</style>",
                f'<rect width="{self.width:.0f}" height="{self.height:.0f}" fill="#fff"/>',
                *self.lines,
                *self.labels,
                "</svg>",
                "",
            ]
        )

    # Where things are

    def _rows(self) -> list[Row]:
        """Every beginning and every end gets a height of its own, in order of time."""
        points: list[tuple[float, int, bool]] = []
        for number, item in enumerate(self.folded.items):
            points.append((item.at_ms, number, False))
            if isinstance(item, Arrow) and item.end_ms is not None and item.end_ms > item.at_ms:
                points.append((item.end_ms, number, True))
        starts: dict[int, float] = {}
        ends: dict[int, float] = {}
        y, before = float(TOP), points[0][0] if points else 0.0
        for at_ms, number, is_end in sorted(points):
            silence = at_ms - before
            if silence >= SILENCE_MS:
                self.silences.append((y + SILENCE_HEIGHT / 2 + STEP, silence))
                y += SILENCE_HEIGHT
            else:
                y += min(2 * math.log2(1 + silence), ROW)
            y += STEP if is_end else ROW
            (ends if is_end else starts)[number] = y
            if not is_end:
                self.times.append((y, at_ms))
            before = at_ms
        return [Row(item, starts[n], ends.get(n, starts[n])) for n, item in enumerate(self.folded.items)]

    def _x(self, who: str) -> float | None:
        """A lifeline; between two of them for a direction ("a>b"); None for the world."""
        if who in self.columns:
            return self.columns[who]
        one, _, other = who.partition(">")
        if one in self.columns and other in self.columns:
            return (self.columns[one] + self.columns[other]) / 2
        return None

    # What is drawn

    def _lifelines(self) -> None:
        for name, x in self.columns.items():
            self.lines.append(
                f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{self.height - ROW:.1f}" stroke="#b0bec5"/>'
            )
            self._roles(name, x)
        heads = [TOP - 14.0]
        while heads[-1] + HEADS_EVERY < self.height - HEADS_EVERY / 3:
            heads.append(heads[-1] + HEADS_EVERY)
        for y in heads:
            for name, x in self.columns.items():
                wide = len(name) * 7.4 + 14
                fill = "#eceff1" if y == heads[0] else "#fff"
                self.labels.append(_box(x - wide / 2, y - 12, wide, 18, fill, "#b0bec5"))
                self.labels.append(f'<text class="head" x="{x:.1f}" y="{y + 1:.1f}">{escape(name)}</text>')

    def _roles(self, name: str, x: float) -> None:
        changes = [(row.y, row.item.text) for row in self.rows if _is_role(row.item, name)]
        ends = [*(y for y, _ in changes[1:]), self.height - ROW]
        for (y, text), end in zip(changes, ends, strict=False):  # none at all: nobody said its role
            colour = _role_colour(text)
            dashes = ' stroke-dasharray="3 3"' if colour == ROLE_COLOURS["DOWN"] else ""
            self.lines.append(
                f'<rect x="{x - 4:.1f}" y="{y:.1f}" width="8" height="{max(end - y, 1):.1f}" '
                f'fill="{colour}" fill-opacity="{0.9 if dashes else 0.55}" stroke="{GREY}" stroke-width="0.5"{dashes}/>'
            )

    def _arrow(self, arrow: Arrow, y: float, end_y: float) -> None:
        start, end = self._x(arrow.who), self._x(arrow.to)
        if start is None or end is None:
            return
        lost = arrow.fate == LOST
        colour = RED if lost else ARROW_COLOURS[arrow.what]
        direction = 1 if end >= start else -1
        start += direction * 5
        end -= direction * 5
        if lost:  # it ends on the way
            end = start + (end - start) * 0.6
            end_y = y + (end_y - y) * 0.6
        dash = ' stroke-dasharray="4 3"' if arrow.heartbeat or arrow.what == "answer" else ""
        wide = 1.6 if arrow.count > 1 else 1
        line = f'x1="{start:.1f}" y1="{y:.1f}" x2="{end:.1f}" y2="{end_y:.1f}" stroke="{colour}" stroke-width="{wide}"'
        title = f"<title>{escape(_title_of(arrow))}</title>"
        self.lines.append(f"<line {line}{dash}>{title}</line>")
        self.lines.append(_cross(end, end_y) if lost else _tip(start, y, end, end_y, colour))
        room = int((abs(end - start) - 12) / LETTER)
        if abs(end_y - y) < STEP / 2 or arrow.what != "sent":  # what it crosses may be written over
            room = max(room, 26)
        anchor = "start" if direction > 0 else "end"
        classes = "label red" if lost else "label"
        self.labels.append(
            f'<text class="{classes}" x="{start + direction * 5:.1f}" y="{y - 3:.1f}" text-anchor="{anchor}">'
            f"{escape(_cut(_label(arrow), max(room, 8)))}</text>"
        )

    def _mark(self, mark: Mark, y: float) -> None:
        x = self._x(mark.who)
        text = _cut(mark.text, 60)
        title = f"{mark.what} {mark.who} at {mark.at_ms:,.1f} ms: {mark.text}"
        match mark.what:
            case "violation":
                self._band(y, f"VIOLATION {f'{mark.who}: ' if mark.who else ''}{mark.text}", RED)
            case "fault" | "healed":
                colour = RED if mark.what == "fault" else GREEN
                label = text if mark.what == "fault" else f"healed {text}".strip()
                if mark.who not in self.columns:
                    label = f"{mark.who} {label}".strip()
                self._pill(
                    x if x is not None else self.width / 2,
                    y,
                    label,
                    "#ffebee" if colour == RED else "#e8f5e9",
                    colour,
                    title,
                )
            case "role" if x is not None:
                colour = _role_colour(text)
                down = colour == ROLE_COLOURS["DOWN"]
                self._pill(x, y, text, colour, INK if down else colour, title, "" if down else "white")
            case _:
                dot = "" if x is None else f'<circle cx="{x:.1f}" cy="{y - 3:.1f}" r="2.5" fill="{GREY}"/>'
                label = f"{mark.what} {text}" if mark.what == "commit" else text
                at, anchor = LEFT if x is None else x + 8, "start"
                if x is not None and x + 8 + len(label) * LETTER > self.width:  # no room on its right
                    at, anchor = x - 8, "end"
                place = f'x="{at:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
                words = f"<title>{escape(title)}</title>{escape(label)}"
                self.labels.append(f'{dot}<text class="label small" {place}>{words}</text>')

    def _pill(self, x: float, y: float, text: str, fill: str, stroke: str, title: str, css: str = "") -> None:
        wide = len(text) * LETTER + 12
        left = min(max(x - wide / 2, 4), max(self.width - wide - 4, 4))
        self.labels.append(_box(left, y - 10, wide, 14, fill, stroke, title))
        ink = f' class="{css}"' if css else f' style="fill: {stroke}"'
        self.labels.append(f'<text{ink} x="{left + 6:.1f}" y="{y + 1:.1f}">{escape(text)}</text>')

    def _band(self, y: float, text: str, colour: str) -> None:
        room = int((self.width - LEFT - 20) / LETTER)
        self.labels.append(
            f'<rect x="{LEFT}" y="{y - 11:.1f}" width="{self.width - LEFT - 4:.1f}" height="15" fill="{colour}">'
            f"<title>{escape(text)}</title></rect>"
        )
        self.labels.append(f'<text class="white" x="{LEFT + 6}" y="{y:.1f}">{escape(_cut(text, room))}</text>')

    def _margin(self) -> None:
        """The time of a row, where it differs from the one above."""
        last_y, last_text = -math.inf, ""
        for y, at_ms in self.times:
            text = f"{at_ms:,.0f} ms" if at_ms >= 100 else f"{at_ms:,.1f} ms"
            if y - last_y >= FONT_SIZE + 2 and text != last_text:
                self.lines.append(f'<text class="time" x="{LEFT - 10}" y="{y:.1f}">{text}</text>')
                last_y, last_text = y, text
        for y, silence in self.silences:
            ends = f'x1="{LEFT}" y1="{y:.1f}" x2="{self.width - 10:.1f}" y2="{y:.1f}"'
            self.lines.append(f'<line {ends} stroke="#cfd8dc" stroke-dasharray="1 5"/>')
            self.lines.append(
                f'<text class="label small" x="{LEFT - 10}" y="{y + 3:.1f}" text-anchor="end">'
                f"{escape(_span(silence))} later</text>"
            )

    def _title(self) -> None:
        plan = self.outcome.plan
        bug = f", planted bug {plan.bug}" if plan.bug else ""
        run = f"seed {plan.seed}, profile {plan.profile}{bug}"
        label = self.outcome.violations[0] if self.outcome.violations else "no violation"
        room = int((self.width - 20) / 9.1)
        colour = "title red" if self.outcome.violations else "title"
        self.lines.append(f'<text class="title" x="10" y="20">{escape(_cut(run, room))}</text>')
        head = f"<title>{escape(label)}</title>{escape(_cut(label, room))}"
        self.lines.append(f'<text class="{colour}" x="10" y="40">{head}</text>')
        facts = [f"{len(self.outcome.trace):,} events", f"{self.outcome.virtual_ms:,} virtual ms"]
        if self.folded.left_out:
            facts.append(f"the first {self.folded.left_out:,} frames and calls are left out")
        facts.append("dashed: heartbeats and answers; red cross: lost; x12: that many alike; bars: roles")
        small = escape(_cut("; ".join(facts), int((self.width - 20) / LETTER)))
        self.lines.append(f'<text class="small" x="10" y="57">{small}</text>')

    def _closing_bands(self) -> list[str]:
        """Violations that no event of the trace has: found when all was over."""
        drawn = {item.text for item in self.folded.items if isinstance(item, Mark) and item.what == "violation"}
        return [f"VIOLATION {violation}" for violation in self.outcome.violations if violation not in drawn]


def _columns(outcome: Outcome, folded: Folded) -> dict[str, float]:
    """Clients in the plan's order, whoever else speaks, then the members and the register."""
    speaking: dict[str, None] = {}
    for item in folded.items:
        if isinstance(item, Arrow):
            speaking |= {item.who: None, item.to: None}
        elif item.what == "role" or item.who in MEMBERS:
            speaking[item.who] = None
    planned = [client.name for client in outcome.plan.clients if client.name in speaking]
    others = [name for name in speaking if name and name not in (*planned, *MEMBERS)]
    members = [name for name in MEMBERS if name in speaking or name != "register"]
    x = float(LEFT + CLIENT_WIDTH / 2)
    columns: dict[str, float] = {}
    for name in (*planned, *others):
        columns[name] = x
        x += CLIENT_WIDTH
    x += (MEMBER_WIDTH - CLIENT_WIDTH) / 2 if columns else 0
    for name in members:
        columns[name] = x
        x += MEMBER_WIDTH if name == "a" else REGISTER_WIDTH
    return columns


def _is_role(item: Item, name: str) -> bool:
    return isinstance(item, Mark) and item.what == "role" and item.who == name


def _role_colour(text: str) -> str:
    role = re.match(r"[A-Za-z_]+", text)
    return ROLE_COLOURS.get(role.group().upper(), OTHER_ROLE) if role else OTHER_ROLE


def _label(arrow: Arrow) -> str:
    return arrow.text if arrow.count == 1 else f"x{arrow.count} {arrow.text} (to {arrow.last_ms:,.0f} ms)"


def _title_of(arrow: Arrow) -> str:
    end = "" if arrow.end_ms is None else f", {arrow.fate} at {arrow.end_ms:,.1f} ms"
    return f"{arrow.who} to {arrow.to} at {arrow.at_ms:,.1f} ms{end}: {_label(arrow)}"


def _span(span_ms: float) -> str:
    return f"{span_ms / 1000:,.1f} s" if span_ms >= 1_000 else f"{span_ms:,.0f} ms"


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: max(letters - 2, 1)]}.."


def _box(x: float, y: float, wide: float, high: float, fill: str, stroke: str, title: str = "") -> str:
    inner = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="3" fill="{fill}" '
        f'stroke="{stroke}">{inner}</rect>'
    )


def _tip(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    """A triangle in the arrow's direction."""
    angle = math.atan2(y2 - y1, x2 - x1)
    corners = [(x2, y2)] + [(x2 - 7 * math.cos(angle + turn), y2 - 7 * math.sin(angle + turn)) for turn in (0.4, -0.4)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return f'<polygon points="{points}" fill="{colour}"/>'


def _cross(x: float, y: float) -> str:
    one = f"M{x - 4:.1f} {y - 4:.1f} L{x + 4:.1f} {y + 4:.1f}"
    other = f"M{x - 4:.1f} {y + 4:.1f} L{x + 4:.1f} {y - 4:.1f}"
    return f'<path d="{one} {other}" stroke="{RED}" stroke-width="2"/>'

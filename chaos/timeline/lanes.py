"""Draws stretches of time, one lane for each member, kind of fault and client; they say what was, and judge nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chaos.history import FAIL, OK, UNKNOWN, History, Operation, Seen, Struck
from chaos.timeline.axis import Axis, fits
from tandemq.escaping import in_html

TALL, LOW = 24, 14
SILENT_S = 0.5  # without a word for so long a member is drawn as gone
WAITED_S = 0.1  # an operation that took longer is drawn as one that waited
GONE, WAITED = "GONE", "waited"
ROLES = ("MASTER", "REPLICA")
OUTCOMES = (OK, WAITED, UNKNOWN, FAIL)  # in the order of drawing: what is worse covers what is better


class Bar(NamedTuple):
    """One stretch of a lane. `texts` may be written into it, the first that has room."""

    kind: str  # a class of the page's style
    from_s: float
    to_s: float
    title: str
    texts: tuple[str, ...] = ()


class Lane(NamedTuple):
    """A row of bars. `kind` is member, fault or client."""

    kind: str
    name: str
    height: int
    bars: list[Bar]


def draw(lane: Lane, axis: Axis, top: float) -> Iterator[str]:
    """As SVG, the name left of the axis or above the lane."""
    layout = axis.layout
    x, y = (4.0, top + lane.height / 2 + 4) if not layout.head else (layout.left, top - 3)
    name, width = in_html(lane.name), layout.right - layout.left
    yield f'<g class="lane" data-kind="{lane.kind}" data-name="{name}">'
    yield f'<text class="name" x="{x:g}" y="{y:g}">{name}</text>'
    yield f'<rect class="floor" x="{layout.left}" y="{top:g}" width="{width}" height="{lane.height}"/>'
    for bar in lane.bars:
        left, right = axis.x(bar.from_s), axis.x(bar.to_s)
        size = f'x="{left}" y="{top:g}" width="{max(right - left, 1):.1f}" height="{lane.height}"'
        when = f"{bar.from_s:.2f} s to {bar.to_s:.2f} s"
        yield f'<rect class="bar {bar.kind}" {size}><title>{in_html(bar.title)}, {when}</title></rect>'
        text = next((each for each in bar.texts if fits(each, right - left)), "")
        if text:
            yield f'<text class="within" x="{left + 4}" y="{top + lane.height / 2 + 4:g}">{in_html(text)}</text>'
    yield "</g>"


def members(history: History, end_s: float) -> Iterator[Lane]:
    """The role of each, and when it did not answer."""
    for name in sorted({seen.member for seen in history.seen}):
        bars = []
        for role, epoch, from_s, to_s in stretches([seen for seen in history.seen if seen.member == name], end_s):
            said = "no answer" if role == GONE else role.lower().replace("_", " ")
            title = said if role == GONE else f"{said}, epoch {epoch}"
            bars.append(Bar(role if role in (GONE, *ROLES) else "OTHER", from_s, to_s, title, (title, said)))
        yield Lane("member", f"member {name}", TALL, bars)


def stretches(seen: list[Seen], end_s: float) -> Iterator[tuple[str, int, float, float]]:
    """(role, epoch, from, to) of one member; GONE where it was silent."""
    role, epoch, since_s, last_s = "", 0, 0.0, 0.0
    for each in seen:
        if role and each.at_s - last_s > SILENT_S:
            yield role, epoch, since_s, last_s
            yield GONE, epoch, last_s, each.at_s
            role, epoch, since_s = each.role, each.epoch, each.at_s
        elif (each.role, each.epoch) != (role, epoch):
            if role:
                yield role, epoch, since_s, each.at_s
            role, epoch, since_s = each.role, each.epoch, each.at_s
        last_s = each.at_s
    if role and end_s - last_s > SILENT_S:
        yield role, epoch, since_s, last_s
        yield GONE, epoch, last_s, end_s
    elif role:
        yield role, epoch, since_s, end_s


def faults(struck: Iterable[Struck], end_s: float) -> Iterator[Lane]:
    """A lane for each kind; a second one where two of a kind held at one time."""
    rows: dict[str, list[list[Bar]]] = {}
    for each in sorted(struck, key=lambda each: each.from_s):
        members = "/".join(each.members)
        to_s = ended(each, end_s)
        bar = Bar("fault", each.from_s, to_s, f"{each.kind} {members}", (f"{each.kind} {members}", members))
        of_kind = rows.setdefault(each.kind, [])
        free = next((row for row in of_kind if row[-1].to_s <= each.from_s), None)
        if free is None:
            of_kind.append(free := [])
        free.append(bar)
    yield from (Lane("fault", kind, LOW + 4, row) for kind, of_kind in rows.items() for row in of_kind)


def ended(struck: Struck, end_s: float) -> float:
    """When a fault was healed; the end, where it never was."""
    return struck.to_s if math.isfinite(struck.to_s) else end_s


def clients(operations: Iterable[Operation], axis: Axis) -> Iterator[Lane]:
    """From invocation to outcome; operations of one outcome that look the same are one bar."""
    by_client: dict[str, dict[str, list[Operation]]] = {}
    for each in operations:
        of_client = by_client.setdefault(each.client, {outcome: [] for outcome in OUTCOMES})
        waited = each.outcome == OK and each.at_s - each.asked_s > WAITED_S
        of_client[WAITED if waited else each.outcome].append(each)
    for name in sorted(by_client):
        bars = [bar for outcome in OUTCOMES for bar in _merged(outcome, by_client[name][outcome], 1 / axis.second)]
        yield Lane("client", name, LOW, bars)


def _merged(outcome: str, operations: list[Operation], gap_s: float) -> Iterator[Bar]:
    together: list[Operation] = []
    last_s = 0.0
    for each in sorted(operations, key=lambda each: each.asked_s):
        if together and each.asked_s > last_s + gap_s:
            yield _bar(outcome, together)
            together = []
        together.append(each)
        last_s = max(last_s, each.at_s)
    if together:
        yield _bar(outcome, together)


def _bar(outcome: str, together: list[Operation]) -> Bar:
    longest_ms = max(each.at_s - each.asked_s for each in together) * 1000
    verbs = "/".join(sorted({each.verb for each in together}))
    title = f"{len(together)} {verbs}: {outcome}, the longest took {longest_ms:,.0f} ms"
    details = ", ".join(sorted({each.detail for each in together if each.detail}))
    return Bar(
        outcome,
        min(each.asked_s for each in together),
        max(each.at_s for each in together),
        f"{title} ({details})" if details else title,
    )

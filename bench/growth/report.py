"""Turns a document of run.py into tables, plots and the chapter of docs/PERFORMANCE.md. It decides nothing itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from bench.check import Plan, unfit
from bench.document import Document, Figures, Of, Run, Spread
from bench.growth.faults import LABELS
from bench.growth.plan import FAULT_RATE, OPEN_RATES, Curve, curves
from bench.peers import plots
from bench.peers.figures import PERCENTILES
from bench.tables import grid, ranged, where

ROLES = ("master", "replica", "client")
SERVERS = ("us.master", "us.replica")
COSTS = {
    "servers": SERVERS, "master": ("us.master",), "replica": ("us.replica",), "client": ("us.client",),
    "wall": ("us.wall",), "cpu": (*SERVERS, "us.client"),
}  # fmt: skip
"""Microseconds for a message: of what they are the sum."""
FLAT_WITHIN = 0.2
TURNS_MIN = 5
TIMES = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9", "max_ms": "max"}
OPEN, FAULT = "open", "fault"


# -- what is whole -----------------------------------------------------------------------------------------------------


def wanted(document: Document) -> dict[Of, int]:
    """Ten million messages may be beside them."""
    runs, turns = document.options["runs"], document.options["turns"]
    found: dict[Of, int] = {(curve.name, point.label): turns for curve in curves() for point in curve.points}
    deep = {(curve.name, point.label) for curve in curves(deep=True) for point in curve.points}
    found |= {of: turns for of in document.figures() if of in deep}
    found |= {(OPEN, f"{rate:,.0f}/s"): runs for rate in OPEN_RATES}
    return found | {(FAULT, label): runs for label in LABELS.values()}


def fields(of: Of, _: Run) -> tuple[str, ...]:
    if of[0] in (OPEN, FAULT):
        return ("rate", "value", *PERCENTILES, "late_p50_ms", "late_p99_ms", *JUDGED)
    return (*(f"us.{role}" for role in (*ROLES, "wall")), *JUDGED)


JUDGED = ("account", "copies", "syncs", "load_share", "foreign_cores")


def wrong(document: Document) -> Iterator[str]:
    if (turns := document.options["turns"]) < TURNS_MIN:
        yield f"{turns} turns; {TURNS_MIN} show a spread"


PLAN = Plan(wanted, 3, fields, more=wrong)


# -- tables ------------------------------------------------------------------------------------------------------------


def planned(document: Document) -> dict[Curve, list[Figures]]:
    """Points of each curve, in their order; refused ones too."""
    figures = document.figures()
    found = {curve: [figures[of] for of in figures if of[0] == curve.name] for curve in curves(deep=True)}
    return {curve: points for curve, points in found.items() if points}


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


OTHERS = "others, cores at most"


def cost(point: Figures, name: str) -> Spread:
    found = point.spread(*COSTS[name])
    assert found
    return found


def point_rows(axis: str, points: Sequence[Figures]) -> list[tuple[str, ...]]:
    roles = (f"{role}, us" for role in ROLES)
    rows = [(axis, *roles, "all, us", "wall, us", "both members, to the first", OTHERS, "")]
    for point in points:
        cells = [""] * 6
        if point.good and (ratio := point.ratio(points[0], *SERVERS)):
            mean = cost(point, "servers").mean / cost(points[0], "servers").mean
            costs = [amount(cost(point, name).mean) for name in (*ROLES, "cpu", "wall")]
            cells = [*costs, f"{mean:.2f} ({ratio.least:.2f} to {ratio.most:.2f})"]
        rows.append((point.of[1], *cells, f"{point.foreign_cores:.2f}", "; ".join(point.said)))
    return rows


def time_rows(found: Sequence[Figures], head: str) -> list[tuple[str, ...]]:
    """Milliseconds from when messages were due."""
    milliseconds = (f"{title}, ms" for title in TIMES.values())
    rows = [(head, "answered/s", *milliseconds, "load's own lateness, p99 ms", OTHERS, "")]
    for each in found:
        cells = [ranged(each.spread(name), amount) for name in ("value", *TIMES, "late_p99_ms")]
        rows.append((each.of[1], *cells, f"{each.foreign_cores:.2f}", "; ".join(each.said)))
    return rows


def growths(points: Sequence[Figures]) -> list[tuple[str, float]]:
    """Points of a curve that is to be flat which cost the members more than they may: by how much, each against the
    cheapest smaller one. An empty queue is not the cheapest: who receives at once receives in small pieces, and against
    it alone growth from ten thousand to ten million could hide.
    """
    found, cheapest = [], math.inf
    for point in points:
        value = cost(point, "servers").mean
        if value > (1 + FLAT_WITHIN) * cheapest:
            found.append((point.of[1], round(value / cheapest, 3)))
        cheapest = min(cheapest, value)
    return found


def flatness(points: Sequence[Figures]) -> str:
    """Of a curve that is to be flat."""
    if out := growths([point for point in points if point.good]):
        told = ", ".join(f"{label} ({ratio:.2f}x)" for label, ratio in out)
        return f"More than {FLAT_WITHIN:.0%} above the cheapest smaller point: {told}."
    return f"No point costs the members more than {FLAT_WITHIN:.0%} above a smaller one."


def markdown(document: Document) -> str:
    """The chapter's part."""
    out = [f"{where(document, 'grpcio', 'lmdb')}.", "", HOW_TO_READ]
    if reasons := unfit(document, PLAN):  # nothing of the kind is taken now
        out += ["", f"This run is older than some of what is asked of one today: {'; '.join(reasons)}."]
    for curve, points in planned(document).items():
        out += ["", f"**{curve.title}.**" + (f" {flatness(points)}" if curve.flat else ""), ""]
        out += [*grid(point_rows(curve.axis, points)), "", f"![{curve.title}](img/growth-{curve.name}.svg)"]
    figures = document.figures()
    for kind, title, head in ((OPEN, OPEN_TITLE, "rate"), (FAULT, FAULT_TITLE, "in the middle")):
        if found := [each for of, each in figures.items() if of[0] == kind]:
            out += ["", f"**{title}.** Medians (ranges) of runs.", "", *grid(time_rows(found, head))]
            if kind == OPEN:
                out += ["", f"![{title}](img/growth-open.svg)"]
    return "\n".join(out)


HOW_TO_READ = (
    "Microseconds for a message that is sent, received and acknowledged: of processor time, and of time (*wall*). A "
    "ratio is that of all turns, with the range over turns."
)
OPEN_TITLE = "Open loop, from when a message was due to its acknowledgement, 1 KiB"
FAULT_TITLE = f"The same with a fault in the middle, at {FAULT_RATE:,.0f} a second"


# -- plots -------------------------------------------------------------------------------------------------------------


def drawn(document: Document) -> dict[str, str]:
    """SVG by file name. A refused point is in none."""
    found = {}
    for curve, every in planned(document).items():
        if points := [point for point in every if point.good]:
            found[f"growth-{curve.name}.svg"] = curve_drawn(curve, points)
    loops = [each for of, each in document.figures().items() if of[0] == OPEN and each.good]
    if loops:
        spreads = {title: [each.spread(part) for each in loops] for part, title in TIMES.items()}
        series = [
            plots.Curve(
                title,
                tuple(each.median * 1e3 for each in of_runs if each),
                tuple((each.least * 1e3, each.most * 1e3) for each in of_runs if each),
            )
            for title, of_runs in spreads.items()
        ]
        steps = [each.of[1] for each in loops]
        found["growth-open.svg"] = plots.curves(
            f"{OPEN_TITLE}, microseconds", "messages a second", steps, series, decades=True
        )
    return found


def curve_drawn(curve: Curve, points: Sequence[Figures]) -> str:
    names: Mapping[str, str] = {"servers": "both members", **{name: name for name in (*ROLES, "wall")}}
    costs = {name: [cost(point, name) for point in points] for name in names}
    series = [
        plots.Curve(
            title,
            tuple(each.mean for each in costs[name]),
            tuple((each.least, each.most) for each in costs[name]),
            dashed=name == "wall",
        )
        for name, title in names.items()
    ]
    first = costs["servers"][0].mean
    return plots.curves(
        f"{curve.title}, microseconds",
        curve.axis,
        [point.of[1] for point in points],
        series,
        band=(first * (1 - FLAT_WITHIN), first * (1 + FLAT_WITHIN)) if curve.flat else None,
        decades=curve.name == "payload",
    )

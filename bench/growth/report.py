"""Turns JSON lines of run.py into tables, plots and the chapter of docs/PERFORMANCE.md. It decides nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.growth.figures import FLAT_WITHIN, ROLES, growths, most_foreign
from bench.growth.fit import shown, unfit
from bench.peers import fit
from bench.peers.place import ROOT
from bench.peers.plots import Curve, curves
from bench.peers.report import grid

RESULTS = ROOT / "bench/results/growth.json"
PAGE = ROOT / "docs/PERFORMANCE.md"
BEGIN, END = "<!-- growth: written by make bench-report -->", "<!-- growth: end -->"
TIMES = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9", "max_ms": "max"}

ENDED = "end"

Line = Mapping[str, Any]


def ended(count: int) -> dict[str, Any]:
    """The last line of a run that came to its end: how many stand before it."""
    return {"kind": ENDED, "lines": count}


def read(text: str) -> list[dict[str, Any]]:
    """All lines but the last. Raises ValueError where some are missing: a file may be cut off at the end of a line."""
    lines = [fit.read(line) for line in text.splitlines() if line]
    if not lines or lines[-1].get("kind") != ENDED:
        raise ValueError("its last line does not say how many there are: it is cut off, or its run was stopped")
    if lines[-1] != ended(len(lines) - 1):
        raise ValueError(f"{len(lines) - 1} lines, and {lines[-1].get('lines')} were written")
    return lines[:-1]


def by_curve(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Points of each curve, in their order; refused ones too."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        if line["kind"] == "point":
            found.setdefault(line["curve"], []).append(line)
    return found


# -- tables ------------------------------------------------------------------------------------------------------------


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def told(line: Line) -> str:
    return "; ".join([*(f"refused: {why}" for why in line["refused"]), *line["remarks"]])


def point_rows(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    heads = (
        lines[0]["axis"],
        *(f"{role}, us" for role in ROLES),
        "all, us",
        "wall, us",
        "both members, to the first",
        OTHERS,
        "",
    )
    rows = [heads]
    for line in lines:
        us, ratio = line["us"], line["ratio"]["servers"]
        costs = [amount(us[name]["mean"]) for name in (*ROLES, "cpu", "wall")]
        if line["refused"]:
            costs, said = [""] * len(costs), ""
        else:
            said = f"{ratio['mean']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
        rows.append((line["label"], *costs, said, others(line), told(line)))
    return rows


OTHERS = "others, cores at most"


def time_rows(lines: Sequence[Line], head: str) -> list[tuple[str, ...]]:
    """Milliseconds from when messages were due."""
    milliseconds = (f"{title}, ms" for title in TIMES.values())
    rows = [(head, "answered/s", *milliseconds, "load's own lateness, p99 ms", OTHERS, "")]
    for line in lines:
        times = line["times"]
        cells = [spread_of(times[name]) for name in ("value", *TIMES, "late_p99_ms")] if times else [""] * 6
        rows.append((line["label"], *cells, others(line), told(line)))
    return rows


def others(line: Line) -> str:
    cores = most_foreign(line) if shown(line) else 0.0
    if cores is None:
        return "not measured"
    return f"{cores:.2f}" if "foreign_cores_of" in line or line["kind"] != "point" else f"{cores:.2f} in the mean"


def spread_of(figure: Mapping[str, Any]) -> str:
    said = amount(figure["median"])
    return said if len(figure["runs"]) == 1 else f"{said} ({amount(figure['min'])} to {amount(figure['max'])})"


def whole_grid(rows: Sequence[Sequence[str]]) -> list[str]:
    """As Markdown; a last column in which nothing stands is left out."""
    if not any(row[-1] for row in rows):
        rows = [row[:-1] for row in rows]
    return grid(rows)


def flatness(lines: Sequence[Line]) -> str:
    """Of a curve that is to be flat."""
    if out := growths([line for line in lines if not line["refused"]]):
        told = ", ".join(f"{label} ({ratio:.2f}x)" for label, ratio in out)
        return f"More than {FLAT_WITHIN:.0%} above the cheapest smaller point: {told}."
    return f"No point costs the members more than {FLAT_WITHIN:.0%} above a smaller one."


def markdown(lines: Sequence[Line]) -> str:
    """The chapter's part."""
    about = lines[0]
    where = f"{about['cpu']}, {about['cores']} cores for everything, Linux {about['kernel']}, Python {about['python']}"
    said = f"Commit {about['commit']}, {about['time'][:10]}, {where}, grpcio {about['grpcio']}, lmdb {about['lmdb']}."
    out = [said, "", HOW_TO_READ]
    if reasons := unfit(lines):  # nothing of the kind is taken now
        out += ["", f"This run is older than some of what is asked of one today: {'; '.join(reasons)}."]
    for name, points in by_curve(lines).items():
        out += ["", f"**{points[0]['title']}.**" + (f" {flatness(points)}" if points[0]["flat"] else ""), ""]
        out += [*whole_grid(point_rows(points)), "", f"![{points[0]['title']}](img/growth-{name}.svg)"]
    for kind, title, head in (("open", OPEN_TITLE, "rate"), ("fault", FAULT_TITLE, "in the middle")):
        if found := [line for line in lines if line["kind"] == kind]:
            rate = f" at {found[0]['settings']['rate']:,.0f} a second" if kind == "fault" else ""
            out += ["", f"**{title}{rate}.** Medians (ranges) of runs.", "", *whole_grid(time_rows(found, head))]
            if kind == "open":
                out += ["", f"![{title}](img/growth-open.svg)"]
    return "\n".join(out)


HOW_TO_READ = (
    "Microseconds for a message that is sent, received and acknowledged: of processor time, and of time (*wall*). A "
    "ratio is that of all turns, with the range over turns."
)
OPEN_TITLE = "Open loop, from when a message was due to its acknowledgement, 1 KiB"
FAULT_TITLE = "The same with a fault in the middle,"


# -- plots -------------------------------------------------------------------------------------------------------------


def drawn(lines: Sequence[Line]) -> dict[str, str]:
    """SVG by file name. A refused point is in none."""
    found = {}
    for name, every in by_curve(lines).items():
        if points := [line for line in every if not line["refused"]]:
            found[f"growth-{name}.svg"] = curve_drawn(points, [line["us"] for line in points])
    shown = [line for line in lines if line["kind"] == "open" and line["times"]]
    if shown:
        series = [
            Curve(
                title,
                tuple(line["times"][part]["median"] * 1e3 for line in shown),
                tuple((line["times"][part]["min"] * 1e3, line["times"][part]["max"] * 1e3) for line in shown),
            )
            for part, title in TIMES.items()
        ]
        steps = [line["label"] for line in shown]
        found["growth-open.svg"] = curves(
            f"{OPEN_TITLE}, microseconds", "messages a second", steps, series, decades=True
        )
    return found


def curve_drawn(points: Sequence[Line], us: Sequence[Mapping[str, Any]]) -> str:
    names = {"servers": "both members", "master": "master", "replica": "replica", "client": "client", "wall": "wall"}
    series = [
        Curve(
            title,
            tuple(each[name]["mean"] for each in us),
            tuple((each[name]["min"], each[name]["max"]) for each in us),
            dashed=name == "wall",
        )
        for name, title in names.items()
    ]
    first = us[0]["servers"]["mean"]
    return curves(
        f"{points[0]['title']}, microseconds",
        points[0]["axis"],
        [line["label"] for line in points],
        series,
        band=(first * (1 - FLAT_WITHIN), first * (1 + FLAT_WITHIN)) if points[0]["flat"] else None,
        decades=points[0]["curve"] == "payload",
    )

"""Shows a document of run.py: `report.py build/bench/bench.json` prints all of it as Markdown, `readme` is the README's
part of it, `table` what fits a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.check import Plan
from bench.document import Document, Figures, Of, Run, read
from bench.plan import MEMORY, WORKLOADS
from bench.tables import grid, number, ranged, where

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 80  # of tables on a terminal
OURS, FLOOR, MACHINE, MASTER = "ours", "floor", "machine", "master"
TRIPS = "two stream round trips + one commit"
VERSIONS = ("grpcio", "lmdb", "uvloop")
HEADS = ("what", "ours", "floor", "ours / floor", "CPU us/msg ours (master, replica, client)", "CPU us/msg floor")
ROLES = ("master", "replica", "client")


def unit(of: Of) -> str:
    name, side = of
    return "B/msg" if side == MASTER else "us" if side == MACHINE or is_latency(name) else "msg/s"


def is_latency(name: str) -> bool:
    kind: str = WORKLOADS[name]["kind"]
    return kind == "latency"


# -- what is whole -----------------------------------------------------------------------------------------------------


def wanted(document: Document) -> dict[Of, int]:
    runs = document.options["runs"]
    sides = {(name, side): runs for name in WORKLOADS for side in (OURS, FLOOR)}
    beside = {of: 1 if of[1] == MASTER else runs for of in document.figures() if of[1] in (MACHINE, MASTER)}
    return sides | beside


def fields(of: Of, _: Run) -> tuple[str, ...]:
    return ("value",) if of[1] in (MACHINE, MASTER) else ("value", "foreign_cores")


def wrong(document: Document) -> Iterator[str]:
    if memory_of(document) is None:
        yield "without the memory of a queued message"


PLAN = Plan(wanted, 3, fields, seconds_min=4.0, more=wrong)


def memory_of(document: Document) -> Figures | None:
    return next((found for of, found in document.figures().items() if of[0].endswith(f": {MEMORY}")), None)


# -- tables ------------------------------------------------------------------------------------------------------------


def rows(document: Document, *, brief: bool = False) -> list[tuple[str, ...]]:
    """A row a workload; machine and memory have one figure each. Brief, for 80 columns: the median, the range of the
    ratio, CPU time summed over the processes."""
    figures = document.figures()

    def cell(of: Of) -> str:
        found = figures[of].spread("value")
        return f"{number(found.median)} {unit(of)}" if brief and found else ranged(found, number, f" {unit(of)}")

    def ratio(name: str, other: Of) -> str:
        found = figures[name, OURS].ratio(figures.get(other), "value")
        if found is None:
            return ""
        return ranged(found, number, to="-").replace(" (", " ").rstrip(")") if brief else ranged(found, number)

    def cpu(of: Of) -> list[float]:
        found = [figures[of].spread(f"cpu_us.{role}") for role in ROLES]
        return [each.median for each in found if each]

    out: list[tuple[str, ...]] = []
    for of in figures:
        name, side = of
        if side == OURS:
            ours, floor = cpu(of), cpu((name, FLOOR))
            if brief:
                used = [f"{sum(ours):,.1f} / {sum(floor):,.1f}"]
            else:
                used = [", ".join(f"{each:.2f}" for each in side) for side in (ours, floor)]
            out.append((name, cell(of), cell((name, FLOOR)), ratio(name, (name, FLOOR)), *used))
            if is_latency(name):
                blank = [""] * len(used)
                out.append((f"{name}, ours / {TRIPS}", "", "", ratio(name, (TRIPS, MACHINE)), *blank))
        elif side != FLOOR:
            out.append((name, *(("", cell(of)) if side == MACHINE else (cell(of), "")), *[""] * (2 if brief else 3)))
    return out


def markdown(document: Document) -> str:
    """All of it."""
    head = f"{where(document, *VERSIONS)}; median (range) of {document.options['runs']} runs."
    return "\n".join([head, "", *grid([HEADS, *rows(document)])])


def readme(document: Document) -> str:
    """Figures of both sides and their ratio within a run; read each as that ratio."""
    options, figures = document.options, document.figures()
    others = max(figures[name, side].foreign_cores for name in WORKLOADS for side in (OURS, FLOOR))
    head = (
        f"{where(document, *VERSIONS)}; median (range) of {options['runs']} runs of {options['seconds']:g} s; others "
        f"used at most {others:.2f} cores meanwhile."
    )
    heads = ("what", "Tandemq", "floor", "ours / floor, within a run")
    body = []
    for name in WORKLOADS:
        ours, floor = figures[name, OURS], figures[name, FLOOR]
        cells = [ranged(side.spread("value"), number, " us" if is_latency(name) else "/s") for side in (ours, floor)]
        body.append((titled(name), *cells, ranged(ours.ratio(floor, "value"), number)))
    memory = memory_of(document)
    assert memory
    said = (
        f"A queued message of 100 B takes {memory.values('value')[0]:.1f} bytes of the master's memory beyond the 64 "
        "MiB of newest records that it keeps there."
    )
    return "\n".join([head, "", *grid([heads, *body]), "", said])


def titled(name: str) -> str:
    """With what a reader of the row must know."""
    kind = WORKLOADS[name]["kind"]
    return name + {"latency": ", p50", "single": f" (floor: frames of {WORKLOADS[name]['frame']})"}.get(kind, "")


def table(document: Document) -> None:
    """For a terminal, on stderr; the document has the rest."""
    from tandemq.cli.output import console
    from tandemq.cli.terminal import new_table

    shown = new_table("medians; ratio and its range within a run; CPU us/msg, ours / floor")
    for head in ("what", "ours", "floor", "ratio", "CPU"):
        shown.add_column(head, justify="left" if head == "what" else "right", overflow="fold")
    for row in rows(document, brief=True):
        shown.add_row(*row)
    console(stderr=True).print(shown, width=WIDTH)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/bench/bench.json"
    if not path.exists():
        raise SystemExit(f"report: {path} is not there; run `make bench`")
    print(markdown(read(path.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()

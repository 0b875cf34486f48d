"""Shows "Where a message's time goes": a table a workload for docs/PERFORMANCE.md; measures nothing."""

from __future__ import annotations

from bench.budget.stages import ORDER
from bench.check import Plan
from bench.document import Document, Figures
from bench.peers.figures import NOISY_CORES
from bench.tables import ranged, where

ROLES = ("client", "master", "replica")
BATCH = {"enqueue": 100, "enqueue + consume + ack": 100, "one in flight": 1}
SIDES, MACHINE = ("ours", "floor"), "machine"

PLAN = Plan(
    lambda document: {
        **{(name, side): document.options["runs"] for name in BATCH for side in SIDES},
        **{of: document.options["runs"] for of in document.figures() if of[1] == MACHINE},
    },
    3,
    lambda of, _: ("value",) if of[1] == MACHINE else ("value", "stages_us", *(f"cpu_us.{role}" for role in ROLES)),
    quiet=False,  # the page says it
)


def markdown(document: Document) -> str:
    """One table a workload, under a line that says what was measured where."""
    figures = document.figures()
    machine = ", ".join(f"{of[0]} {_range(found, 'value', 0)} us" for of, found in figures.items() if of[1] == MACHINE)
    head = (
        f"{where(document, 'grpcio', 'lmdb')}; {document.options['runs']} runs of each in turns; medians, "
        f"in brackets the least and the most. The machine: {machine}."
    )
    cores = max(found.foreign_cores for found in figures.values())
    if not any(found.values("foreign_cores") for found in figures.values()):
        head += " What others used of the machine was not counted."
    elif cores > NOISY_CORES:
        head += (
            f" **Noisy**: strangers used up to {cores:.2f} cores: processes waited for cores, commits were late and "
            "small, few messages paid for what a batch costs. Only ours beside the floor says anything."
        )
    return "\n\n".join([head, *(_table(name, *(figures[name, side] for side in SIDES)) for name in BATCH)])


def _table(name: str, ours: Figures, floor: Figures) -> str:
    unit = "us p50" if name == "one in flight" else "msg/s"
    batch = BATCH[name]
    head = f"**{name}**: ours {_range(ours, 'value', 0)} {unit}, the floor {_range(floor, 'value', 0)}"
    if commit := ours.spread("commit_ms"):
        took = ranged(commit, lambda value: f"{value:.2f}", alone=False)
        head += f"; a group commit of our master takes {took} ms from request to wake-up"
    whole = f"ours, all three, a batch of {batch}" if batch > 1 else "ours, all three"
    lines = [
        f"{head}.",
        "",
        f"| us a message (ours / floor) | {' | '.join(ROLES)} | {whole} |",
        "|---|" + "---|" * 4,
    ]
    for stage in ORDER:
        pairs = [tuple(_median(side, f"stages_us.{role}.{stage}") for side in (ours, floor)) for role in ROLES]
        if any(mine or theirs for mine, theirs in pairs):
            cells = [f"{_cell(mine)} / {_cell(theirs)}" if mine or theirs else "" for mine, theirs in pairs]
            lines.append(f"| {stage} | {' | '.join(cells)} | {batch * sum(mine for mine, _ in pairs):,.0f} |")
    totals = [f"**{_range(ours, f'cpu_us.{role}', 2)}** / {_range(floor, f'cpu_us.{role}', 2)}" for role in ROLES]
    total = batch * sum(_median(ours, f"cpu_us.{role}") for role in ROLES)
    lines.append(f"| **all** | {' | '.join(totals)} | {total:,.0f} |")
    return "\n".join(lines)


def _cell(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def _median(side: Figures, name: str) -> float:
    """A stage at which a process was seen in no run took nothing."""
    found = side.spread(name)
    return found.median if found else 0.0


def _range(side: Figures, name: str, digits: int) -> str:
    return ranged(side.spread(name), lambda value: f"{value:,.{digits}f}", alone=False)

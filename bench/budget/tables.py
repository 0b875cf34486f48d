"""Writes the tables of "Where a message's time goes" in docs/PERFORMANCE.md; measures nothing."""

from __future__ import annotations

from typing import Any

from bench.budget.stages import ORDER

BEGIN, END = "<!-- budget: begin, written by make bench-budget -->", "<!-- budget: end -->"
ROLES = ("client", "master", "replica")
LOAD_QUIET_MAX = 4.0
"""Above the three processes that are measured, and their samplers, others were at work."""
BATCH = {"enqueue": 100, "enqueue + consume + ack": 100, "one in flight": 1}


class PageError(Exception):
    """The page has no place for the tables."""


def placed(page: str, document: dict[str, Any]) -> str:
    """The page with its tables anew. Raises PageError."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise PageError(f"the page needs the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{markdown(document)}\n{END}{after}"


def markdown(document: dict[str, Any]) -> str:
    """One table a workload, under a line that says what was measured where."""
    machine = ", ".join(f"{name} {_range(values, 0)} us" for name, values in document["machine_us"].items())
    versions = f"Python {document['python']}, grpcio {document['grpcio']}, lmdb {document['lmdb']}"
    where = f"{document['cores']} cores ({document['cpu']})"
    head = (
        f"Commit {document['commit']}, {versions}, {where}, {document['runs']} runs of each in turns; medians, "
        f"in brackets the least and the most. The machine: {machine}."
    )
    if document["load_average"] > LOAD_QUIET_MAX:
        head += (
            f" **Noisy**: the load average was up to {document['load_average']}: processes waited for cores, commits "
            "were late and small, few messages paid for what a batch costs. Only ours beside the floor says anything."
        )
    return "\n\n".join([head, *(_table(name, sides) for name, sides in document["workloads"].items())])


def _table(name: str, sides: dict[str, Any]) -> str:
    ours, floor = sides["ours"], sides["floor"]
    unit = "us p50" if name == "one in flight" else "msg/s"
    batch = BATCH[name]
    head = f"**{name}**: ours {_range(ours['value'], 0)} {unit}, the floor {_range(floor['value'], 0)}"
    if "commit_ms" in ours:
        head += f"; a group commit of our master takes {_range(ours['commit_ms'], 2)} ms from request to wake-up"
    whole = f"ours, all three, a batch of {batch}" if batch > 1 else "ours, all three"
    lines = [
        f"{head}.",
        "",
        f"| us a message (ours / floor) | {' | '.join(ROLES)} | {whole} |",
        "|---|" + "---|" * 4,
    ]
    for stage in ORDER:
        pairs = [(ours["stages_us"][role].get(stage, 0.0), floor["stages_us"][role].get(stage, 0.0)) for role in ROLES]
        if any(mine or theirs for mine, theirs in pairs):
            cells = [f"{_cell(mine)} / {_cell(theirs)}" if mine or theirs else "" for mine, theirs in pairs]
            lines.append(f"| {stage} | {' | '.join(cells)} | {batch * sum(mine for mine, _ in pairs):,.0f} |")
    totals = [f"**{_range(ours['cpu_us'][role], 2)}** / {_range(floor['cpu_us'][role], 2)}" for role in ROLES]
    total = batch * sum(ours["cpu_us"][role][0] for role in ROLES)
    lines.append(f"| **all** | {' | '.join(totals)} | {total:,.0f} |")
    return "\n".join(lines)


def _cell(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def _range(values: list[float], digits: int) -> str:
    middle, least, most = (f"{value:,.{digits}f}" for value in values)
    return f"{middle} ({least} to {most})"

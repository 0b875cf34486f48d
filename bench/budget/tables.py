"""Writes the tables of "Where a message's time goes" in docs/PERFORMANCE.md; measures nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.budget.stages import ORDER
from bench.machine import is_commit
from bench.peers.figures import NOISY_CORES
from bench.peers.place import ROOT

PAGE, KEPT = ROOT / "docs/PERFORMANCE.md", ROOT / "bench/results/budget.json"
BEGIN, END = "<!-- budget: begin, written by make bench-budget -->", "<!-- budget: end -->"
ROLES = ("client", "master", "replica")
BATCH = {"enqueue": 100, "enqueue + consume + ack": 100, "one in flight": 1}


RUNS_MIN = 3


class PageError(Exception):
    """The page has no place for the tables."""


def placed(page: str, document: dict[str, Any]) -> str:
    """The page with its tables anew. Raises PageError."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise PageError(f"the page needs the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{markdown(document)}\n{END}{after}"


def take(path: Path, kept: Path = KEPT, page: Path = PAGE) -> None:
    """Puts a document among the results and its tables on the page, or neither."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if reasons := unfit(document):
            raise SystemExit("bench-budget: not to be shown: " + "; ".join(reasons))
        text = placed(page.read_text(encoding="utf-8"), document)
    except OSError as failure:
        raise SystemExit(f"bench-budget: {failure.filename}: {failure.strerror}; `make bench-budget` first") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as failure:
        raise SystemExit(f"bench-budget: {path} is no document of bench-budget: {failure!r}") from None
    except PageError as failure:
        raise SystemExit(f"bench-budget: {failure}") from None
    kept.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def unfit(document: dict[str, Any]) -> list[str]:
    """Why a document must not be shown to readers; empty when it may. A busy machine is told on the page."""
    found = []
    if not is_commit(document["commit"]):
        found.append("it was measured on changes that are in no commit")
    if document["runs"] < RUNS_MIN:
        found.append(f"{document['runs']} runs; {RUNS_MIN} show a spread")
    if missing := [name for name in BATCH if set(document["workloads"].get(name, ())) != {"ours", "floor"}]:
        found.append(f"without {', '.join(missing)}")
    return found


def markdown(document: dict[str, Any]) -> str:
    """One table a workload, under a line that says what was measured where."""
    machine = ", ".join(f"{name} {_range(values, 0)} us" for name, values in document["machine_us"].items())
    versions = f"Python {document['python']}, grpcio {document['grpcio']}, lmdb {document['lmdb']}"
    where = f"{document['cores']} cores ({document['cpu']})"
    head = (
        f"Commit {document['commit']}, {versions}, {where}, {document['runs']} runs of each in turns; medians, "
        f"in brackets the least and the most. The machine: {machine}."
    )
    cores = document.get("foreign_cores")
    if cores is None:
        head += " What others used of the machine was not counted."
    elif cores > NOISY_CORES:
        head += (
            f" **Noisy**: strangers used up to {cores:.2f} cores: processes waited for cores, commits were late and "
            "small, few messages paid for what a batch costs. Only ours beside the floor says anything."
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

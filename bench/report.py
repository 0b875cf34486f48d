"""Turns a document of run.py into Markdown: `report.py build/bench/bench.json` prints all of it; the README's part is
written by `bench/shown.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.machine import is_commit
from bench.peers.calm import is_noisy
from bench.peers.figures import spread
from bench.peers.report import grid
from bench.plan import MEMORY, WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
RESULTS, README = ROOT / "bench/results/bench.json", ROOT / "README.md"
BEGIN, END = "<!-- bench: written by make bench-report -->", "<!-- bench: end -->"
RUNS_MIN, SECONDS_MIN = 3, 4.0
WIDTH = 80  # of tables on a terminal
RATIO = "ours / floor"
HEADS = ("what", "ours", "floor", "ours / floor", "CPU us/msg ours (master, replica, client)", "CPU us/msg floor")


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def cell(line: dict[str, Any] | None) -> str:
    """Median, and the range when there is more than one run."""
    if line is None:
        return ""
    unit = f" {line['unit']}" if line["unit"] else ""
    most = f" ({number(line['min'])} to {number(line['max'])})" if len(line["runs"]) > 1 else ""
    return f"{number(line['median'])}{unit}{most}"


def cpu(line: dict[str, Any]) -> str:
    return ", ".join(f"{line['cpu_us'][role]:.2f}" for role in ("master", "replica", "client"))


def rows(lines: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """One row a workload; machine and memory have one figure each."""
    found = {(line["workload"], line["side"]): line for line in lines}
    out: list[tuple[str, ...]] = []
    for line in lines:
        name, side = line["workload"], line["side"]
        if line["kind"] == "workload" and side == "ours":
            floor = found[name, "floor"]
            out.append((name, cell(line), cell(floor), cell(found.get((name, "ours / floor"))), cpu(line), cpu(floor)))
        elif line["kind"] == "ratio" and side != "ours / floor":
            out.append((f"{name}, {side}", "", "", cell(line), "", ""))
        elif line["kind"] == "machine":
            out.append((name, "", cell(line), "", "", ""))
        elif line["kind"] == "memory":
            out.append((name, cell(line), "", "", "", ""))
    return out


def where(document: Mapping[str, Any]) -> str:
    """Which code ran when, where."""
    about = document["about"]
    versions = ", ".join(f"{name} {about.get(name, 'absent')}" for name in ("grpcio", "lmdb", "uvloop"))
    return (
        f"Commit {about['commit']}, {document['time'][:10]}, {about['cpu']}, {about['cores']} cores for everything, "
        f"Linux {about['kernel']}, Python {about['python']}, {versions}"
    )


def markdown(document: Mapping[str, Any]) -> str:
    lines = document["lines"]
    head = f"{where(document)}; median (range) of {max(len(line['runs']) for line in lines)} runs."
    return "\n".join([head, "", *grid([HEADS, *rows(lines)])])


# -- the README's part -------------------------------------------------------------------------------------------------


def by_name(document: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(line["workload"], line["side"]): line for line in document["lines"]}


def memory_of(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((line for line in document["lines"] if line["workload"].endswith(f": {MEMORY}")), None)


def unfit(document: Mapping[str, Any]) -> list[str]:
    """Why a document must not be shown to readers; empty when it may."""
    about, options = document["about"], document["options"]
    found = []
    if not is_commit(about["commit"]):
        found.append("it was measured on changes that are in no commit")
    if about["commit"] != about["commit_afterwards"]:
        found.append("the sources changed while it was measured")
    if options["runs"] < RUNS_MIN:
        found.append(f"{options['runs']} runs; {RUNS_MIN} show a spread")
    if options["seconds"] < SECONDS_MIN:
        found.append(f"{options['seconds']:g} s of each are to see that it runs")
    lines = by_name(document)
    if len(lines) < len(document["lines"]):
        found.append("more than one line of the same")
    wanted = [(name, side) for name in WORKLOADS for side in ("ours", "floor", RATIO)]
    if missing := [f"{name} ({side})" for name, side in wanted if (name, side) not in lines]:
        found.append(f"without {', '.join(missing)}")
    if memory_of(document) is None:
        found.append("without the memory of a queued message")
    wrong = [(key, why) for key, line in lines.items() for why in wrong_with(line, lines, options)]
    return found + [f"{why}: {name} ({side})" for (name, side), why in wrong]


def wrong_with(
    line: Mapping[str, Any], lines: Mapping[tuple[str, str], Mapping[str, Any]], options: Mapping[str, Any]
) -> Iterator[str]:
    """What is noisy, or does not follow from the figures of its runs."""
    if line["kind"] == "workload" and line.get("foreign_cores") is None:
        yield "without foreign_cores"
    if line["kind"] != "memory" and len(line["runs"]) < options["runs"]:
        yield f"of {len(line['runs'])} runs, not {options['runs']}"
    if is_noisy(line):
        yield "while others used the machine"
    if any(line[name] != value for name, value in spread(line["runs"]).items()):
        yield "median and range are not those of the runs"
    if line["side"] == RATIO:
        ours, floor = (lines.get((line["workload"], side), {}).get("runs", ()) for side in ("ours", "floor"))
        if line["runs"] != [round(a / b, 3) for a, b in zip(ours, floor, strict=False)]:
            yield "the ratios are not those of the runs"


def readme(document: Mapping[str, Any]) -> str:
    """Figures of both sides and their ratio within a run; read each as that ratio."""
    options, lines = document["options"], by_name(document)
    others = max(lines[name, side]["foreign_cores"] for name in WORKLOADS for side in ("ours", "floor"))
    head = (
        f"{where(document)}; median (range) of {options['runs']} runs of {options['seconds']:g} s; others used at most "
        f"{others:.2f} cores meanwhile."
    )
    heads = ("what", "Tandemq", "floor", "ours / floor, within a run")
    body = [(titled(name), *(shown(lines[name, side]) for side in ("ours", "floor", RATIO))) for name in WORKLOADS]
    memory = memory_of(document)
    assert memory
    said = (
        f"A queued message of 100 B takes {memory['median']:.1f} bytes of the master's memory beyond the 64 MiB of "
        "newest records that it keeps there."
    )
    return "\n".join([head, "", *grid([heads, *body]), "", said])


def titled(name: str) -> str:
    """With what a reader of the row must know."""
    kind = WORKLOADS[name]["kind"]
    return name + {"latency": ", p50", "single": f" (floor: frames of {WORKLOADS[name]['frame']})"}.get(kind, "")


def shown(line: Mapping[str, Any]) -> str:
    """As `cell`, with the unit once and rates in full."""
    unit = {"msg/s": "/s", "us": " us", "": ""}[line["unit"]]
    value, least, most = (number(line[name]) for name in ("median", "min", "max"))
    return f"{value}{unit} ({least} to {most})"


# -- for a terminal ----------------------------------------------------------------------------------------------------


def brief(lines: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """For 80 columns: the median, the range of the ratio, CPU time summed over the processes."""
    ratios = {line["workload"]: line for line in lines if line["side"] == RATIO}
    floors = {line["workload"]: line for line in lines if line["side"] == "floor"}
    out: list[tuple[str, ...]] = []
    for line in lines:
        name, side = line["workload"], line["side"]
        figure = f"{number(line['median'])} {line['unit']}".rstrip()
        if line["kind"] == "workload" and side == "ours":
            floor = floors[name]
            used = " / ".join(f"{sum(each['cpu_us'].values()):,.1f}" for each in (line, floor))
            floor_figure = f"{number(floor['median'])} {floor['unit']}"
            out.append((name, figure, floor_figure, _range(ratios.get(name)), used))
        elif line["kind"] == "ratio" and side != RATIO:
            out.append((f"{name}, {side}", "", "", _range(line), ""))
        elif line["kind"] == "machine":
            out.append((name, "", figure, "", ""))
        elif line["kind"] == "memory":
            out.append((name, figure, "", "", ""))
    return out


def _range(line: dict[str, Any] | None) -> str:
    if line is None:
        return ""
    most = f" {number(line['min'])}-{number(line['max'])}" if len(line["runs"]) > 1 else ""
    return f"{number(line['median'])}{most}"


def table(lines: list[dict[str, Any]]) -> None:
    """The same for a terminal, on stderr; the document has the rest."""
    from tandemq.cli.output import console
    from tandemq.cli.terminal import new_table

    shown = new_table("medians; ratio and its range within a run; CPU us/msg, ours / floor")
    for head in ("what", "ours", "floor", "ratio", "CPU"):
        shown.add_column(head, justify="left" if head == "what" else "right", overflow="fold")
    for row in brief(lines):
        shown.add_row(*row)
    console(stderr=True).print(shown, width=WIDTH)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/bench/bench.json"
    if not path.exists():
        raise SystemExit(f"report: {path} is not there; run `make bench`")
    print(markdown(json.loads(path.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()

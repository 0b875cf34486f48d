"""Turns what run.py kept into a Markdown table: `report.py build/bench/<time>.jsonl`, or the newest one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HEADS = ("what", "ours", "floor", "ours / floor", "CPU us/msg ours (master, replica, client)", "CPU us/msg floor")


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def cell(line: dict[str, Any] | None) -> str:
    """Median, and the range when there is more than one run."""
    if line is None:
        return ""
    unit = f" {line['unit']}" if line["unit"] else ""
    spread = f" ({number(line['min'])} to {number(line['max'])})" if len(line["runs"]) > 1 else ""
    return f"{number(line['median'])}{unit}{spread}"


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


def markdown(lines: list[dict[str, Any]]) -> str:
    about = lines[0]
    head = (
        f"Commit {about['commit']}, Python {about['python']}, grpcio {about['grpcio']}, lmdb {about['lmdb']}, uvloop "
        f"{about.get('uvloop', 'absent')}; {about['cpu']}, {about['cores']} cores for everything, "
        f"Linux {about['kernel']}; median (range) of {max(len(line['runs']) for line in lines)} runs."
    )
    body = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    body += [f"| {' | '.join(row)} |" for row in rows(lines)]
    return "\n".join([head, "", *body])


def table(lines: list[dict[str, Any]]) -> None:
    """The same for a terminal, on stderr."""
    from rich.console import Console
    from rich.table import Table

    shown = Table()
    for place, head in enumerate(HEADS):
        shown.add_column(head, justify="left" if place == 0 else "right")
    for row in rows(lines):
        shown.add_row(*row)
    Console(stderr=True).print(shown)


def main() -> None:
    kept = Path(__file__).resolve().parent.parent / "build/bench"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else max(kept.glob("*.jsonl"), default=None)
    if path is None:
        raise SystemExit("report: nothing has been measured yet; run `make bench`")
    print(markdown([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]))


if __name__ == "__main__":
    main()

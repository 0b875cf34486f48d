"""Lines and branches that the quick tests reach, by folder: `python -m tools.covered`; exit 1 when a folder falls.

The tests are those of the phase `computing` of `make test`. Floors stand in `covered.toml`; `--write` makes what is
seen the floors. Tests draw examples anew in each run, so a folder falls when it is SLACK below.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.phases import TEST

ROOT = Path(__file__).resolve().parent.parent
FLOORS = Path(__file__).with_name("covered.toml")
OUT = ROOT / "build" / "coverage"
FOLDERS = ("tandemq", "replica", "storage", "failover", "chaos", "pipeline")
SLACK = 0.5
"""Percent."""
SETTINGS = f"""[run]
branch = true
parallel = true
patch = subprocess
data_file = {OUT}/data
source = {",".join(FOLDERS)}
omit = */v1/*, */*_pb2*
"""


class Reached(NamedTuple):
    """Of one folder, in percent."""

    lines: float
    branches: float


def folder_of(path: str) -> str:
    """`replica/core/state/log.py` counts for `replica/core`; what stands at the top, for the top."""
    parts = Path(path).parts[:-1]
    return "/".join(parts[:2])


def by_folder(files: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, Reached]:
    """Of the `files` of coverage's JSON."""
    sums: dict[str, list[int]] = {}
    for path, file in files.items():
        summary = file["summary"]
        counts = ("covered_lines", "num_statements", "covered_branches", "num_branches")
        for at, name in enumerate(counts):
            sums.setdefault(folder_of(path), [0, 0, 0, 0])[at] += summary[name]
    return {
        folder: Reached(_percent(lines, of_lines), _percent(branches, of_branches))
        for folder, (lines, of_lines, branches, of_branches) in sorted(sums.items())
    }


def _percent(some: int, every: int) -> float:
    return round(100 * some / every, 1) if every else 100.0


def fallen(seen: Mapping[str, Reached], floors: Mapping[str, Reached]) -> list[str]:
    """What is below its floor, or has none; and floors of folders that are gone."""
    found = [f"{folder}: no floor, write it with --write" for folder in seen if folder not in floors]
    found += [f"{folder}: a floor, and no such folder" for folder in floors if folder not in seen]
    for folder in seen.keys() & floors.keys():
        for what, now, floor in zip(Reached._fields, seen[folder], floors[folder], strict=True):
            if now < floor - SLACK:
                found.append(f"{folder}: {now} % of its {what}, {floor} % before")
    return sorted(found)


def measured() -> dict[str, Reached]:
    """Runs the tests; raises SystemExit where they fail."""
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("data*"):
        old.unlink()
    settings = OUT / "settings.ini"
    settings.write_text(SETTINGS, encoding="utf-8")
    phase = next(phase for phase in TEST if phase.name == "computing")
    environment = os.environ | {"COVERAGE_PROCESS_START": str(settings)}
    coverage = [sys.executable, "-m", "coverage"]
    run = [*coverage, "run", f"--rcfile={settings}", *phase.command[1:]]
    if code := subprocess.run(run, cwd=ROOT, env=environment, check=False).returncode:
        raise SystemExit(f"the tests end with {code}")
    for step in (("combine", "--quiet"), ("json", "--quiet", "-o", str(OUT / "coverage.json"))):
        subprocess.run([*coverage, step[0], f"--rcfile={settings}", *step[1:]], cwd=ROOT, check=True)
    return by_folder(json.loads((OUT / "coverage.json").read_text(encoding="utf-8"))["files"])


def floors() -> dict[str, Reached]:
    return {folder: Reached(*both) for folder, both in tomllib.loads(FLOORS.read_text(encoding="utf-8")).items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1: a folder fell."""
    parser = argparse.ArgumentParser(prog="python -m tools.covered", description=__doc__)
    parser.add_argument("--write", action="store_true", help="make what is seen the floors")
    options = parser.parse_args(arguments)
    seen = measured()
    print(f"{'folder':32}{'lines':>8}{'branches':>10}")
    for folder, reached in seen.items():
        print(f"{folder:32}{reached.lines:7.1f}%{reached.branches:9.1f}%")
    if options.write:
        head = "# Percent of lines and branches that the quick tests reach: `python -m tools.covered --write`.\n"
        rows = [f'"{folder}" = [{reached.lines}, {reached.branches}]\n' for folder, reached in seen.items()]
        FLOORS.write_text(head + "".join(rows), encoding="utf-8")
        return 0
    for line in (found := fallen(seen, floors())):
        print(line, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

"""Counts the instructions of the path of a message and compares them with bench/results/guard.json.

Callgrind counts what one process executes: a pair, its client and its stores, driven on virtual time, so that two runs
of the same code give the same numbers on any machine with the same interpreter and libraries, however busy it is.

Exit codes: 0 nothing became more than 10 % worse (5 % for large messages), 1 something did, 2 usage, 3 it could not be
compared (another Python or library than the baseline's, a workload that only one of the two has, no valgrind).

Example: python -m bench.guard.run; after a change that is meant to cost more: python -m bench.guard.run --write
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.guard.compare import NOT_COMPARED, Verdict, compared, table
from bench.guard.page import markdown
from bench.guard.planted import REGRESSIONS
from bench.guard.workloads import ALL, SHAPES
from bench.machine import is_optimised
from bench.tables import placed

ROOT = Path(__file__).resolve().parents[2]
BASELINE, PAGE = ROOT / "bench/results/guard.json", ROOT / "docs/PERFORMANCE.md"
LIBRARIES = ("google-crc32c", "grpcio", "lmdb", "msgspec", "protobuf")
TIMEOUT_S = 300
REQUIRED = "TANDEMQ_GUARD_REQUIRED"
_NAME = re.compile(r"^desc: Trigger: Client Request: (.+)$", re.MULTILINE)
_COUNT = re.compile(r"^totals: (\d+)$", re.MULTILINE)


class GuardError(Exception):
    """Nothing could be counted; says why and what to do."""


def about() -> dict[str, str]:
    """All that decides how many instructions the same sources are; the machine's speed is not among it."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    version = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "python": platform.python_version(),
        "compiler": platform.python_compiler(),
        "optimized": str(is_optimised()),
        "machine": platform.machine() + (" with avx2" if " avx2 " in flags else ""),
        "libc": " ".join(platform.libc_ver()),
        "valgrind": version.removeprefix("valgrind-"),
        **{name: importlib.metadata.version(name) for name in LIBRARIES},
    }


def counted(only: Sequence[str] = (), plant: Sequence[str] = ()) -> dict[str, int]:
    """Instructions a batch, by the name of the workload. Raises GuardError."""
    if shutil.which("valgrind") is None:
        raise GuardError("valgrind is not on PATH: install it (Debian's package valgrind)")
    with tempfile.TemporaryDirectory(prefix="tandemq-guard-") as folder:
        command = [
            *("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no"),
            f"--callgrind-out-file={folder}/out",
            *(sys.executable, "-P", "-m", "bench.guard.work", f"{folder}/data"),
            *(part for name in only for part in ("--only", name)),
            *(part for name in plant for part in ("--plant", name)),
        ]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise GuardError(f"the workloads did not end within {TIMEOUT_S} s") from None
        if done.returncode:
            tail = "\n".join(done.stderr.splitlines()[-12:])
            raise GuardError(f"the workloads failed ({done.returncode}):\n{tail}")
        return _read(Path(folder))


def _read(folder: Path) -> dict[str, int]:
    batches = {workload.name: SHAPES[workload.shape].batches for workload in ALL}
    found: dict[str, int] = {}
    for file in folder.glob("out.*"):
        text = file.read_text()
        name, count = _NAME.search(text), _COUNT.search(text)
        if name is not None and count is not None:
            found[name[1]] = round(int(count[1]) / batches[name[1]])
    return {name: found[name] for name in batches if name in found}


def _say(options: argparse.Namespace, document: dict[str, Any], text: str) -> None:
    print(json.dumps(document) if options.output == "json" else text, flush=True)


def _write(options: argparse.Namespace, surroundings: dict[str, str], figures: dict[str, int]) -> int:
    before = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"about": surroundings, "figures": {}}
    comparison = compared(before, surroundings, figures)
    BASELINE.parent.mkdir(parents=True, exist_ok=True)
    document = {"unit": "instructions a batch", "about": surroundings, "figures": figures}
    BASELINE.write_text(json.dumps(document, indent=1) + "\n")
    PAGE.write_text(placed(PAGE.read_text(), markdown(figures), "guard", by="guard-baseline"))
    places = " and ".join(str(path.relative_to(ROOT)) for path in (BASELINE, PAGE))
    text = f"{table(comparison.lines)}\nguard: {places} are new; say in the commit why"
    _say(options, document, "\n".join([*comparison.stale, text]))
    return 0


def _compare(options: argparse.Namespace, surroundings: dict[str, str], figures: dict[str, int]) -> int:
    if not BASELINE.exists():
        raise GuardError(f"there is no {BASELINE.relative_to(ROOT)}: make guard-baseline")
    comparison = compared(json.loads(BASELINE.read_text()), surroundings, figures)
    by_verdict = {verdict: [line.name for line in comparison.lines if line.verdict is verdict] for verdict in Verdict}
    text = [table(comparison.lines)]
    text.extend(f"guard: STALE BASELINE, not compared: {each}" for each in comparison.stale)
    for verdict in (Verdict.GONE, Verdict.NEW):
        text.extend(f"guard: {verdict.value}, not compared: {name}" for name in by_verdict[verdict])
    text.extend(f"guard: WORSE: {name}" for name in by_verdict[Verdict.WORSE])
    if by_verdict[Verdict.BETTER]:
        text.append(f"guard: better by more than 10 %, worth keeping: {', '.join(by_verdict[Verdict.BETTER])}")
    code = comparison.exit_code
    text.append(
        "guard: nothing became more than 10 % worse (large messages: 5 %)"
        if not code
        else "guard: if it is meant: make guard-baseline"
    )
    document = {
        "exit_code": code,
        "stale": comparison.stale,
        "figures": [
            {"name": line.name, "before": line.before, "now": line.now, "verdict": line.verdict.name}
            for line in comparison.lines
        ],
    }
    _say(options, document, "\n".join(text))
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make what is counted now the baseline")
    parser.add_argument(
        "--optional", action="store_true", help=f"exit with 0 instead of 3, unless {REQUIRED}=1 is in the environment"
    )
    parser.add_argument("--plant", choices=REGRESSIONS, action="append", default=[], help="see that it is found")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    try:
        figures = counted(plant=options.plant)
        surroundings = about()
        code = (_write if options.write else _compare)(options, surroundings, figures)
    except GuardError as error:
        code = NOT_COMPARED
        _say(options, {"exit_code": code, "error": str(error)}, f"guard: NOT COMPARED: {error}")
    if code == NOT_COMPARED and options.optional and os.environ.get(REQUIRED) != "1":
        print(f"guard: NOT COMPARED, which is no failure here ({REQUIRED}=1 makes it one)", file=sys.stderr)
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())

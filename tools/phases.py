"""Runs the phases of `make test` or `make test-all`, and says what each took: `python -m tools.phases test`.

All phases are run, also after one that failed. Beside each stands its budget on two idle cores. A phase that takes half
as much again fails; where others used the machine meanwhile that is said, and nothing is concluded from it.
Markers alone say what is in which phase (`tests/README.md`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "test"
OVER = 1.5
"""So many budgets are too many."""
CROWDED_PERCENT = 15.0
"""Of the machine's processors, used by others: nothing follows then from what a phase took."""
DEAREST = 20

OK, FAILED, TOO_SLOW, STARVED = "ok", "FAILED", "TOO SLOW", "INVALID: the machine was used by others"
PYTEST_NOTHING = 5
"""What pytest ends with when no test is chosen."""


class Phase(NamedTuple):
    """One command, and how long it may take."""

    name: str
    command: tuple[str, ...]
    budget_s: float
    may_be_empty: bool = False
    """Its tests are left out where what they need is not installed, and say so."""

    @property
    def junit(self) -> Path | None:
        """Where pytest puts down how long each test took; None where it is not pytest."""
        return OUT / f"{self.name}.xml" if "pytest" in self.command else None


class Seen(NamedTuple):
    """What became of one phase."""

    name: str
    outcome: str
    took_s: float
    budget_s: float
    others_percent: float
    """Of all processors, what neither idled nor worked for this phase."""
    idle_percent: float
    """Of all processors."""
    invalid: int = 0
    """Tests that judged nothing, because the machine starved them."""


DEAR = (
    "tests/integration/test_bench_stopped.py",
    "tests/sim/test_pair_model.py",
    "tests/sim/test_bugs.py",
    "tests/fuzz/test_fuzz.py",
    "tests/integration/test_backup.py",
    "tests/integration/test_dev_secure.py",
    "tests/integration/test_selected_queues.py",
    "tests/integration/test_cli.py",
    "tests/interop/test_interop.py",
    "tests/integration/test_edge.py",
    "tests/integration/test_secure_demo.py",
    "tests/integration/test_chaos.py",
    "tests/integration/test_bench_levers.py",
    "tests/integration/test_pytest_plugin.py",
    "tests/integration/test_demo_macro.py",
    "tests/integration/test_verdicts.py",
    "tests/integration/test_pages.py",
    "tests/integration/test_bench_growth.py",
    "tests/unit/chaos/test_crash_images.py",
)
"""Files that take half a minute and more, the dearest first."""


SPARK_BYTES = 3 << 30
"""What one process of the phase `spark` needs: a JVM with 1,280 MB of heap, its Python workers, a pair."""


def sessions_of_spark() -> int:
    """A session plans in one thread, so one leaves every other processor idle; where memory is short there is one."""
    found = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    return 2 if found and int(found[1]) << 10 >= 2 * SPARK_BYTES else 1


def pytest(name: str, budget_s: float, marks: str, *where: str, jobs: int = 0) -> Phase:
    # A file goes to whichever process is free. By the number of their tests, the dearest would be begun last.
    ordered = () if "--ignore=tests/spark" in where else ("--no-loadscope-reorder",)
    spread = ("-n", str(jobs), "--dist", "loadfile", *ordered, "--max-worker-restart=0") if jobs else ()
    return Phase(name, (sys.executable, "-m", "pytest", "-m", f"not long and ({marks})", *spread, *where), budget_s)


def dear_first(paths: Iterable[str]) -> tuple[str, ...]:
    """The files in the order in which they are begun."""
    places = {path: place for place, path in enumerate(DEAR)}
    return tuple(sorted(paths, key=lambda path: (places.get(path, len(places)), path)))


def carrying(marker: str) -> tuple[str, ...]:
    """The files in which a test carries it: reading all of them costs each of a phase's workers ten seconds."""
    found = re.compile(rf"\bmark\.{marker}\b")
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return tuple(str(path.relative_to(ROOT)) for path in paths if found.search(path.read_text(encoding="utf-8")))


def elsewhere(paths: Iterable[str]) -> tuple[str, ...]:
    """Without those whose processes have a phase of their own: the simulator fills the machine, Spark starts once."""
    return tuple(path for path in paths if not path.startswith(("tests/sim/", "tests/spark/")))


def make(name: str, budget_s: float, *targets: str) -> Phase:
    return Phase(name, ("make", "--no-print-directory", *targets), budget_s)


CHECKS = ("lint", "types", "blocking-check", "proto-check", "proto-lint")
SEEDS = make("seeds", 60, "sim", "SEEDS=600")
# What starts processes mostly waits, for leases and takeovers: four files of it at once. What only computes stands
# apart from it, three files at once, because some of it waits too: for sockets that stay silent, for bounds of the
# edge. What asks how soon something is has the machine for itself.
TEST = (
    make("checks", 60, "-j2", *CHECKS),
    pytest("computing", 270, "not process and not wide and not clock", "--ignore=tests/spark", jobs=3),
    pytest("promises", 80, "process and promise and not clock", *dear_first(carrying("promise")), jobs=4),
    pytest("clock", 60, "clock and not wide and (promise or not process)", *carrying("clock")),
    SEEDS,
)
REST = (
    make("guard", 90, "guard", "GUARD_ARGS=--optional"),
    pytest("computing-wide", 230, "not process and wide and not clock", *dear_first(carrying("wide")), jobs=3),
    pytest(
        "processes", 330, "process and not promise and not clock", *dear_first(elsewhere(carrying("process"))), jobs=4
    ),
    pytest("clock-wide", 60, "clock and (wide or (process and not promise))", *carrying("clock")),
    pytest("simulator", 300, "process", "tests/sim"),
    make("crash-images", 60, "crash-images"),
    pytest("spark", 360, "process", "tests/spark", jobs=sessions_of_spark())._replace(may_be_empty=True),
)
SUITES = {"test": TEST, "test-all": (*(phase for phase in TEST if phase is not SEEDS), *REST)}
"""The seeds of `make test` are the first ones of those that `simulator` runs."""


def used_s() -> float:
    """Processor seconds that this machine has worked, all processors together (Linux)."""
    user, nice, system, _, _, irq, softirq, steal, *_ = Path("/proc/stat").read_text(encoding="ascii").split()[1:]
    ticks = sum(map(int, (user, nice, system, irq, softirq, steal)))
    return ticks / os.sysconf("SC_CLK_TCK")


def childrens_s() -> float:
    """Processor seconds of what this process started and has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def outcome_of(code: int, took_s: float, budget_s: float, others_percent: float) -> str:
    if code:
        return FAILED
    if took_s <= OVER * budget_s:
        return OK
    return STARVED if others_percent > CROWDED_PERCENT else TOO_SLOW


def shown(phase: Phase, code: int, arguments: Sequence[str]) -> int:
    """Its exit code; 1 where it ended well and has shown nothing: no test was chosen, and nobody asked for a part; or
    pytest never came to say what it ran, because a test ended its process.
    """
    if code == PYTEST_NOTHING:
        return 0 if phase.junit and (arguments or phase.may_be_empty) else 1
    return 1 if code == 0 and phase.junit and not phase.junit.exists() else code


def run(phase: Phase, arguments: Sequence[str] = ()) -> Seen:
    """Its output goes where ours goes."""
    command = [*phase.command]
    if phase.junit:
        phase.junit.unlink(missing_ok=True)
        command += [f"--junitxml={phase.junit}", *arguments]
    print(f"== {phase.name}: {' '.join(command)}", flush=True)
    began_s, used, children = time.monotonic(), used_s(), childrens_s()
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    took_s = time.monotonic() - began_s
    used = used_s() - used
    whole_s = took_s * (os.cpu_count() or 1)
    others = 100 * max(0.0, used - (childrens_s() - children)) / whole_s
    idle = 100 * max(0.0, whole_s - used) / whole_s
    outcome = outcome_of(shown(phase, code, arguments), took_s, phase.budget_s, others)
    return Seen(phase.name, outcome, took_s, phase.budget_s, others, idle, invalid_in(phase))


def invalid_in(phase: Phase) -> int:
    """Skipped with the reason that `tests/support/starvation.py` gives."""
    if not phase.junit or not phase.junit.exists():
        return 0
    skips = ET.parse(phase.junit).getroot().iter("skipped")
    return sum("INVALID:" in (skip.get("message") or "") for skip in skips)


def dearest(phases: Iterable[Phase], count: int = DEAREST) -> list[tuple[float, str]]:
    """Seconds and name of the tests that took longest, the dearest first."""
    found: list[tuple[float, str]] = []
    for phase in phases:
        if phase.junit and phase.junit.exists():
            cases = ET.parse(phase.junit).getroot().iter("testcase")
            found += [(float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}") for case in cases]
    return sorted(found, reverse=True)[:count]


def table(seen: Sequence[Seen]) -> str:
    lines = [f"{'phase':16}{'seconds':>8}{'budget':>8}{'idle':>7}{'others':>8}  outcome"]
    for each in seen:
        took = f"{each.took_s:8.0f}{each.budget_s:8.0f}{each.idle_percent:6.0f}%{each.others_percent:7.0f}%"
        invalid = f", {each.invalid} INVALID" if each.invalid else ""
        lines.append(f"{each.name:16}{took}  {each.outcome}{invalid}")
    lines.append(f"{'in all':16}{sum(each.took_s for each in seen):8.0f}{sum(each.budget_s for each in seen):8.0f}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1: a phase failed or was too slow."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.phases",
        description=__doc__,
        epilog="Example: python -m tools.phases test --only computing --pytest='-k takeover'",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--only", action="append", metavar="PHASE", help="this phase alone; may be given again")
    parser.add_argument("--pytest", default="", metavar="ARGUMENTS", help="more arguments for the phases of pytest")
    parser.add_argument("--slow-is-ok", action="store_true", help="report a phase over its budget, and end with 0")
    options = parser.parse_args(arguments)
    phases = SUITES[options.suite]
    if options.only:
        if unknown := set(options.only) - {phase.name for phase in phases}:
            parser.error(f"{', '.join(sorted(unknown))}: no phase of it; there are {', '.join(p.name for p in phases)}")
        phases = tuple(phase for phase in phases if phase.name in options.only)
    OUT.mkdir(parents=True, exist_ok=True)
    seen = [run(phase, options.pytest.split()) for phase in phases]
    for took_s, name in dearest(phases):
        print(f"{took_s:8.2f} s  {name}")
    print(table(seen))
    (OUT / "phases.json").write_text(json.dumps([each._asdict() for each in seen], indent=2) + "\n", encoding="utf-8")
    bad = {FAILED} if options.slow_is_ok else {FAILED, TOO_SLOW}
    return int(any(each.outcome in bad for each in seen))


if __name__ == "__main__":
    sys.exit(main())

"""Counts the system calls of a message in a running pair, and compares them with bench/results/guard_calls.json.

Instructions do not show a hand-over to a thread, a wake-up of a loop or a turn of it; system calls do. A pair and a
client of their own processes, under three loads in turns; what they do when idle is taken off; medians of the turns.

    wake-ups   write: into the socket pair by which a thread wakes the loop
    turns      epoll_pwait: of a loop, and of gRPC's own pollers
    futexes    who waits for whom: for the interpreter's lock, too

Figures that repeat within a tenth are judged (JUDGED); the others are shown and not judged.

Exit codes: 0 nothing became more than 10 % worse, 1 something did, 2 usage, 3 it could not be compared (another Python
or library than the baseline's, or others used the machine), 4 the kernel counts nothing for us (not root, no tracefs).

Example: python -m bench.guard.calls; after a change that is meant to cost more: python -m bench.guard.calls --write
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.guard.compare import NOT_COMPARED, Verdict, compared, table
from bench.guard.counters import ALL, CannotCountError, Counters, counting, tracepoint
from bench.levers.pairs import Running
from bench.levers.table import ADDED, Lever, Workload
from bench.peers.figures import NOISY_CORES
from bench.peers.place import BenchError, Place, Strangers, stoppable

BASELINE = Path(__file__).resolve().parents[2] / "bench/results/guard_calls.json"
REQUIRED = "TANDEMQ_GUARD_CALLS_REQUIRED"
LIBRARIES = ("grpcio", "lmdb", "protobuf", "uvloop")
NOT_COUNTED = 4
"""Exit code: see above."""

TOGETHER = 100
LOADS = (
    Workload("one in flight"),
    Workload("50 producers", producers=50, callers=50),
    Workload("frames of 100", together=TOGETHER),
)
CALLS: Mapping[str, str] = {
    "all": ALL,
    "wake-ups": "write",
    "turns": "epoll_pwait",
    "futexes": "futex",
    "reads": "read",
    "sends": "sendmsg",
    "receives": "recvmsg",
    "syncs": "fdatasync",
    "getpid": "getpid",
}
ROLES = ("master", "replica", "client")
TURNS, TURN_S, IDLE_S, WARM_S = 5, 0.6, 0.5, 0.2
UNIT = "calls of 100 messages or frames"


def _judged() -> frozenset[str]:
    """Of which five runs, at a load of 8 to 11 on two cores, differed by less than a tenth.

    Not futexes: 8 to 82 %, as it is chance who meets whom at the interpreter's lock. Not the replica under 50
    producers: 17 to 24 %, as its calls are those of a group commit, and how many share one depends on the disk; nor
    wake-ups there, 7 and 19 %, as one answers several events where the machine is busy, and all calls have futexes and
    wake-ups in them. Not sends and receives there, nor all calls of the client with frames: they repeat, but a quiet
    machine has 8 to 10 % less of them. Not the turns of a member with one in flight: 10 %, as a turn that finds nothing
    depends on how long a sync takes; the turns of a frame, by the same path, are judged.
    """
    ways = {
        "one in flight": {"master": ("all", "wake-ups"), "replica": ("all", "wake-ups"), "client": ("all", "turns")},
        "50 producers": dict.fromkeys(("master", "client"), ("turns",)),
        "frames of 100": {
            **dict.fromkeys(("master", "replica"), ("all", "wake-ups", "turns")),
            "client": ("wake-ups", "turns"),
        },
    }
    return frozenset(
        f"{load}, {role}: {call}" for load, roles in ways.items() for role, calls in roles.items() for call in calls
    )


JUDGED = _judged()


def about() -> dict[str, str]:
    """What decides how many calls the same sources make."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        **{name: importlib.metadata.version(name) for name in LIBRARIES},
    }


def measured_alone(plant: Sequence[str] = ()) -> dict[str, int]:
    """As `measured`. Raises BenchError where others used the machine meanwhile: beside eight busy processes on two
    cores a message has up to 30 % more turns, and some calls fewer.
    """
    strangers = Strangers()
    found = measured(plant)
    if (cores := strangers.cores()) > NOISY_CORES:
        raise BenchError(f"others used {cores:.2f} cores, and calls differ then; repeat it when the machine is quiet")
    return found


def measured(plant: Sequence[str] = ()) -> dict[str, int]:
    """System calls of a hundred messages, or frames, by load, role and kind. Raises CannotCountError, BenchError."""
    tracepoint(ALL)
    lever = Lever("guard", off=("patient-commits", *plant))
    options = argparse.Namespace(size=1024, warm_s=0.0, seconds=TURN_S)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tandemq-calls-") as folder, ExitStack() as stack:
        place = stack.enter_context(Place(Path(folder) / "place"))
        running = Running(place, lever, 0, options)
        stack.callback(running.stop)
        running.start()
        for load in LOADS:
            running.turn(load, WARM_S)
        opened = stack.enter_context(counting((running.pids[role] for role in ROLES), CALLS.values()))
        for _ in range(TURNS):
            _take(running, dict(zip(ROLES, opened, strict=True)), found)
        running.check()
    return {name: round(100 * statistics.median(values)) for name, values in found.items()}


def _take(running: Running, counters: Mapping[str, Counters], found: dict[str, list[float]]) -> None:
    """One turn: idle, then each load."""

    def now() -> tuple[float, dict[tuple[str, str], int]]:
        return time.perf_counter(), {
            (role, call): count for role, each in counters.items() for call, count in each.read().items()
        }

    began, before = now()
    time.sleep(IDLE_S)
    ended, after = now()
    idle = {each: (after[each] - before[each]) / (ended - began) for each in after}
    for load in LOADS:
        began, before = now()
        answer = running.turn(load, TURN_S)
        ended, after = now()
        if answer["broke"]:
            raise BenchError(f"{load.name}: {'; '.join(answer['broke'])}")
        count = answer["sent"] / load.together
        for role in ROLES:
            for name, call in CALLS.items():
                calls = after[role, call] - before[role, call] - idle[role, call] * (ended - began)
                found.setdefault(f"{load.name}, {role}: {name}", []).append(calls / count)


def _shown(figures: Mapping[str, int]) -> str:
    """What is not judged: a row a load and role."""
    rows = []
    for start in dict.fromkeys(name.partition(": ")[0] for name in figures):
        rest = (name for name in figures if name.startswith(f"{start}: ") and name not in JUDGED)
        rows.append(f"{start:24} " + ", ".join(f"{name.partition(': ')[2]} {figures[name]:,}" for name in rest))
    return "\n".join(["not judged, as they do not repeat within 10 % or are part of the others:", *rows])


def _compare(options: argparse.Namespace, figures: dict[str, int]) -> int:
    judged = {name: count for name, count in figures.items() if name in JUDGED}
    surroundings = about()
    baseline: dict[str, Any] = {"about": surroundings, "figures": judged}
    if BASELINE.exists():
        baseline = json.loads(BASELINE.read_text())
    comparison = compared(baseline, surroundings, judged)
    print(table(comparison.lines, UNIT))
    print(_shown(figures))
    for each in comparison.stale:
        print(f"guard: STALE BASELINE, not compared: {each}")
    if options.write:
        rest = {name: count for name, count in figures.items() if name not in JUDGED}
        document = {"unit": UNIT, "about": surroundings, "figures": judged, "not judged": rest}
        BASELINE.write_text(json.dumps(document, indent=1) + "\n")
        print(f"guard: {BASELINE.name} is new; say in the commit why")
        return 0
    for line in comparison.lines:
        if line.verdict not in {Verdict.SAME, Verdict.BETTER}:
            print(f"guard: {line.verdict.value}: {line.name}")
    code = comparison.exit_code
    print(f"guard: {'if it is meant: make guard-baseline' if code else 'no system call became more than 10 % more'}")
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make what is counted now the baseline")
    parser.add_argument(
        "--optional", action="store_true", help=f"exit with 0 instead of 3 or 4, unless {REQUIRED}=1 is there"
    )
    parser.add_argument("--plant", choices=ADDED, action="append", default=[], help="see that it is found")
    options = parser.parse_args()
    try:
        with stoppable("guard"):
            code = _compare(options, measured_alone(options.plant))
    except CannotCountError as error:
        code = NOT_COUNTED
        print(f"guard: NOT COUNTED: {error}")
    except BenchError as error:
        code = NOT_COMPARED
        print(f"guard: NOT COMPARED: {error}")
    if code in {NOT_COMPARED, NOT_COUNTED} and options.optional and os.environ.get(REQUIRED) != "1":
        print(f"guard: no system calls compared, which is no failure here ({REQUIRED}=1 makes it one)", file=sys.stderr)
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())

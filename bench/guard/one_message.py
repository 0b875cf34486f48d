"""Counts what one message in flight costs each process, and writes docs/ONE_MESSAGE.md: ours, ours as it was before
small and short commits had a way of their own (docs/decisions/0053-short-commits.md), and the floor, all alive at once
and in turns. Needs root (`bench.guard.counters`), and says so.

Example: python -m bench.guard.one_message --runs 9
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.growth.meter import cpu_us
from bench.guard.counters import CannotCountError, counting
from bench.guard.one_page import BEFORE, CALLS, CPU, FLOOR, KINDS, NOW, P50, ROLES, SIDES, SWITCHES, Figures, markdown
from bench.levers.pairs import Running, Switches
from bench.levers.table import Lever, Workload
from bench.machine import facts
from bench.peers.place import KILLED_WITH_US, BenchError, Place, stoppable
from bench.run import ENVIRONMENT, HERE, ROOT, Floor
from bench.tables import placed

RESULT, PAGE = ROOT / "bench/results/one_message.json", ROOT / "docs/ONE_MESSAGE.md"
ALONE = Workload("one in flight")
NOT_COUNTED = 4

Turn = Callable[[float], Mapping[str, Any]]


def _pair(stack: ExitStack, place: Place, off: tuple[str, ...], index: int) -> tuple[dict[str, int], Turn]:
    options = argparse.Namespace(size=1024, warm_s=0.0, seconds=1.0)
    running = Running(place, Lever("one message", off=off), index, options)
    stack.callback(running.stop)
    running.start()
    return running.pids, lambda seconds: running.turn(ALONE, seconds)


def _floor(stack: ExitStack, folder: Path) -> tuple[dict[str, int], Turn]:
    floor = Floor(folder)
    stack.callback(floor.stop)
    floor.start()
    load = subprocess.Popen(
        [*KILLED_WITH_US, sys.executable, str(HERE / "floor/turns.py"), str(floor.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    stack.callback(load.wait)
    stack.callback(load.kill)

    def turn(seconds: float) -> Mapping[str, Any]:
        assert load.stdin
        assert load.stdout
        load.stdin.write(f"{seconds}\n")
        load.stdin.flush()
        line = load.stdout.readline()
        if not line:
            raise BenchError("the load of the floor failed")
        found: dict[str, Any] = json.loads(line)
        return found

    return {**floor.pids, "client": load.pid}, turn


def measured(runs: int, seconds: float) -> dict[str, dict[str, Figures]]:
    """By side and role, the kinds for one message, medians of the turns; role `all` has p50_ms too."""
    found: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tandemq-one-") as name, ExitStack() as stack:
        place = stack.enter_context(Place(Path(name) / "place"))
        sides = {
            FLOOR: _floor(stack, Path(name) / "floor"),
            BEFORE: _pair(stack, place, ("small-batches", "short-commits"), 0),
            NOW: _pair(stack, place, (), 1),
        }
        for _, turn in sides.values():
            turn(seconds)
        for run in range(runs):
            for side in (SIDES, tuple(reversed(SIDES)))[run % 2]:
                pids, turn = sides[side]
                for key, value in _taken(pids, turn, seconds).items():
                    found.setdefault((side, *key), []).append(value)
    document: dict[str, dict[str, Figures]] = {side: {} for side in SIDES}
    for (side, role, kind), values in found.items():
        document[side].setdefault(role, {})[kind] = round(statistics.median(values), 4)
    return document


def _taken(pids: Mapping[str, int], turn: Turn, seconds: float) -> dict[tuple[str, str], float]:
    """One turn, what the same processes do when idle taken off."""
    switched = {role: Switches(pids[role]) for role in ROLES}
    with counting((pids[role] for role in ROLES), CALLS.values()) as counters:

        def now() -> tuple[float, dict[tuple[str, str], float]]:
            read: dict[tuple[str, str], float] = {}
            for role, each in zip(ROLES, counters, strict=True):
                calls = each.read()
                read |= {(role, kind): float(calls[call]) for kind, call in CALLS.items()}
                read[role, SWITCHES], read[role, CPU] = float(switched[role].read()), cpu_us(pids[role])
            return time.perf_counter(), read

        began, first = now()
        time.sleep(seconds / 2)
        rested, idle = now()
        answer = turn(seconds)
        ended, last = now()
    share = (ended - rested) / (rested - began)
    result = {key: (last[key] - idle[key] - (idle[key] - first[key]) * share) / max(1, answer["sent"]) for key in last}
    for kind in KINDS:
        result["all", kind] = sum(result[role, kind] for role in ROLES)
    result["all", P50] = 1e3 * float(answer["p50_ms"])
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9, help="turns of each; default: 9")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn; default: 1")
    options = parser.parse_args()
    try:
        with stoppable("one-message"):
            figures = measured(options.runs, options.seconds)
    except CannotCountError as error:
        print(f"one-message: NOT COUNTED: {error}", file=sys.stderr)
        return NOT_COUNTED
    document = {
        "about": facts(),
        "runs": options.runs,
        "seconds": options.seconds,
        "load": f"{os.getloadavg()[0]:.1f}",
        "figures": figures,
    }
    RESULT.write_text(json.dumps(document, indent=1) + "\n")
    PAGE.write_text(placed(PAGE.read_text(), markdown(document), "one message", by="one-message"))
    print(markdown(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())

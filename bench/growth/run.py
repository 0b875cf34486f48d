"""Measures how the cost of a message grows: `python -m bench.growth.run --only depth`.

With depth, queues, producers, payload, and at the replica; then open loops at fixed rates, and with a kill or a handoff
in the middle. Each point of a curve has a pair of its own and takes turns with the others. Prints a line a point;
writes JSON lines with machine, versions, settings, runs, spread and commit, and last how many. Exit code 1 when
something was refused.

Example: python -m bench.growth.run --only depth --turns 3
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.growth.faults import FAULTS, KILL, LABELS, NONE, disturbed, not_as_told, whole_again
from bench.growth.figures import of_runs
from bench.growth.plan import FAULT_RATE, OPEN_RATES, Curve, curves, shrunk
from bench.growth.points import Running
from bench.growth.report import ended
from bench.machine import facts
from bench.peers.adapters.tandemq import Tandemq
from bench.peers.calm import AGAIN_MAX, calm
from bench.peers.figures import PERCENTILES, remarks
from bench.peers.place import KEPT, BenchError, Place, stoppable, strangers_us
from bench.peers.run import Measurement

Line = dict[str, Any]
WARM_TURNS = 1


def curve_lines(place: Place, curve: Curve, options: argparse.Namespace) -> Iterator[Line]:
    """Every point of a curve, measured in turns; who is first changes."""
    with ExitStack() as stack:
        running: list[Running] = []
        for number in range(len(curve.points)):
            point = Running(place, curve, number, options)
            stack.callback(point.stop)
            point.start()
            running.append(point)
            say(f"{curve.name}: {point.point.label} is filled")
        for turn in range(-WARM_TURNS, options.turns):
            first = turn % len(running)
            in_turns([*running[first:], *running[:first]], options.again_max, kept=turn >= 0)
        for point in running:
            point.drain()
        for point in running:
            yield point.line(running[0])


def in_turns(
    points: Sequence[Running], again_max: int, *, kept: bool, pause: Callable[[float], None] = time.sleep
) -> None:
    """A turn of each point. When others used the machine in one, all are set aside and taken anew: so each point has
    had the same traffic, and the checkpoints that a turn caused are its own or aside with it."""
    turns = calm(lambda: [point.turn() for point in points], again_max if kept else 0, pause)
    for point, turn in zip(points, turns, strict=True):
        if kept:
            point.turns.append(turn)


def open_lines(place: Place, options: argparse.Namespace, rates: list[float]) -> Iterator[Line]:
    """Open loops at one pair, a consumer beside each; the rates take turns."""
    peer = Tandemq(place)
    with ExitStack() as stack:
        stack.callback(peer.stop)
        peer.start()
        found: dict[float, list[Line]] = {rate: [] for rate in rates}
        for run in range(options.runs):
            measurement = Measurement(place, peer, options, run)
            measurement.check()
            for rate in (*rates[run % len(rates) :], *rates[: run % len(rates)]):
                found[rate] += calm(
                    lambda measurement=measurement, rate=rate: [measurement.open_loop(rate)], options.again_max
                )
    for rate, runs in found.items():
        yield of_runs({"kind": "open", "label": f"{rate:,.0f}/s", "x": rate}, runs, found[rates[0]])


def fault_lines(place: Place, options: argparse.Namespace) -> Iterator[Line]:
    """The same open loop undisturbed, with its master killed in the middle, and with a handoff there."""
    found: dict[str, list[Line]] = {fault: [] for fault in FAULTS}
    rate, middle_s = min(FAULT_RATE, options.rate_max), options.warm_s + options.seconds / 2
    peer = Tandemq(place)
    with ExitStack() as stack:
        stack.callback(peer.stop)
        peer.start()
        for run in range(options.runs):
            measurement = Measurement(place, peer, options, run)
            measurement.check()
            for fault in (*FAULTS[run % len(FAULTS) :], *FAULTS[: run % len(FAULTS)]):
                found[fault] += calm(
                    lambda measurement=measurement, fault=fault: [hurt(peer, measurement, fault, rate, middle_s)],
                    options.again_max,
                )
    for fault, runs in found.items():
        yield of_runs({"kind": "fault", "label": LABELS[fault], "x": FAULTS.index(fault)}, runs, found[NONE])


def hurt(peer: Tandemq, measurement: Measurement, fault: str, rate: float, middle_s: float) -> Line:
    """An open loop with a fault in its middle; the pair is whole again afterwards."""
    before = peer.master()
    target = {**peer.target(), "copies": 1 if fault == KILL else 2, "hurt": fault != NONE}
    meanwhile = disturbed(peer, fault, before, middle_s)
    strangers, began = strangers_us(), time.perf_counter()
    line = measurement.open_loop(rate, meanwhile, target=target)
    foreign = (strangers_us() - strangers) / (time.perf_counter() - began) / 1e6
    line["refused"] += not_as_told(fault, before, peer.master())
    if fault == KILL:  # what its processes used went with one of them: to the load that looks like a stranger's
        line |= {"foreign_cores": round(max(0.0, foreign), 3), "cpu_us": {}}
        line["remarks"] = remarks(line)
    whole_again(peer, fault, before)
    return line


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tell(line: Line) -> None:
    if line["kind"] == "point":
        us, ratio = line["us"], line["ratio"]
        figures = ", ".join(f"{role} {us[role]['mean']:.2f}" for role in ("master", "replica", "client", "wall"))
        text = f"{line['curve']:<12} {line['label']:>12}: {figures} us; servers {ratio['servers']['mean']:.2f}x the 1st"
    else:
        times = line["times"]
        figures = ", ".join(f"{name} {times[name]['median']:,.2f}" for name in PERCENTILES) if times else "no figure"
        text = f"{line['kind']:<12} {line['label']:>22}: {figures}"
    say(
        text
        + "".join(f"; REFUSED: {why}" for why in line["refused"])
        + "".join(f"; {what}" for what in line["remarks"])
    )


def parts(options: argparse.Namespace) -> dict[str, Callable[[Place], Iterator[Line]]]:
    """What can be measured, by name."""
    rates = [rate for rate in OPEN_RATES if rate <= options.rate_max] or [options.rate_max]
    planned = [shrunk(curve, options.share) if options.share < 1 else curve for curve in curves(deep=options.deep)]
    return {
        **{curve.name: lambda place, curve=curve: curve_lines(place, curve, options) for curve in planned},
        "open": lambda place: open_lines(place, options, rates),
        "faults": lambda place: fault_lines(place, options),
    }


def measure(place: Place, options: argparse.Namespace, write: Callable[[Line], None]) -> bool:
    """Whether every part was measured."""
    whole = True
    for name, part in parts(options).items():
        if options.only and name not in options.only:
            continue
        began = time.monotonic()
        try:
            for line in part(place):
                write(line)
                tell(line)
        except (BenchError, OSError) as failure:
            whole = False
            write({"kind": "failed", "curve": name, "label": name, "why": str(failure), "refused": [str(failure)]})
            say(f"{name}: FAILED: {failure}")
        say(f"{name} took {time.monotonic() - began:.0f} s")
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="some parts, by name: depth,queues; a wrong one is told the others")
    parser.add_argument("--deep", action="store_true", help="ten million messages of 100 B too")
    parser.add_argument("--turns", type=int, default=7, help="of each point of a curve; default: 7")
    parser.add_argument("--runs", type=int, default=3, help="of each open loop; default: 3")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each open loop; default: 4")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of all numbers of messages: 0.001 to see that it runs"
    )
    parser.add_argument("--rate-max", type=float, default=1e9, help="leave out open loops that are faster")
    parser.add_argument("--folder", type=Path, default=KEPT / "growth-run", help="where everything is while it runs")
    parser.add_argument("--out", type=Path, default=KEPT / "growth.json", help="default: build/bench/growth.json")
    options = parser.parse_args()
    options.only = options.only.split(",") if options.only else []
    options.warm_s, options.size, options.rates = min(1.0, options.seconds / 4), 1024, []
    options.again_max = AGAIN_MAX
    if unknown := set(options.only) - set(parts(options)):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(parts(options))}")
    if min(options.turns, options.runs) < 1 or not 0 < options.share <= 1 or options.seconds <= 0:
        parser.error("--turns and --runs are at least 1, --seconds above 0, --share above 0 and at most 1")
    about = {"time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), "share": options.share, **facts()}
    refused: list[str] = []
    written = 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with stoppable("growth"), options.out.open("w", encoding="utf-8") as file:

        def write(line: Line) -> None:
            nonlocal written
            refused.extend(line["refused"] or line.get("runs_refused", []))
            file.write(json.dumps({**line, **about}) + "\n")
            file.flush()
            written += 1

        try:
            with Place(options.folder) as place:
                if lacking := Tandemq(place).missing():
                    raise BenchError(f"not installed, run `make bench-deps`: {', '.join(lacking)}")
                whole = measure(place, options, write)
        except BenchError as failure:
            raise SystemExit(f"growth: {failure}") from None
        file.write(json.dumps(ended(written)) + "\n")
    say(f"kept in {options.out}")
    if refused or not whole:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

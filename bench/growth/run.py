"""Measures how the cost of a message grows: `python -m bench.growth.run --only depth`.

With depth, queues, producers, payload, and at the replica; then open loops at fixed rates, and with a kill or a handoff
in the middle. Each point of a curve has a pair of its own and takes turns with the others. Prints a line a point;
writes a document with machine, versions, settings, runs and commit after each part. Exit code 1 when something was
refused.

Example: python -m bench.growth.run --only depth --turns 3
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.document import Document, Figures, begun
from bench.growth.faults import FAULTS, KILL, LABELS, NONE, disturbed, not_as_told, whole_again
from bench.growth.plan import FAULT_RATE, OPEN_RATES, Curve, curves, shrunk
from bench.growth.points import Running
from bench.growth.report import COSTS, FAULT, OPEN, ROLES, cost
from bench.peers.adapters.tandemq import Tandemq
from bench.peers.calm import AGAIN_MAX, calm
from bench.peers.figures import PERCENTILES, refusals, remarks
from bench.peers.place import KEPT, BenchError, Place, Strangers, stoppable
from bench.peers.run import Measurement

Line = dict[str, Any]
WARM_TURNS = 1


def measure_curve(place: Place, curve: Curve, options: argparse.Namespace, document: Document) -> None:
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
            point.add_to(document)


def in_turns(
    points: Sequence[Running], again_max: int, *, kept: bool, pause: Callable[[float], None] = time.sleep
) -> None:
    """A turn of each point. When others used the machine in one, all are set aside and taken anew: so each point has
    had the same traffic, and the checkpoints that a turn caused are its own or aside with it."""
    turns = calm(lambda: [point.turn() for point in points], again_max if kept else 0, pause)
    for point, turn in zip(points, turns, strict=True):
        if kept:
            point.turns.append(turn)


def measure_loops(place: Place, options: argparse.Namespace, document: Document, rates: list[float]) -> None:
    """Open loops at one pair, a consumer beside each; the rates take turns."""
    peer = Tandemq(place)
    with ExitStack() as stack:
        stack.callback(peer.stop)
        peer.start()
        for run in range(options.runs):
            measurement = Measurement(place, peer, options, run)
            measurement.check()
            for rate in (*rates[run % len(rates) :], *rates[: run % len(rates)]):
                (line,) = calm(
                    lambda measurement=measurement, rate=rate: [measurement.open_loop(rate)], options.again_max
                )
                document.add((OPEN, f"{rate:,.0f}/s"), line)


def measure_faults(place: Place, options: argparse.Namespace, document: Document) -> None:
    """The same open loop undisturbed, with its master killed in the middle, and with a handoff there."""
    rate, middle_s = min(FAULT_RATE, options.rate_max), options.warm_s + options.seconds / 2
    peer = Tandemq(place)
    with ExitStack() as stack:
        stack.callback(peer.stop)
        peer.start()
        for run in range(options.runs):
            measurement = Measurement(place, peer, options, run)
            measurement.check()
            for fault in (*FAULTS[run % len(FAULTS) :], *FAULTS[: run % len(FAULTS)]):
                (line,) = calm(
                    lambda measurement=measurement, fault=fault: [hurt(peer, measurement, fault, rate, middle_s)],
                    options.again_max,
                )
                document.add((FAULT, LABELS[fault]), line)


def hurt(peer: Tandemq, measurement: Measurement, fault: str, rate: float, middle_s: float) -> Line:
    """An open loop with a fault in its middle; the pair is whole again afterwards."""
    before = peer.master()
    target = {**peer.target(), "copies": 1 if fault == KILL else 2, "hurt": fault != NONE}
    meanwhile = disturbed(peer, fault, before, middle_s)
    strangers = Strangers()
    line = measurement.open_loop(rate, meanwhile, target=target)
    foreign = strangers.cores()
    line["broke"] = not_as_told(fault, before, peer.master())
    if fault == KILL:  # what its processes used went with one of them: to the load that looks like a stranger's
        line |= {"foreign_cores": foreign, "cpu_us": {}}
    whole_again(peer, fault, before)
    return {**line, "refused": refusals(line), "remarks": remarks(line)}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tell(found: Figures, first: Figures) -> None:
    if not found.good:
        text = "no figure"
    elif found.of[0] in (OPEN, FAULT):
        times = {name: found.spread(name) for name in PERCENTILES}
        text = ", ".join(f"{name} {each.median:,.2f}" for name, each in times.items() if each)
    else:
        ratio = found.ratio(first, *COSTS["servers"])
        text = ", ".join(f"{role} {cost(found, role).mean:.2f}" for role in (*ROLES, "wall"))
        text += f" us; servers {ratio.median:.2f}x the 1st" if ratio else " us"
    say("".join([f"{found.of[0]:<12} {found.of[1]:>22}: {text}", *(f"; {what}" for what in found.said)]))


def parts(options: argparse.Namespace) -> dict[str, Callable[[Place, Document], None]]:
    """What can be measured, by name."""
    rates = [rate for rate in OPEN_RATES if rate <= options.rate_max] or [options.rate_max]
    planned = [shrunk(curve, options.share) if options.share < 1 else curve for curve in curves(deep=options.deep)]
    return {
        **{
            curve.name: lambda place, document, curve=curve: measure_curve(place, curve, options, document)
            for curve in planned
        },
        "open": lambda place, document: measure_loops(place, options, document, rates),
        "faults": lambda place, document: measure_faults(place, options, document),
    }


def measure(place: Place, options: argparse.Namespace, document: Document) -> None:
    """Every part; what failed is said in the document."""
    for name, part in parts(options).items():
        if options.only and name not in options.only:
            continue
        began, before = time.monotonic(), len(document.results)
        try:
            part(place, document)
        except (BenchError, OSError) as failure:
            document.failed.append({"of": [name], "run": 0, "why": str(failure)})
            say(f"{name}: FAILED: {failure}")
        found = list(document.figures().values())[before:]
        for each in found:
            tell(each, found[0])
        document.write(options.out)
        say(f"{name} took {time.monotonic() - began:.0f} s")


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
    document = begun("growth", {key: getattr(options, key) for key in ("turns", "runs", "seconds", "share")})
    try:
        with stoppable("growth"), Place(options.folder) as place:
            if lacking := Tandemq(place).missing():
                raise BenchError(f"not installed, run `make bench-deps`: {', '.join(lacking)}")
            measure(place, options, document)
    except BenchError as failure:
        raise SystemExit(f"growth: {failure}") from None
    document.end()
    document.write(options.out)
    say(f"kept in {options.out}")
    if document.failed or any(found.refused for found in document.figures().values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

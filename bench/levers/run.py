"""Measures what each lever is worth, on and off in turns: `python -m bench.levers.run`.

A pair for each variant, all alive at once; they take turns of a second or two under each load, and who is first
changes. Prints a line a turn and a table at the end; writes a document with machine, versions, turns and commit. Exit
code 1 when something was refused or failed.

Example: python -m bench.levers.run --runs 3 --only '1,000/s'
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from bench.document import Document, begun
from bench.levers.pairs import Running
from bench.levers.report import rows
from bench.levers.table import LEVERS, WORKLOADS, Workload
from bench.peers.place import KEPT, BenchError, Place, stoppable
from bench.tables import aligned

WARM = -1
"""The round whose turns are not kept."""


def measure(place: Place, options: argparse.Namespace, document: Document) -> None:
    """All pairs, then rounds: in each, every load, and under it every pair."""
    with ExitStack() as stack:
        running: list[Running] = []
        for number, lever in enumerate(LEVERS):
            one = Running(place, lever, number, options)
            stack.callback(one.stop)
            one.start()
            running.append(one)
            say(f"{lever.name}: is there, and syncs on both")
        for turn in range(WARM, options.runs):
            first = turn % len(running)
            for work in options.works:
                for one in (*running[first:], *running[:first]):
                    taken(one, work, turn, options, document)
        for one in running:
            one.check()


def taken(one: Running, work: Workload, turn: int, options: argparse.Namespace, document: Document) -> None:
    """A turn of one pair."""
    line = one.turn(work, options.seconds)
    if turn == WARM:
        return
    document.add((work.name, one.lever.name), {"run": turn, **line})
    all_us = sum(line["us"].values())
    said = "".join(f"; REFUSED: {why}" for why in line["refused"])
    say(
        f"{turn + 1}/{options.runs}  {work.name:<16} {one.lever.name:<32} p50 {line['p50_ms']:>7.2f} ms  "
        f"{all_us:>6,.0f} us  {line['per_frame']:>6.1f} a frame{said}"
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="turns of each pair under each load; default: 5")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each turn; default: 1.5")
    parser.add_argument("--only", help=f"one load of {', '.join(repr(work.name) for work in WORKLOADS)}")
    parser.add_argument("--folder", type=Path, default=KEPT / "levers-run", help="where everything is while it runs")
    parser.add_argument("--out", type=Path, default=KEPT / "levers.json", help="default: build/bench/levers.json")
    options = parser.parse_args()
    options.works = [work for work in WORKLOADS if options.only in (None, work.name)]
    if not options.works:
        parser.error(f"--only {options.only}: there are {', '.join(repr(work.name) for work in WORKLOADS)}")
    if options.runs < 1 or not 0.1 <= options.seconds <= 60:
        parser.error("--runs is at least 1, --seconds 0.1 to 60")
    options.size, options.warm_s = 1024, 0.0
    began = time.monotonic()
    document = begun("levers", {"runs": options.runs, "seconds": options.seconds})
    try:
        with stoppable("levers"), Place(options.folder) as place:
            measure(place, options, document)
    except BenchError as failure:
        document.failed.append({"of": ["levers"], "run": 0, "why": str(failure)})
        say(f"levers: FAILED: {failure}")
    else:
        document.end()
    if document.results:
        document.write(options.out)
        print(aligned(rows(document)))
        say(f"kept in {options.out}, after {time.monotonic() - began:.0f} s")
    if document.failed or any(found.refused for found in document.figures().values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

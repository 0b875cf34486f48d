"""Measures queues with PRODUCER replication, and twins: `python -m bench.twins.run`, which is `make bench-twin`.

One pair; each key of the document is turns of two things, one right after the other, or of one that has a bound of its
own. Ratios of processor time and of instructions say the same on a machine that others use; times and rates are marked
by how much of it others used.

Exit code 1 when something failed. A bound that is missed is said, and fails nothing.

Example: python -m bench.twins.run --only takeover_ms,replay_per_s
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from bench.loops import loop_factory
from bench.machine import facts
from bench.peers.place import KEPT, BenchError, Place, Strangers, stoppable
from bench.tables import aligned
from bench.turns.figures import Figure, Missing, Single, row
from bench.turns.unused import unused
from bench.twins.measures import QUICK, Size, World, enqueue, lockstep, replay_per_s, takeover_ms
from chaos.cluster import Cluster
from tandemq import aio

KEYS = ("enqueue", "lockstep", "priority", "unused", "takeover_ms", "replay_per_s")
NO_SELECTION = "not measured yet: delivery by lockstep SELECTED beside PLAIN"
MEASURES: dict[str, Callable[[World], Awaitable[Figure | Single]]] = {
    "enqueue": enqueue,
    "lockstep": lockstep,
    "takeover_ms": takeover_ms,
    "replay_per_s": replay_per_s,
}


async def measured(options: argparse.Namespace, place: Place, found: dict[str, Figure | Single | Missing]) -> None:
    """All that was asked for, into `found`, one key after the other."""
    folder = place.role("twins")
    cluster = Cluster(folder / "pair", pair="twins")
    async with cluster.running(), aio.connect(cluster.target) as client:
        world = World(cluster, client, folder, options.size)
        for key in [key for key in options.keys if key in MEASURES]:
            strangers = Strangers()
            found[key] = await MEASURES[key](world)
            say(f"{'  '.join(row(key, found[key]))}; others used {strangers.cores():.2f} cores")
            options.strangers[key] = strangers.cores()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"some of {', '.join(KEYS)}")
    parser.add_argument("--turns", type=int, help="of each key; default: 9")
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--folder", type=Path, default=KEPT / "twin-run", help="where everything is while it runs")
    parser.add_argument("--out", type=Path, default=KEPT / "twin.json", help="default: build/bench/twin.json")
    options = parser.parse_args()
    options.keys = options.only.split(",") if options.only else list(KEYS)
    if unknown := [key for key in options.keys if key not in KEYS]:
        parser.error(f"--only {', '.join(unknown)}: there are {', '.join(KEYS)}")
    if options.turns is not None and not 1 <= options.turns <= 100:
        parser.error("--turns is 1 to 100")
    size = QUICK if options.quick else Size()
    options.size = size if options.turns is None else replace(size, turns=options.turns)
    options.strangers = {}
    found: dict[str, Figure | Single | Missing] = {key: Missing("not measured") for key in KEYS}
    found["priority"] = Missing(NO_SELECTION)
    began, failed = time.monotonic(), ""
    try:
        with stoppable("bench-twin"), Place(options.folder) as place:
            if "unused" in options.keys:
                found["unused"] = unused(quick=options.quick)
                say("  ".join(row("unused", found["unused"])))
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(measured(options, place, found))
    except (BenchError, RuntimeError, TimeoutError) as failure:
        failed = f"{type(failure).__name__}: {failure}"
        say(f"bench-twin: FAILED: {failed}")
    others = {key: {"others_cores": cores} for key, cores in options.strangers.items()}
    document = {
        **{key: found[key].document() | others.get(key, {}) for key in KEYS},
        "about": facts(),
        "quick": options.quick,
        "failed": failed,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(aligned([["key", "value", "spread", "n", "asked for", "what"], *(row(key, found[key]) for key in KEYS)]))
    say(f"kept in {options.out}, after {time.monotonic() - began:.0f} s")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

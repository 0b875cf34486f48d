"""Measures macro queues: `python -m bench.macros.run`, which is `make bench-macro`.

One pair; each key of the document is turns of two things, one right after the other. Ratios of processor time and of
instructions say the same on a machine that others use.

Exit code 1 when something failed. A bound that is missed is said, and fails nothing.

Example: python -m bench.macros.run --only local8
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from bench.loops import loop_factory
from bench.machine import facts
from bench.macros.measures import QUICK, Size, World, measured
from bench.peers.place import KEPT, BenchError, Place, Strangers, stoppable
from bench.tables import aligned
from bench.turns.figures import Figure, Missing, Single, row
from bench.turns.unused import unused
from chaos.cluster import Cluster
from tandemq import aio

KEYS = ("plain", "local8", "local1000", "unused", "remote", "beside_hung")
AFAR = Missing("not measured yet: members at other managers")


async def at_a_pair(options: argparse.Namespace, place: Place) -> dict[str, Figure | Single]:
    """All that needs one, and how much of the machine others used."""
    cluster = Cluster(place.role("macros") / "pair", pair="macros")
    strangers = Strangers()
    async with cluster.running(), aio.connect(cluster.target) as client:
        found = await measured(World(cluster, client, options.size), tuple(options.keys))
    options.others_cores = strangers.cores()
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"some of {', '.join(KEYS)}")
    parser.add_argument("--turns", type=int, help="of each key; default: 9")
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--folder", type=Path, default=KEPT / "macro-run", help="where everything is while it runs")
    parser.add_argument("--out", type=Path, default=KEPT / "macro.json", help="default: build/bench/macro.json")
    options = parser.parse_args()
    options.keys = options.only.split(",") if options.only else list(KEYS)
    if unknown := [key for key in options.keys if key not in KEYS]:
        parser.error(f"--only {', '.join(unknown)}: there are {', '.join(KEYS)}")
    if options.turns is not None and not 1 <= options.turns <= 100:
        parser.error("--turns is 1 to 100")
    size = QUICK if options.quick else Size()
    options.size = size if options.turns is None else replace(size, turns=options.turns)
    options.others_cores = None
    found: dict[str, Figure | Single | Missing] = {key: Missing("not measured") for key in KEYS}
    found |= dict.fromkeys(("remote", "beside_hung"), AFAR)
    began, failed = time.monotonic(), ""
    try:
        with stoppable("bench-macro"), Place(options.folder) as place:
            if "unused" in options.keys:
                found["unused"] = unused(quick=options.quick)
                say("  ".join(row("unused", found["unused"])))
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                found |= runner.run(at_a_pair(options, place))
    except (BenchError, RuntimeError, TimeoutError) as failure:
        failed = f"{type(failure).__name__}: {failure}"
        say(f"bench-macro: FAILED: {failed}")
    document = {
        **{key: found[key].document() for key in KEYS},
        "about": facts(),
        "others_cores": options.others_cores,
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

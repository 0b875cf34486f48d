"""Measures units of work, reactions and links: `python -m bench.units.run`, which is `make bench-units`.

Two pairs and PostgreSQL with a synchronous standby are there at once; each key of the document is turns of two things,
one right after the other. Ratios of processor time and of instructions say the same on a machine that others use;
those of times and rates are marked by how much of it others used.

Exit code 1 when something failed. A bound that is missed is said, and fails nothing.

Example: python -m bench.units.run --only latency,link
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from bench.loops import loop_factory
from bench.machine import facts
from bench.peers.place import KEPT, BenchError, Place, Strangers, stoppable
from bench.tables import aligned
from bench.turns.figures import Bound, Figure, Missing, row
from bench.turns.unused import unused
from bench.units.measures import (
    QUICK,
    TARGET,
    Size,
    World,
    batch_cost,
    latency,
    link,
    react_by_id,
    sticky,
    units_a_second,
)
from bench.units.postgres import PostgresWorkers
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config_links import Links

KEYS = ("unused", "batch_cost", "latency", "against_postgres", "against_artemis", "sticky", "react_by_id", "link")
NO_TRANSACTION = (
    "Artemis takes no acknowledgement into a transaction of STOMP (its log: AMQ222070), so there is no such unit"
)
WORKERS = "units of one ack and two puts, {} workers"
MEASURES: dict[str, Callable[[World], Awaitable[Figure | Missing]]] = {
    "batch_cost": batch_cost,
    "latency": latency,
    "react_by_id": react_by_id,
    "link": link,
    "sticky": sticky,
}


async def against_postgres(world: World, place: Place) -> Figure | Missing:
    """Units a second of as many workers as PostgreSQL has connections."""
    postgres = PostgresWorkers(place, world.size)
    if lacking := postgres.missing():
        return Missing(f"not there: {', '.join(lacking)}; make bench-deps")
    postgres.start()  # its processes live as long as this thread
    try:
        ours = await units_a_second(world)

        async def theirs() -> float:
            return postgres.turn()

        what = f"{WORKERS.format(world.size.workers)} / {postgres.title}: delete 1, insert 2"
        return Figure(what, "units/s", Bound(2.0, at_least=True), await world.turns(ours, theirs))
    finally:
        postgres.stop()


async def measured(options: argparse.Namespace, place: Place, found: dict[str, Figure | Missing]) -> None:
    """All that was asked for, into `found`, one key after the other."""
    folder = place.role("pairs")
    second = Cluster(folder / TARGET, pair=TARGET)
    links = Links(managers=tuple(f"{TARGET}={endpoint}" for endpoint in second.endpoints))
    first = Cluster(folder / "east", pair="east", settings={name: {"links": links} for name in ("a", "b")})
    async with AsyncExitStack() as stack:
        for cluster in (first, second):
            await stack.enter_async_context(cluster.running())
        here = await stack.enter_async_context(aio.connect(first.target))
        there = await stack.enter_async_context(aio.connect(second.target))
        world = World(first, second, here, there, options.size)
        for key in options.keys:
            strangers = Strangers()
            if key in MEASURES:
                found[key] = await MEASURES[key](world)
            elif key == "against_postgres":
                found[key] = await against_postgres(world, place)
            else:
                continue
            say(f"{'  '.join(row(key, found[key]))}; others used {strangers.cores():.2f} cores")
            options.strangers[key] = strangers.cores()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"some of {', '.join(KEYS)}")
    parser.add_argument("--turns", type=int, help="of each key; default: 9")
    parser.add_argument(
        "--kept", type=int, help="reactions that are kept for one queue; default: 100,000, five minutes"
    )
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--folder", type=Path, default=KEPT / "units-run", help="where everything is while it runs")
    parser.add_argument("--out", type=Path, default=KEPT / "units.json", help="default: build/bench/units.json")
    options = parser.parse_args()
    options.keys = options.only.split(",") if options.only else list(KEYS)
    if unknown := [key for key in options.keys if key not in KEYS]:
        parser.error(f"--only {', '.join(unknown)}: there are {', '.join(KEYS)}")
    if options.turns is not None and not 1 <= options.turns <= 100:
        parser.error("--turns is 1 to 100")
    if options.kept is not None and not 1 <= options.kept <= 100_000:
        parser.error("--kept is 1 to 100,000, as many as a queue may have")
    size = QUICK if options.quick else Size()
    given = {name: value for name in ("turns", "kept") if (value := getattr(options, name)) is not None}
    options.size = replace(size, **given)
    options.strangers = {}
    found: dict[str, Figure | Missing] = {key: Missing("not measured") for key in KEYS}
    found["against_artemis"] = Missing(NO_TRANSACTION)
    began, failed = time.monotonic(), ""
    try:
        with stoppable("bench-units"), Place(options.folder) as place:
            if "unused" in options.keys:
                found["unused"] = unused(quick=options.quick)
                say("  ".join(row("unused", found["unused"])))
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(measured(options, place, found))
    except (BenchError, RuntimeError) as failure:
        failed = str(failure)
        say(f"bench-units: FAILED: {failed}")
    document = {
        **{key: found[key].document() | _others(options, key) for key in KEYS},
        "about": facts(),
        "quick": options.quick,
        "failed": failed,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(aligned([["key", "ratio", "spread", "n", "asked for", "what"], *(row(key, found[key]) for key in KEYS)]))
    say(f"kept in {options.out}, after {time.monotonic() - began:.0f} s")
    if failed:
        raise SystemExit(1)


def _others(options: argparse.Namespace, key: str) -> dict[str, float]:
    """Cores that others used while it was measured: times and rates were those of such a machine."""
    return {"others_cores": options.strangers[key]} if key in options.strangers else {}


if __name__ == "__main__":
    main()

"""Measures units of work, reactions and links: `python -m bench.units.run`, which is `make bench-units`.

Two pairs and PostgreSQL with a synchronous standby are there at once; each key of the document is turns of two things,
one right after the other. Ratios of processor time and of instructions say the same on a machine that others use;
those of times and rates are marked by how much of it others used.

Exit code 1 when something failed. A bound that is missed is said, and fails nothing.

Example: python -m bench.units.run --only latency,link
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from bench.peers.place import Place
from bench.turns.command import UNUSED, Bench, Run, run
from bench.turns.figures import Bound, Figure, Missing
from bench.turns.taking import in_turns
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

NO_TRANSACTION = (
    "Artemis takes no acknowledgement into a transaction of STOMP (its log: AMQ222070), so there is no such unit"
)
WITHOUT = {"against_artemis": NO_TRANSACTION}
KEYS = (UNUSED, "batch_cost", "latency", "against_postgres", *WITHOUT, "sticky", "react_by_id", "link")
AMOUNTS = {"kept": (100_000, "reactions that are kept for one queue; default: 100,000, five minutes")}
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
        return Figure(what, "units/s", Bound(2.0, at_least=True), await in_turns(ours, theirs, world.size.turns))
    finally:
        postgres.stop()


async def measured(asked: Run[Size]) -> None:
    """Takes every key that needs a pair."""
    folder = asked.place.role("pairs")
    second = Cluster(folder / TARGET, pair=TARGET)
    links = Links(managers=tuple(f"{TARGET}={endpoint}" for endpoint in second.endpoints))
    first = Cluster(folder / "east", pair="east", settings={name: {"links": links} for name in ("a", "b")})
    async with AsyncExitStack() as stack:
        for cluster in (first, second):
            await stack.enter_async_context(cluster.running())
        here = await stack.enter_async_context(aio.connect(first.target))
        there = await stack.enter_async_context(aio.connect(second.target))
        world = World(first, second, here, there, asked.size)
        for key in asked.keys:
            if key in MEASURES:
                await asked.take(key, MEASURES[key](world))
            elif key == "against_postgres":
                await asked.take(key, against_postgres(world, asked.place))


if __name__ == "__main__":
    run(Bench("units", __doc__, KEYS, Size(), QUICK, measured, WITHOUT, AMOUNTS))

"""Measures queues with PRODUCER replication, and twins: `python -m bench.twins.run`, which is `make bench-twin`.

One pair; each key of the document is turns of two things, one right after the other, or of one that has a bound of its
own. Ratios of processor time and of instructions say the same on a machine that others use; times and rates are marked
by how much of it others used.

Exit code 1 when something failed. A bound that is missed is said, and fails nothing.

Example: python -m bench.twins.run --only takeover_ms,replay_per_s
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bench.turns.command import UNUSED, Bench, Run, run
from bench.turns.figures import Figure, Single
from bench.twins.measures import QUICK, Size, World, enqueue, lockstep, priority, replay_per_s, takeover_ms
from chaos.cluster import Cluster
from tandemq import aio

MEASURES: dict[str, Callable[[World], Awaitable[Figure | Single]]] = {
    "enqueue": enqueue,
    "lockstep": lockstep,
    "priority": priority,
    "takeover_ms": takeover_ms,
    "replay_per_s": replay_per_s,
}
KEYS = ("enqueue", "lockstep", "priority", UNUSED, "takeover_ms", "replay_per_s")


async def measured(asked: Run[Size]) -> None:
    """Takes every key that needs a pair."""
    folder = asked.place.role("twins")
    cluster = Cluster(folder / "pair", pair="twins")
    async with cluster.running(), aio.connect(cluster.target) as client:
        world = World(cluster, client, folder, asked.size)
        for key in [key for key in asked.keys if key in MEASURES]:
            await asked.take(key, MEASURES[key](world))


if __name__ == "__main__":
    amounts = {"credit": (100_000, "of each consumer that takes; default: 20,000, that of a twin")}
    run(Bench("twin", __doc__, KEYS, Size(), QUICK, measured, amounts=amounts))

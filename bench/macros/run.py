"""Measures macro queues: `python -m bench.macros.run`, which is `make bench-macro`.

One pair; each key of the document is turns of two things, one right after the other. Ratios of processor time and of
instructions say the same on a machine that others use.

Exit code 1 when something failed. A bound that is missed is said, and fails nothing.

Example: python -m bench.macros.run --only local8
"""

from __future__ import annotations

from bench.macros.measures import QUICK, Size, World, local8, local1000, plain
from bench.turns.command import UNUSED, Bench, Run, run
from chaos.cluster import Cluster
from tandemq import aio

AFAR = "not measured yet: members at other managers"
WITHOUT = {"remote": AFAR, "beside_hung": AFAR}
KEYS = ("plain", "local8", "local1000", UNUSED, *WITHOUT)


async def measured(asked: Run[Size]) -> None:
    """`plain` is what stands beside `local8`, and that beside `local1000`."""
    cluster = Cluster(asked.place.role("macros") / "pair", pair="macros")
    async with cluster.running(), aio.connect(cluster.target) as client:
        world = World(cluster, client, asked.size)
        eight = await world.over("eight", 8)
        if {"plain", "local8"} & set(asked.keys):
            figure = await asked.take("local8", local8(world, eight))
            asked.note("plain", plain(figure.turns))
        if "local1000" in asked.keys:
            await asked.take("local1000", local1000(world, eight))


if __name__ == "__main__":
    run(Bench("macro", __doc__, KEYS, Size(), QUICK, measured, WITHOUT))

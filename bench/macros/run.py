"""Measures macro queues: `python -m bench.macros.run`, which is `make bench-macro`.

One pair, and two for `remote` and `beside_hung`; each key of the document is turns of two things, one right after the
other. Ratios of processor time and of instructions say the same on a machine that others use; those of rates do not.

Exit code 1 when something failed. A bound that is missed is said, and fails nothing.

Example: python -m bench.macros.run --only local8
"""

from __future__ import annotations

from bench.macros.afar import beside_hung, remote, two_pairs
from bench.macros.measures import QUICK, Size, World, local8, local1000, plain
from bench.turns.command import UNUSED, Bench, Run, run
from chaos.cluster import Cluster
from tandemq import aio

LOCAL, AFAR = ("plain", "local8", "local1000"), ("remote", "beside_hung")
KEYS = (*LOCAL, UNUSED, *AFAR)


async def measured(asked: Run[Size]) -> None:
    """`plain` is what stands beside `local8`, and that beside `local1000`."""
    if set(LOCAL) & set(asked.keys):
        await _local(asked)
    if set(AFAR) & set(asked.keys):
        async with two_pairs(asked.place.role("afar"), asked.size) as afar:
            for key, measure in (("remote", remote), ("beside_hung", beside_hung)):
                if key in asked.keys:
                    await asked.take(key, measure(afar))


async def _local(asked: Run[Size]) -> None:
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
    run(Bench("macro", __doc__, KEYS, Size(), QUICK, measured))

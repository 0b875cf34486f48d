"""Takes turns of two things at a pair, one right after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bench.growth.meter import cpu_us
from bench.turns.figures import Turn
from chaos.cluster import Cluster

Step = Callable[[], Awaitable[float]]
"""Measures one of the two things once."""


async def in_turns(ours: Step, beside: Step, count: int) -> list[Turn]:
    """So many turns. Who is first changes; what is made on first use is made before."""
    await ours(), await beside()
    found = []
    for number in range(count):
        if number % 2:
            second = await beside()
            found.append(Turn(await ours(), second))
        else:
            first = await ours()
            found.append(Turn(first, await beside()))
    return found


def members_cpu_us(pair: Cluster) -> float:
    """Processor time of both members so far, in microseconds, whoever else uses the machine."""
    return sum(cpu_us(pair.children[name].pid or 0) for name in pair.members)

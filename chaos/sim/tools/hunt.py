"""Looks for planted bugs, one after the other, and says after how many seeds each was found; it plants none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chaos.sim.tools.campaign import Campaign, Works, results
from chaos.sim.tools.tally import Failure

CHUNK_SEEDS = 4
"""Small: most bugs are found soon, and what is under way then is thrown away."""


@dataclass(frozen=True, slots=True)
class Quarry:
    """A planted bug and where to look for it."""

    bug: str
    profiles: tuple[str, ...]
    budget: int
    """It must be found within so many seeds."""
    text: str = ""
    """What is wrong with the product when it is planted."""


@dataclass(frozen=True, slots=True)
class Catch:
    """How the search for one bug went."""

    quarry: Quarry
    seeds: int
    """Runs up to and with the one that found it; all of them when none did."""
    failure: Failure | None
    """The first violation. None: the bug was missed."""


def hunt(works: Works, quarries: Iterable[Quarry], first_seed: int, jobs: int) -> Iterator[Catch]:
    """One after the other, each until it is found or its budget is spent."""
    for quarry in quarries:
        campaign = Campaign(
            quarry.profiles, quarry.budget, first_seed, quarry.bug, max_failures=1, chunk_seeds=CHUNK_SEEDS
        )
        seeds, failure = 0, None
        for result in results(works, campaign, jobs):
            seeds = result.tally.seeds
            failure = next(iter(result.tally.failures), None)
        yield Catch(quarry, failure.number if failure else seeds, failure)

"""Adds up what many runs showed and says what is wrong with the sum; it runs nothing and prints nothing.

Two things make a sum worthless although no run failed: too little traffic or too few faults of a kind, and a named
point that no run met. Such a campaign is invalid, not green.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from chaos.sim.pair.plan import Outcome

FLOOR_SEEDS = 3_000
"""The floors are figures of so many seeds and are scaled to the number that was run."""
FLOOR_SEEDS_MIN = 500
"""Chance decides too much in fewer seeds: no floor is asked for."""
CHANCE = 3
"""In fewer than FLOOR_SEEDS seeds: how many standard deviations of its own a figure may lie below its floor."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What a campaign must reach at least, as the sum of all counters that fit one of the patterns."""

    name: str
    patterns: tuple[str, ...]
    count: int

    def reached(self, counters: Counter[str]) -> int:
        """How often, in this campaign."""
        return sum(
            count for name, count in counters.items() if any(fnmatch(name, pattern) for pattern in self.patterns)
        )


# reliability.md, section 5, row L2.
FLOORS = (
    Floor("client calls", ("calls",), 180_000),
    Floor("acknowledged operations checked", ("acked",), 100_000),
    Floor(
        "crashes",
        tuple(f"fault.{kind}" for kind in ("crash", "kill_in_sync", "newborn", "blackout", "half_added", "half_ceded")),
        5_000,
    ),
    Floor("one-way cuts", ("fault.cut", "fault.client_cut", "fault.split"), 5_000),
    Floor("wrong or late verdicts", ("fault.verdict", "fault.classifier"), 1_500),
    Floor("pauses", ("fault.pause",), 1_000),
    Floor(
        "disk faults",
        tuple(f"fault.{kind}" for kind in ("*_disk", "fsync", "bit_flip", "bit_rot", "old_image")),
        1_000,
    ),
    Floor("handoffs", ("handoffs",), 1_000),
    Floor("whole logs that were read", ("logs read",), 1_500),
    # Of two profiles among all.
    Floor("logs whose messages were followed", ("fates read",), 140),
    Floor("dead letters", ("dead letters",), 150),
    Floor("delayed messages", ("delayed messages",), 900),
    Floor("messages moved by an administrator", ("swept",), 400),
    Floor("doubles by dedup id", ("doubles",), 200),
    Floor("requests answered", ("requests answered",), 300),
    Floor("copies of answers", ("answers copied",), 150),
    Floor("oldest messages dropped", ("dropped",), 500),
    Floor("batches refused by a full queue", ("refused as full",), 75),
)
KIND_FLOOR = 15
"""Of every kind of fault there is, whatever it is called: some of them can strike only now and then."""


def floors(kinds: Collection[str]) -> tuple[Floor, ...]:
    """What a campaign over all profiles must reach, with these kinds of fault: a new one is asked for by itself."""
    return FLOORS + tuple(Floor(f"fault {kind}", (f"fault.{kind}",), KIND_FLOOR) for kind in kinds)


@dataclass(frozen=True, slots=True)
class Failure:
    """One run that showed a violation."""

    number: int
    """Which run of the campaign, from 1."""
    seed: int
    profile: str
    bug: str
    violations: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """The sum over runs, in the order in which they were dealt. Equal for equal runs, however they were shared out."""

    seeds: int = 0
    steps: int = 0
    virtual_ms: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    coverage: Counter[str] = field(default_factory=Counter)
    by_profile: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    trace_hash: str = ""
    """Of all the runs' hashes, in order."""

    def add(self, number: int, outcome: Outcome) -> None:
        """One run more: the one with this number, from 1."""
        plan = outcome.plan
        self.seeds += 1
        self.steps += outcome.steps
        self.virtual_ms += outcome.virtual_ms
        self.counters.update(outcome.counters)
        self.coverage.update(outcome.coverage)
        self.by_profile[plan.profile] += 1
        self.trace_hash = _chained(self.trace_hash, outcome.trace_hash)
        if outcome.violations:
            self.failures.append(Failure(number, plan.seed, plan.profile, plan.bug, tuple(outcome.violations)))

    def merge(self, later: Tally) -> None:
        """The sum over the runs that come next."""
        self.seeds += later.seeds
        self.steps += later.steps
        self.virtual_ms += later.virtual_ms
        self.counters.update(later.counters)
        self.coverage.update(later.coverage)
        self.by_profile.update(later.by_profile)
        self.failures += later.failures
        self.trace_hash = _chained(self.trace_hash, later.trace_hash)

    def faults(self) -> dict[str, int]:
        """How often each kind struck, by kind."""
        prefix = "fault."
        return {
            name.removeprefix(prefix): count for name, count in sorted(self.counters.items()) if name.startswith(prefix)
        }

    def missed(self, points: Collection[str]) -> list[str]:
        """The named points that no run met."""
        return sorted(point for point in points if not self.coverage[point])

    def shortfalls(
        self, points: Collection[str], floors: Sequence[Floor] = FLOORS, points_from: int = FLOOR_SEEDS
    ) -> list[str]:
        """What makes this campaign invalid, a sentence each; none when nothing does, or when it is too small to say.

        What a thousand seeds meet once on average, more than a third of such campaigns never meets: named points are
        asked for from `points_from` seeds on, and below FLOOR_SEEDS a floor leaves room for chance.
        """
        found = []
        for floor in floors if self.seeds >= FLOOR_SEEDS_MIN else ():
            wanted = floor.count * self.seeds // FLOOR_SEEDS
            if self.seeds < FLOOR_SEEDS:
                wanted = math.floor(wanted - CHANCE * math.sqrt(wanted))
            if (reached := floor.reached(self.counters)) < wanted:
                found.append(f"{floor.name}: {reached:,} of at least {wanted:,} in {self.seeds:,} seeds")
        if self.seeds < points_from:
            return found
        return found + [f"never met: {point}" for point in self.missed(points)]


def _chained(one: str, other: str) -> str:
    return hashlib.blake2b(f"{one} {other}".encode(), digest_size=16).hexdigest()

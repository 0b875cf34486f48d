"""One run: a pair of real processes with Toxiproxy between them, light load, faults by a plan, a drain, and what it
proves. It chooses no faults; `chaos.campaign` does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from chaos import account, bites, checker, nemesis
from chaos.account import Account, Span
from chaos.cluster import Cluster
from chaos.faults import Fault, Injector
from chaos.history import History, Struck
from chaos.network import Network
from chaos.preload import Preload
from chaos.workload import Workload

PATIENCE_S = 0.5
QUIET_S = (0.5, 1.5)  # between two rounds
ACKED_PER_S_MIN = 30  # of the five hundred a second that are sent while all is well
BOUND_S = 90.0  # beyond the time that was asked for: for starting, draining, the last round


class Round(NamedTuple):
    """Faults that are struck together, each at its own time."""

    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Rounds that are struck one after the other, over and over, for as long as the run lasts."""

    name: str
    rounds: tuple[Round, ...]
    late: bool = False  # nothing is received before all faults are over

    @property
    def kinds(self) -> list[str]:
        """Every kind of fault in it, once."""
        return list(dict.fromkeys(fault.kind for each in self.rounds for fault in each.faults))


@dataclass(slots=True)
class Result:
    """What a run came to. It held when nothing is `broken`; when it is `invalid` it says nothing."""

    name: str
    seed: int
    seconds: float
    account: Account
    history: History
    struck: list[Struck]
    faults: dict[str, tuple[int, int]]  # by kind: had an effect, were made
    broken: dict[str, list[str]]
    invalid: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Broken wins: a broken promise is one, however little was tried."""
        return "BROKEN" if self.broken else "INVALID" if self.invalid else "held"


class ClusterHands:
    """Does to a cluster's processes what a fault asks for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def network(self) -> Network | None:
        return self._cluster.network if self._cluster.relayed else None

    @property
    def preload(self) -> Preload | None:
        return self._cluster.preload

    async def kill(self, name: str) -> None:
        await nemesis.kill(self._cluster, name)

    def freeze(self, name: str) -> None:
        self._cluster.pause(name)

    def thaw(self, name: str) -> None:
        self._cluster.resume(name)

    async def start(self, name: str) -> None:
        if not self._cluster.children[name].running:
            await self._cluster.restart(name)

    def check_alive(self, may_end: Sequence[str]) -> None:
        self._cluster.check_alive(may_end)

    async def ended(self, name: str) -> bool:
        return not self._cluster.children[name].running


@dataclass(slots=True)
class Course:
    """What is known of a run while it lasts, and of one that came to no result."""

    history: History = field(default_factory=History)
    struck: list[Struck] = field(default_factory=list)
    workload: Workload | None = None

    @property
    def standing(self) -> str:
        """Which part had not ended, and the last that was heard."""
        return self.workload.standing if self.workload is not None else "the start of its processes"


async def run(
    configuration: Configuration,
    directory: Path,
    program: Path,
    seconds: float,
    seed: int,
    bug: str = "",
    *,
    course: Course | None = None,
    bound_s: float = BOUND_S,
) -> Result:
    """Starts everything, runs, ends everything; `course` is filled meanwhile.

    Raises RuntimeError when the pair did not start or come together, or when it took `bound_s` more than it should.
    """
    draw = random.Random(seed)
    cluster = Cluster(directory, toxiproxy=program, pair="chaos", bug=bug)
    course = course or Course()
    limit = asyncio.timeout(seconds + bound_s)
    try:
        async with limit, cluster.running():
            spans = await _under_load(configuration, cluster, seconds, draw, course)
            limit.reschedule(None)  # the pair has come together: what is left are its ends and our sums
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise RuntimeError(f"not over {bound_s:g} s after its time") from error
    return judged(configuration.name, seed, seconds, course.history, course.struck, spans)


async def _under_load(
    configuration: Configuration, cluster: Cluster, seconds: float, draw: random.Random, course: Course
) -> list[Span]:
    """What was struck, and for how long, once the pair is whole again."""
    workload = Workload(cluster, course.history, patience_s=PATIENCE_S, late=configuration.late)
    course.workload = workload
    injector = Injector(cluster, ClusterHands(cluster), workload.history, lambda: workload.now_s, course.struck)
    spans: list[Span] = []
    async with workload.running():
        await workload.goes_on()
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until or number < len(configuration.rounds):
            from_s = workload.now_s
            faults = configuration.rounds[number % len(configuration.rounds)].faults
            workload.part = (
                f"round {number + 1}, {' and '.join(fault.kind for fault in faults)}, and a whole pair after it"
            )
            await injector.round(faults)
            spans.append(Span(from_s, max(struck.to_s for struck in injector.struck)))
            workload.part = f"sending after round {number + 1}"
            await workload.goes_on()
            await asyncio.sleep(draw.uniform(*QUIET_S))
            number += 1
    return spans


def judged(
    name: str,
    seed: int,
    seconds: float,
    history: History,
    struck: list[Struck],
    spans: Sequence[Span],
    checks: Iterable[checker.Check] = checker.CHECKS,
) -> Result:
    """The verdict over what was seen, with what makes the run worth nothing."""
    faults = bites.counts(history, struck)
    result = Result(
        name, seed, seconds, account.take(history, spans), history, struck, faults, checker.broken(history, checks)
    )
    if result.account.unexpected:
        result.broken["nothing_comes_unasked"] = [f"{result.account.unexpected} messages came that nobody had sent"]
    floor = round(ACKED_PER_S_MIN * seconds)
    if result.account.acknowledged < floor:
        result.invalid.append(f"too little traffic: {result.account.acknowledged} acknowledged, the floor is {floor}")
    if not struck:
        result.invalid.append("no fault was struck")
    result.invalid += [f"no {kind} of {made} had an effect" for kind, (bitten, made) in faults.items() if not bitten]
    return result

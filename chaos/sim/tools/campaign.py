"""Runs many seeds in several processes and adds up what they showed; it decides neither what a run does nor what counts
as a violation.

Run number n (from 0) has the seed `first_seed + n` and the profile `profiles[n % len(profiles)]`. The runs are dealt in
chunks of equal size, whatever the number of processes, and added up in order; a campaign that stops early stops after
the same chunk. So the result does not depend on how many worked on it.

Processes are started afresh ("spawn"): a fork would share locks and threads of libraries that do not bear it. Each also
draws its own PYTHONHASHSEED, so that an order that hangs on it shows as a difference. A world is one heap of objects
that know each other; it is collected between two runs and never within one: a finaliser must not run at a time
that depends on what ran before. Processes are replaced after `CHUNKS_PER_PROCESS` chunks each, so that memory cannot
creep up in a long night.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from types import TracebackType
from typing import TypeAlias

from chaos.sim.pair.plan import Plan, Runner
from chaos.sim.tools.replay import drawn_command
from chaos.sim.tools.tally import Tally

CHUNK_SEEDS = 20
CHUNKS_PER_PROCESS = 50

Draw: TypeAlias = Callable[[str, int], Plan]


@dataclass(frozen=True, slots=True)
class Works:
    """What plans come from and what runs them: functions that a new process can import by name."""

    draw: Draw
    run: Runner


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is to be run."""

    profiles: tuple[str, ...]
    seeds: int
    first_seed: int = 1
    bug: str = ""
    max_failures: int = 10
    chunk_seeds: int = CHUNK_SEEDS

    def chunks(self) -> Iterator[range]:
        """The numbers of the runs, in shares."""
        for start in range(0, self.seeds, self.chunk_seeds):
            yield range(start, min(start + self.chunk_seeds, self.seeds))

    def plan(self, works: Works, number: int) -> Plan:
        """The plan of one run."""
        plan = works.draw(self.profiles[number % len(self.profiles)], self.first_seed + number)
        return replace(plan, bug=self.bug) if self.bug else plan


@dataclass(slots=True)
class Cost:
    """What it took; other than a tally it differs from machine to machine."""

    cpu_s: float = 0.0
    memory_bytes_max: int = 0
    wall_s: float = 0.0

    def add(self, other: Cost) -> None:
        """One chunk more."""
        self.cpu_s += other.cpu_s
        self.memory_bytes_max = max(self.memory_bytes_max, other.memory_bytes_max)


@dataclass(slots=True)
class Result:
    """What a campaign showed so far."""

    tally: Tally = field(default_factory=Tally)
    cost: Cost = field(default_factory=Cost)
    stopped_early: bool = False
    interrupted: str = ""
    """By whoever started it: after how much."""


@contextmanager
def _set_aside() -> Iterator[None]:
    """What is there already is not looked through again after each run: all that was imported, and all that a process
    holds that runs something else as well. May be nested; the outermost decides, and so does a process that has
    switched the collector off. What the process itself has set aside stays so, with all that is there then.
    """
    if not gc.isenabled():
        yield
        return
    before = gc.get_freeze_count()  # counts one by one, a tenth of a second in a process that runs all tests
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if not before:
            gc.unfreeze()
        gc.enable()


def run_chunk(works: Works, campaign: Campaign, numbers: range) -> tuple[Tally, Cost]:
    """One share of the runs, one after the other, in this process."""
    cpu = time.process_time()
    tally = Tally()
    with _set_aside():
        for number in numbers:
            plan = campaign.plan(works, number)
            with _Named(plan):
                tally.add(number + 1, works.run(plan))
            gc.collect()
    unit = 1 if sys.platform == "darwin" else 1024
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return tally, Cost(time.process_time() - cpu, memory)


def results(works: Works, campaign: Campaign, jobs: int) -> Iterator[Result]:
    """The same object after every chunk; the last one is what the campaign showed. `jobs` 0: in this process."""
    result = Result()
    start = time.monotonic()
    chunks = run_here(works, campaign) if jobs == 0 else _shared_out(works, campaign, jobs)
    for tally, cost in chunks:
        result.tally.merge(tally)
        result.cost.add(cost)
        result.cost.wall_s = time.monotonic() - start
        result.stopped_early = len(result.tally.failures) >= campaign.max_failures
        yield result
        if result.stopped_early:
            return


def run_here(works: Works, campaign: Campaign) -> Iterator[tuple[Tally, Cost]]:
    """In this process: for a debugger, and for tests."""
    with _set_aside():
        for numbers in campaign.chunks():
            yield run_chunk(works, campaign, numbers)


def _shared_out(works: Works, campaign: Campaign, jobs: int) -> Iterator[tuple[Tally, Cost]]:
    """In `jobs` others, a few chunks ahead of what was added up; in order.

    All processes are replaced at once: the executor's own `max_tasks_per_child` can leave it waiting for ever (Python
    3.11 and 3.12), and a process that dies under `multiprocessing.Pool` is never missed.
    """
    chunks = campaign.chunks()
    while generation := list(islice(chunks, jobs * CHUNKS_PER_PROCESS)):
        pool = ProcessPoolExecutor(
            jobs,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=signal.signal,  # Ctrl-C is for whoever adds up
            initargs=(signal.SIGINT, signal.SIG_IGN),
        )
        waiting: deque[Future[tuple[Tally, Cost]]] = deque()
        try:
            for numbers in generation:
                waiting.append(pool.submit(run_chunk, works, campaign, numbers))
                if len(waiting) > 2 * jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class _Named(AbstractContextManager[None]):
    """Adds to whatever leaves a run which run that was: the simulator itself is at fault there, not the product."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        del kind, trace
        if error is not None:
            plan = self._plan
            error.add_note(
                f"the simulator failed, not the product; again: {drawn_command(plan.profile, plan.seed, plan.bug)}"
            )

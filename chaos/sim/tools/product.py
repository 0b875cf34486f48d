"""Names what the tools need of the simulator itself, and is what they get of it; it decides nothing."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from chaos.sim.bugs import BUGS, planted, shown
from chaos.sim.bugs.elsewhere import ELSEWHERE
from chaos.sim.draw.checking import check
from chaos.sim.draw.profiles import KINDS_OF_ALL, OF_ALL, PROFILES, draw
from chaos.sim.judges.coverage import MEANINGS
from chaos.sim.judges.homes import HOMES
from chaos.sim.pair.plan import Outcome, Plan, Runner
from chaos.sim.tools.campaign import Draw, Works
from chaos.sim.tools.hunt import Quarry
from chaos.sim.world.world import World

Check: TypeAlias = Callable[[Plan], None]


def no_check(_plan: Plan) -> None:
    """Takes every plan."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Whatever draws plans and runs them. Every function can be imported by name in a new process."""

    draw: Draw
    run: Runner
    traced: Runner
    """Runs a plan and keeps its trace."""
    profiles: tuple[str, ...]
    """Of a campaign over all."""
    kinds: tuple[str, ...]
    """Of faults."""
    quarries: tuple[Quarry, ...]
    """The planted bugs."""
    points: Mapping[str, str]
    """What every campaign over all profiles must meet at least once, and what it means."""
    check: Check = no_check
    """Raises ValueError for a plan that cannot be carried out."""
    homes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Points that a profile alone must meet, by profile."""
    elsewhere: tuple[tuple[str, str, str], ...] = ()
    """Rules whose loss no run shows, hence not planted: which, why, and the test that does."""
    apart: tuple[str, ...] = ()
    """Profiles that are drawn when they are asked for by name alone."""

    @property
    def works(self) -> Works:
        """What a campaign needs."""
        return Works(self.draw, self.run)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """The product logs what faults do to it: nobody reads a hundred lines for each of a thousand runs."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def run(plan: Plan) -> Outcome:
    """One run of the product, with the bug that the plan names."""
    with silence():
        return shown(plan, lambda each: World(each).run())


def traced(plan: Plan) -> Outcome:
    """One run of the product, with its story."""
    with silence(), planted(plan.bug):
        return World(plan, keep_trace=True).run()


def of_product() -> Kernel:
    """The product's own code, as `chaos.sim.world.world` runs it."""
    quarries = tuple(Quarry(bug.name, (bug.profile,), bug.budget, bug.text) for bug in BUGS.values())
    elsewhere = tuple((f"{each.rule}: {each.text}", each.why, each.test) for each in ELSEWHERE)
    apart = tuple(name for name in PROFILES if name not in OF_ALL)
    beside = {point for name in apart for point in HOMES[name]}
    points = {point: text for point, text in MEANINGS.items() if point not in beside}
    return Kernel(draw, run, traced, OF_ALL, KINDS_OF_ALL, quarries, points, check, HOMES, elsewhere, apart)

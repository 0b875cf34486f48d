"""The states that a search may begin in, each made from two empty disks by steps that are written down here. Searches
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from chaos.sim.model.member import RuleBroken
from chaos.sim.model.pair import Pair
from chaos.sim.model.state import BUDGET, REGISTER, Budget, Label, State

Step = tuple[str, int]
"""The step's name, and whose it is (-1: nobody's); with a star: as often as there is one."""

FORMATION = ("starts", "connects", "arrives", "is durable", "is rebuilt", "is stored", "lands", "is answered")
"""The first of these that may come comes, until nothing does."""
SCRIPTS: Mapping[str, tuple[Step, ...]] = MappingProxyType(
    {
        "pair": (),
        # B has crashed, and A serves epoch 2 alone.
        "alone": (
            *(("crashes", 1), ("notices", 0), ("is lost", 0), ("lands*", 0), ("is answered", 0), ("is durable", 0)),
            *(("lands*", 0), ("is answered", 0), ("is durable*", 0)),
        ),
        # A has crashed, and B has two operations on disk that A had sent and not written.
        "tail": (
            *(("orders", 0), ("orders", 0), ("arrives", 1), ("arrives*", 1), ("is durable", 1), ("is durable*", 1)),
            ("crashes", 0),
        ),
    }
)


def first_state(pair: Pair) -> State:
    """Where the search of this pair's bound begins."""
    bound = pair.bound
    state = pair.blank()
    if bound.start != "nothing":
        state = _formed(pair, state)
        for step in SCRIPTS[bound.start]:
            state = _taken(pair, state, step)
    made = list(state)
    made[BUDGET] = pair.budgets(Budget(*(getattr(bound, name) for name in Budget._fields)))
    return tuple(made)


def _taken(pair: Pair, state: State, step: Step) -> State:
    name, who = step
    often = name.endswith("*")
    while True:
        found = next((s for label, _, s in pair.steps(state) if label[:2] == (name.rstrip("*"), who)), None)
        if found is None and not often:
            raise LookupError(f"the first state {pair.bound.start!r} cannot be made: there is no step {name!r}")
        if found is None:
            return state
        state = found
        if not often:
            return state


def _formed(pair: Pair, state: State) -> State:
    """What comes of two empty disks when all goes well, at rest."""

    def rank(label: Label) -> int:
        return FORMATION.index(str(label[0])) if label[0] in FORMATION else len(FORMATION)

    for _ in range(500):
        steps = [step for step in pair.steps(state) if not step[1]]
        allowed = (*FORMATION, "time passes") if not pair.is_paired(state) else FORMATION
        free = [step for step in steps if step[0][0] in allowed]
        if not free:
            break
        state = min(free, key=lambda step: rank(step[0]))[2]
    if not pair.is_paired(state):
        register = pair.registers.things[state[REGISTER]]
        raise RuleBroken(f"two empty members do not come together: {register}")
    return state

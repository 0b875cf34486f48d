"""Holds every kind of fault by its name, and whom it can strike; `faults`, `disk_faults`, `moments` and `stops` have
the kinds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from chaos.sim.members import Pair
    from chaos.sim.plan import Fault, Value

MEMBERS = ("a", "b")
DIRECTIONS = ("a>b", "b>a")
Drawn = tuple[str, "dict[str, Value]"]


class Kind(Protocol):
    """One kind of fault."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        """Whom it strikes, and its arguments."""
        ...

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        """Brings it about; False when there was nothing to strike."""
        ...


KINDS: dict[str, type[Kind]] = {}
TARGETS: dict[str, tuple[str, ...]] = {}
"""By kind: whom it can strike."""
APART: set[str] = set()
"""Kinds that profile "swarm" does not draw: they need what only a profile of their own has."""


def kind(
    name: str, targets: tuple[str, ...] = MEMBERS, *, is_apart: bool = False
) -> Callable[[type[Kind]], type[Kind]]:
    """Enters a class under the name that plans and reports use."""

    def enter(cls: type[Kind]) -> type[Kind]:
        KINDS[name], TARGETS[name] = cls, targets
        if is_apart:
            APART.add(name)
        return cls

    return enter

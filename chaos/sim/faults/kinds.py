"""Says what a kind of fault is, and what there is to be struck; it has none itself."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault, Value

MEMBERS = ("a", "b")
DIRECTIONS = ("a>b", "b>a")
OTHER = ("c", "d")
"""Members of the second pair, where a world has two."""
_TO_OTHER, _TO_FIRST = str.maketrans("ab", "cd"), str.maketrans("cd", "ab")
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


def at_other(target: str) -> str:
    """The same of the second pair, for what is said of members."""
    return target.translate(_TO_OTHER)


def at_first(target: str) -> str:
    """As kinds draw it."""
    return target.translate(_TO_FIRST) if is_at_other(target) else target


def is_at_other(target: str) -> bool:
    """Whether it is of members of the second pair."""
    return set(target) <= set("cd>* ") and not set(target).isdisjoint(OTHER)

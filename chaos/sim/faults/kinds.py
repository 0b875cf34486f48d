"""Says what a kind of fault is, and what there is to be struck; it has none itself."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault, Value

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

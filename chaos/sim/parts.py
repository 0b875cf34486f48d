"""Makes the product move few messages in one record, as it moves many where there are many; decides nothing itself.

A simulated queue holds a few dozen messages: what the product does in several records would else be done in one, and
nothing could strike between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chaos.sim.bugs.planting import Planter
from replica import dying, replying, sweeps

LIMIT = "MOVE_MESSAGES_MAX"


@contextmanager
def of(messages: int) -> Iterator[None]:
    """Moves, dead letters and copies of answers go in records of so many messages while this lasts; 0: as ever."""
    planter = Planter()
    for module in (dying, replying, sweeps) if messages else ():
        planter.setattr(module, LIMIT, messages)
    try:
        yield
    finally:
        planter.undo()

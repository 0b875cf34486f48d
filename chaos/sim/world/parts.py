"""Makes the product move few messages in one record, and keep few records in memory, as it does where there are many;
decides nothing itself.

A simulated queue holds a few dozen messages: what the product does in several records would else be done in one, and
nothing could strike between them; and its log would stay in memory, so that nothing were ever read from the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import replica.core.state.log
from chaos.sim.bugs.planting import Planter
from replica.core.ordering import dying, replying, sweeps

LIMIT = "MOVE_MESSAGES_MAX"
RING = "RING_BYTES_MAX"


@contextmanager
def of(messages: int, ring_bytes: int = 0) -> Iterator[None]:
    """Moves, dead letters and copies of answers go in records of so many messages while this lasts, and the newest
    records in memory are so many bytes; 0: as ever.
    """
    planter = Planter()
    for module in (dying, replying, sweeps) if messages else ():
        planter.setattr(module, LIMIT, messages)
    if ring_bytes:
        planter.setattr(replica.core.state.log, RING, ring_bytes)
    try:
        yield
    finally:
        planter.undo()

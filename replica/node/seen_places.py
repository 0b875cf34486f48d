"""Whether who goes on at this master was answered by the history that is kept here: writers and consumers of numbered
batches keep where the journal was, and give it back. Reads no record, and orders nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.outcomes import Moved
from replica.node.counting import until_committed
from replica.node.journal import (
    Asking,
    RowPlace,
    bounds_of,
    epoch_before,
    history_id_of,
    problem_of,
    problem_of_history,
)
from tandemq.v1.journal_service_pb2 import JournalPosition

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.state.outcomes import Failed
    from replica.core.state.shared import Shared

GOING_ON = Asking("seen", "begin there with a new checkpoint, or name the pair that was meant")
_MOVED = Moved("the mastership moved while a place of the journal was looked at; repeat the call")


def place_now(shared: Shared) -> JournalPosition:
    """What the next call gives back as `seen`: all before it is on every copy that must have it."""
    end = bounds_of(shared).end
    return JournalPosition(log_index=end, epoch=epoch_before(shared, end) or 0, history_id=history_id_of(shared))


async def problem_of_seen(domain: Domain, seen: JournalPosition) -> Failed | Moved | None:
    """Why who was there cannot go on here. None: he can, or says nothing of it.

    Where the records before his place are trimmed, only the id of the history is compared.
    """
    shared = domain.shared
    if (changed := problem_of_history(shared, seen.history_id, GOING_ON)) is not None or not seen.log_index:
        return changed
    if not await until_committed(domain):
        return _MOVED
    if seen.log_index <= bounds_of(shared).first:
        return None
    return problem_of(shared, RowPlace(seen.log_index, seen.epoch), is_master=True, asking=GOING_ON)

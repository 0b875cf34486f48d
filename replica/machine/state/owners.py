"""Keeps what principals keep in a domain, by their names, as queues come, go and are given away.

It follows from the queues and their producers, so a takeover, a restart, a transfer and a backup count alike. Decides
nothing: `plan/owners.py` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from replica.machine.state.owned import Identity, Owned

if TYPE_CHECKING:
    from replica.machine.state.queue import QueueState


class Owners:
    """Of one domain, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Owned] = {}

    def begin(self, queue: QueueState) -> None:
        """It was made, read back, or given to somebody. A side is a copy of what the pair's queue counts already."""
        if queue.config.owner and queue.side is None:
            queue.owned = owned = self.by_name.setdefault(queue.config.owner, Owned())
            owned.queues += 1
            owned.bytes += queue.bytes

    def end(self, queue: QueueState, owner: str) -> None:
        """It goes, or is somebody else's from now on."""
        owned, queue.owned = queue.owned, None
        if owned is None:
            return
        owned.queues -= 1
        owned.bytes -= queue.bytes
        for key in [key for key in owned.identities if key[0] == queue.queue_id]:
            del owned.identities[key]
        if not owned.queues:
            del self.by_name[owner]


def remember_used(
    queues: Mapping[int, QueueState], used: Iterable[tuple[Identity, int]], before_ms: int, only: Owned | None = None
) -> None:
    """What the producers say, by rising time of their last batch: of everybody, or of one who has got a queue."""
    if only is not None:
        only.identities.clear()
    for (queue_id, client_id), time_ms in used:
        owned = queue.owned if (queue := queues.get(queue_id)) is not None else None
        if owned is not None and only in (None, owned) and time_ms >= before_ms:
            owned.remember(queue_id, client_id, time_ms, before_ms)

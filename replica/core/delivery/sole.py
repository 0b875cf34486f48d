"""Which consumer of a queue that serves one at a time (single_active) is the one that is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import deque

    from replica.core.state.calls import Consumer
    from replica.machine import Machine


class Sole:
    """The active consumer of each queue that serves one at a time: the oldest.

    The next one follows when the active one has left and its leases have ended, whichever way. After a takeover the
    oldest is whoever came to the new master first, and leases of the old one are waited for all the same.
    """

    def __init__(self) -> None:
        self.active: dict[int, bytes] = {}
        """Client id by queue. While it is served nobody else holds a lease, so nothing has to be looked at."""

    def place(self, turn: deque[Consumer], consumer: Consumer) -> None:
        """A consumer arrives: behind all others, but before an older stream of its own that has most likely broken."""
        for at, other in enumerate(turn):
            if other.client_id == consumer.client_id:
                consumer.take_place_of(other)
                turn.insert(at, consumer)
                return
        turn.append(consumer)

    def served(self, machine: Machine, queue_id: int, turn: deque[Consumer]) -> Consumer | None:
        """Who may be handed messages now."""
        if queue_id not in self.active:  # until now they may have been served in turn
            ordered = sorted(turn, key=lambda consumer: consumer.number)
            turn.clear()
            turn.extend(ordered)
        oldest = turn[0]
        if self.active.get(queue_id) != oldest.client_id:
            if machine.is_leased_by_others(queue_id, oldest.client_id):
                return None
            self.active[queue_id] = oldest.client_id
        return oldest

    def forget(self, queue_id: int) -> None:
        """The queue serves everybody, or nobody is left."""
        self.active.pop(queue_id, None)

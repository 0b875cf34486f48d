"""Finds what a sweep looks at next: a bounded number of messages and of bytes a turn. Orders nothing."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from replica.core.selection.filters import Read
from replica.core.selection.selecting import LOOKS_MAX, find
from replica.machine import ranges_of
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.orders import Orders
    from replica.core.ordering.sweep import Sweep
    from replica.core.state.shared import Shared
    from replica.machine import QueueState
    from replica.machine.sets.ranges import Run

READ_BYTES_MAX = 4 << 20
"""Bodies that one turn reads to look into them, up to the end of a record."""


class Looks:
    """Of one domain at one member."""

    def __init__(self, shared: Shared, orders: Orders, read: Callable[[int], Stored | None]) -> None:
        """`read`: a record from the store, by log index."""
        self.shared = shared
        self.orders = orders
        self.read = read

    def look(self, sweep: Sweep, queue: QueueState) -> tuple[list[Run], int]:
        """What fits among the next messages, leased ones too, and the index behind all that was looked at."""
        end = sweep.bound + 1
        asked = sweep.asked
        if asked is not None and asked.places is not None:
            held, following = self._named(sweep, queue, asked.places, end)
        else:
            ranges = self.orders.machine.browse(sweep.queue_id, sweep.at, LOOKS_MAX)
            held = [(part.first, min(part.first + part.count, end)) for part in ranges if part.first < end]
            full = sum(part.count for part in ranges) >= LOOKS_MAX
            following = held[-1][1] if full and held else end
        if asked is None or not asked.needs_bodies:
            return held, following
        found = find(
            queue,
            asked,
            self._messages,
            self.shared.domain,
            held=held,
            most=LOOKS_MAX,
            looks=max(1, LOOKS_MAX // (1 if asked.selector is None else asked.selector.weight)),
            bytes_max=READ_BYTES_MAX,
        )
        return found.ranges, found.next_index or following

    def _named(
        self, sweep: Sweep, queue: QueueState, places: Iterable[tuple[int, int, int]], end: int
    ) -> tuple[list[Run], int]:
        """Messages by their ids: nothing else is looked at, and each id once.

        Their indexes rise as their places in the log do.
        """
        if sweep.named is None:
            domain = self.shared.domain
            sweep.named = sorted((place[1:] for place in places if place[0] == domain), reverse=True)
        if not sweep.found:
            some = [sweep.named.pop() for _ in range(min(len(sweep.named), LOOKS_MAX))]
            indexes = (queue.segments.index_of(log_index, ordinal) for log_index, ordinal in some)
            sweep.found = [index for index in indexes if index is not None and sweep.at <= index < end]
        else:
            sweep.found = sweep.found[bisect_left(sweep.found, sweep.at) :]
        if sweep.named:
            following = sweep.found[-1] + 1 if sweep.found else sweep.at
        else:
            following = end
        return _held(queue, sweep.found), following

    def _messages(self, log_index: int) -> Read | None:
        stored = self.read(log_index)
        if stored is None:
            return None
        return Read(EnqueueBatch.FromString(stored.body).messages, stored.time_ms, len(stored.body))


def _held(queue: QueueState, indexes: Sequence[int]) -> list[Run]:
    """Those that the queue holds, by rising index. The leases are gone through once, and only for what is not free."""
    runs = ranges_of(indexes)
    held = [run for low, high in runs for run in queue.unleased_in(low, high)]
    if sum(high - low for low, high in held) < len(indexes):
        first, last = indexes[0], indexes[-1]
        for lease in queue.leases.values():
            for low, high in lease.ranges.runs(first, last + 1):
                held += ranges_of(indexes[bisect_left(indexes, low) : bisect_left(indexes, high)])
    return sorted(held)

"""Knows which queue has been empty and unused for its time; never decides that it goes.

One entry a queue in a heap, whatever happens to the queue: an entry that comes up too early is put back for the right
time. So a queue that is filled and emptied with each message costs a look into a dict each time, and no push. Derived
from the state and no part of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from replica.machine.state.queue import QueueState


class IdleQueues:
    __slots__ = ("_entries", "_heap", "_queues", "used")

    def __init__(self, queues: Mapping[int, QueueState]) -> None:
        self._queues = queues
        self._heap: list[tuple[int, int]] = []  # when to look, queue
        self._entries: dict[int, int] = {}  # of each queue the entry that counts
        self.used = False  # some queue has had such a time: only then records are looked at

    def __len__(self) -> int:
        return len(self._heap)

    def touch(self, queue: QueueState) -> None:
        """It may end earlier than is known here."""
        if queue.idle_ms:
            self.used = True
            when_ms = queue.idle_since_ms + queue.idle_ms
            known = self._entries.get(queue.queue_id)
            if known is None or when_ms < known:
                self._put(when_ms, queue.queue_id)

    def _put(self, when_ms: int, queue_id: int) -> None:
        self._entries[queue_id] = when_ms
        heapq.heappush(self._heap, (when_ms, queue_id))

    def spare(self, queue: QueueState, now_ms: int) -> None:
        """It is due and must not go: look again after as much time."""
        self._put(now_ms + queue.idle_ms, queue.queue_id)

    def may_be_due(self, now_ms: int) -> bool:
        """False: none is due. True may be said of a stale entry."""
        return bool(self._heap) and self._heap[0][0] <= now_ms

    def next_ms(self) -> int | None:
        """When the first of them is due."""
        while self._heap:
            when_ms, queue_id = self._heap[0]
            if self._entries.get(queue_id) != when_ms:
                heapq.heappop(self._heap)
                continue
            queue = self._queues.get(queue_id)
            if queue is None or not queue.idle_ms or queue.length:  # the record that empties it brings it back
                heapq.heappop(self._heap)
                del self._entries[queue_id]
                continue
            due_ms = queue.idle_since_ms + queue.idle_ms
            if due_ms <= when_ms:
                return when_ms
            heapq.heappop(self._heap)
            self._put(due_ms, queue_id)
        return None

    def due(self, now_ms: int, limit: int) -> list[QueueState]:
        """Queues whose time is over, each once, and once more at each look until it is deleted or spared."""
        found: dict[tuple[int, int], QueueState] = {}  # by entry, of which a time that came up again leaves two
        while len(found) < limit and (when_ms := self.next_ms()) is not None and when_ms <= now_ms:
            entry = heapq.heappop(self._heap)
            found[entry] = self._queues[entry[1]]
        for entry in found:
            heapq.heappush(self._heap, entry)
        return list(found.values())

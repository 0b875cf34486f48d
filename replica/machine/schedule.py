"""Knows what is due next; never decides what becomes of it.

A heap of integers, when << 96 | queue << 64 | ident, because ten million tuples would not fit. It is derived from the
state and not part of it: an entry may be stale, the owner's `is_live` says so.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import NamedTuple

_REBUILD_AT_LEAST = 4_096


class Due(NamedTuple):
    when_ms: int
    queue_id: int
    ident: int  # lease id, or index of the first message


def _unpack(entry: int) -> Due:
    return Due(entry >> 96, entry >> 64 & 0xFFFFFFFF, entry & 0xFFFFFFFFFFFFFFFF)


class Schedule:
    __slots__ = ("_heap", "_is_live", "_rebuild_at")

    def __init__(self, is_live: Callable[[Due], bool]) -> None:
        self._heap: list[int] = []
        self._is_live = is_live
        self._rebuild_at = _REBUILD_AT_LEAST

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, when_ms: int, queue_id: int, ident: int) -> None:
        heapq.heappush(self._heap, when_ms << 96 | queue_id << 64 | ident)
        if len(self._heap) > self._rebuild_at:
            # What was settled long before its time leaves stale entries; at most as many as live ones may stay.
            self._heap = [entry for entry in self._heap if self._is_live(_unpack(entry))]
            heapq.heapify(self._heap)
            self._rebuild_at = max(_REBUILD_AT_LEAST, 2 * len(self._heap))

    def clear(self) -> None:
        self._heap.clear()

    def next_ms(self) -> int | None:
        """Forgetting stale entries on the way changes nothing that can be seen."""
        while self._heap:
            due = _unpack(self._heap[0])
            if self._is_live(due):
                return due.when_ms
            heapq.heappop(self._heap)
        return None

    def due(self, now_ms: int) -> Iterator[Due]:
        """Live entries whose time has come, in no order: they hang together at the root of the heap."""
        bound = (now_ms + 1) << 96
        waiting = [0]
        while waiting:
            at = waiting.pop()
            if at < len(self._heap) and self._heap[at] < bound:
                due = _unpack(self._heap[at])
                if self._is_live(due):
                    yield due
                waiting += (2 * at + 1, 2 * at + 2)

"""Knows what is due next; never decides what becomes of it.

A heap of integers, when << 96 | queue << 64 | ident, because ten million tuples would not fit. It is derived from the
state and not part of it: an entry may be stale, the owner's `is_live` says so.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

# Below this, stale entries are not worth looking for.
_SWEEP_ABOVE = 4_096


class Due(NamedTuple):
    when_ms: int
    queue_id: int
    ident: int  # lease id, or index of the first message


def _unpack(entry: int) -> Due:
    return Due(entry >> 96, entry >> 64 & 0xFFFFFFFF, entry & 0xFFFFFFFFFFFFFFFF)


class Schedule:
    __slots__ = ("_heap", "_is_live", "_returned", "_sweep_at")

    def __init__(self, is_live: Callable[[Due], bool]) -> None:
        self._heap: list[int] = []
        self._is_live = is_live
        self._sweep_at = 0
        # Entries that came once more: a message that is released again and again must not be entered each time.
        self._returned: set[int] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, when_ms: int, queue_id: int, ident: int, *, again: bool = False) -> None:
        entry = when_ms << 96 | queue_id << 64 | ident
        if again:
            if entry in self._returned:
                return
            self._returned.add(entry)
        heapq.heappush(self._heap, entry)
        if len(self._heap) > _SWEEP_ABOVE:
            # What was settled long before its time leaves stale entries. One comes, two are looked at: about as many
            # stale ones stay as live ones, and no push ever waits for all of them.
            self._sweep()
            self._sweep()

    def load(self, entries: Iterable[tuple[int, int, int]]) -> None:
        """Many that are live, at once: a restart must not sift each of a million into its place."""
        self._heap.extend(when_ms << 96 | queue_id << 64 | ident for when_ms, queue_id, ident in entries)
        heapq.heapify(self._heap)

    def _sweep(self) -> None:
        heap = self._heap
        self._sweep_at = at = self._sweep_at if self._sweep_at < len(heap) else 0
        if self._is_live(_unpack(heap[at])):
            self._sweep_at += 1
            return
        self._returned.discard(heap[at])
        moved = heap.pop()
        if at == len(heap):
            return
        # As heapq does it for the root: the last entry takes the place, and goes up or down to where it belongs.
        while at and moved < heap[(at - 1) // 2]:
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        while (below := 2 * at + 1) < len(heap):
            if below + 1 < len(heap) and heap[below + 1] < heap[below]:
                below += 1
            if heap[below] >= moved:
                break
            heap[at] = heap[below]
            at = below
        heap[at] = moved

    def may_be_due(self, now_ms: int) -> bool:
        """False: nothing is due. True may be said of a stale entry: `next_ms` and `due` know."""
        heap = self._heap
        return bool(heap) and heap[0] >> 96 <= now_ms

    def next_ms(self) -> int | None:
        """Forgetting stale entries on the way changes nothing that can be seen."""
        while self._heap:
            due = _unpack(self._heap[0])
            if self._is_live(due):
                return due.when_ms
            self._returned.discard(heapq.heappop(self._heap))
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

"""Knows by which earlier ids messages can be found that reactions have changed; never changes one.

A message that is changed enters its queue anew, with another id (V8). Whoever knows an earlier one may still name it.
"""

from __future__ import annotations

from collections.abc import Iterable

IDS_KEPT = 16
"""Of one message: that of its first version, and the newest ones."""


class Versions:
    """Of one queue: its messages that are not the first of their versions."""

    __slots__ = ("_by_index", "_by_place")

    def __init__(self, rows: Iterable[tuple[int, list[int]]] = ()) -> None:
        self._by_index: dict[int, tuple[int, ...]] = {}  # places of earlier versions in the log, the first one first
        self._by_place: dict[int, int] = {}
        for index, places in rows:
            self._put(index, tuple(places))

    def __len__(self) -> int:
        return len(self._by_index)

    def find(self, log_index: int, ordinal: int) -> int | None:
        """Index of the message that an earlier version has become; None: there is no such one."""
        return self._by_place.get(_place(log_index, ordinal))

    def places(self, index: int) -> list[tuple[int, int]]:
        """Of the earlier versions of a message: log index and ordinal."""
        return [(place >> 16, place & 0xFFFF) for place in self._by_index.get(index, ())]

    def replace(self, index: int, log_index: int, ordinal: int, new_index: int) -> None:
        """The message at that index and place leaves, and enters at another index."""
        places = (*self._by_index.pop(index, ()), _place(log_index, ordinal))
        if len(places) > IDS_KEPT:
            del self._by_place[places[1]]
            places = (places[0], *places[2:])
        self._put(new_index, places)

    def _put(self, index: int, places: tuple[int, ...]) -> None:
        self._by_index[index] = places
        for place in places:
            self._by_place[place] = index

    def forget(self, start: int, end: int) -> None:
        """They have left the queue."""
        few = range(start, end) if end - start <= len(self._by_index) else list(self._by_index)
        for index in few:
            if start <= index < end:
                for place in self._by_index.pop(index, ()):
                    del self._by_place[place]

    def rows(self) -> list[tuple[int, list[int]]]:
        """By rising index."""
        return [(index, list(places)) for index, places in sorted(self._by_index.items())]


def _place(log_index: int, ordinal: int) -> int:
    return log_index << 16 | ordinal

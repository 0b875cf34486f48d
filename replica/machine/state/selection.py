"""Knows which message of a queue with lockstep SELECTED is the k-th that its sides are given (K3); never chooses one.

A row of indexes by k, from the first one that a side may still need, where in it neighbours end that are neighbours in
the queue too, and for each record that selected some its last k: what is looked up costs by runs, not by messages.
The messages themselves stand under one lease that ends with the last of them: nothing that spares what is leased
touches them (K5).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from replica.machine.sets.ranges import Run


class SelectedRun(NamedTuple):
    """Neighbours in the selection that are neighbours in the queue."""

    first: int
    """The number k of `start`."""
    start: int
    end: int


class SideOrder:
    """Of one queue."""

    __slots__ = ("_firsts", "_indexes", "_lasts", "_logs", "first", "lease_id", "visible")

    def __init__(self) -> None:
        self.first = 1
        """Number of the first message that is known; `following` when there is none."""
        self.lease_id = 0
        """Under which the messages stand; 0: there are none."""
        self.visible = 0
        """Highest number whose record is committed, as far as this member knows; no part of the state."""
        self._indexes: array[int] = array("Q")
        self._firsts: array[int] = array("Q")
        """Numbers at which a run begins, rising; those behind `first` are enough."""
        self._logs: array[int] = array("Q")
        """Log indexes of the records that selected these, rising..."""
        self._lasts: array[int] = array("Q")
        """... and the last number of each."""

    @property
    def following(self) -> int:
        """Number of the message that is selected next."""
        return self.first + len(self._indexes)

    def add(self, log_index: int, runs: list[Run]) -> None:
        """By one record."""
        for start, end in runs:
            if self._indexes and self._indexes[-1] + 1 != start:
                self._firsts.append(self.following)
            self._indexes.extend(range(start, end))
        self._logs.append(log_index)
        self._lasts.append(self.following - 1)

    def forget(self, until: int) -> None:
        """All up to that number have been passed by all sides."""
        count = until + 1 - self.first
        if count > 0:
            del self._indexes[:count]
            self.first = until + 1
            records = bisect_right(self._lasts, until)
            del self._logs[:records], self._lasts[:records]
            del self._firsts[: bisect_right(self._firsts, self.first)]

    def runs(self, first: int, below: int) -> Iterator[SelectedRun]:
        """Of the messages with these numbers, by rising number."""
        number, until = max(first, self.first), min(below, self.following)
        following = bisect_right(self._firsts, number)
        while number < until:
            end = min(until, self._firsts[following]) if following < len(self._firsts) else until
            start = self._indexes[number - self.first]
            yield SelectedRun(number, start, start + end - number)
            number, following = end, following + 1

    def committed(self, commit_index: int) -> int:
        """Highest number whose record is at or below that one."""
        at = bisect_right(self._logs, commit_index)
        return self._lasts[at - 1] if at else self.first - 1

    def beyond(self, commit_index: int) -> list[tuple[int, int]]:
        """Log index and last number of the records that are not committed."""
        return [pair for pair in zip(self._logs, self._lasts, strict=True) if pair[0] > commit_index]

    def columns(self) -> tuple[array[int], array[int], array[int]]:
        """Indexes by number, and log index and last number by record."""
        return self._indexes, self._logs, self._lasts

    @classmethod
    def from_columns(cls, first: int, lease_id: int, columns: tuple[array[int], array[int], array[int]]) -> SideOrder:
        """As `columns` gave it."""
        made = cls()
        made.first, made.lease_id = first, lease_id
        made._indexes, made._logs, made._lasts = columns
        neighbours = enumerate(pairwise(made._indexes), first + 1)
        made._firsts.extend(number for number, (before, index) in neighbours if before + 1 != index)
        return made

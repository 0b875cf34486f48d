"""Keeps a set of integers as merged runs where runs come and go in its middle; never knows what the integers stand for.

A `RangeSet` for each page of neighbouring integers: a change moves what is behind it in its page and nothing else, as a
set of a hundred thousand runs would else cost microseconds for each. Runs that are long stay cheap: one a page.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import chain

from replica.machine.sets.ranges import WALK_SHARE, RangeSet, Run, in_both

_SHIFT = 12  # 4,096 integers a page, so at most 32 KiB of boundaries


class PagedSet:
    """It reads like a `RangeSet`."""

    __slots__ = ("_numbers", "_pages", "size")

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._numbers: list[int] = []  # of the pages that are not empty, rising
        self._pages: dict[int, RangeSet] = {}
        self.size = 0  # integers in the set
        for start, end in runs:
            self.add(start, end)

    def __bool__(self) -> bool:
        return self.size > 0

    def __iter__(self) -> Iterator[Run]:
        """Merged, also over the borders of pages; goes no further than the caller. It must not change meanwhile."""
        start = end = 0
        for number in self._numbers:
            for low, high in self._pages[number]:
                if low == end:
                    end = high
                    continue
                if end:
                    yield start, end
                start, end = low, high
        if end:
            yield start, end

    def __contains__(self, value: int) -> bool:
        page = self._pages.get(value >> _SHIFT)
        return page is not None and value in page

    @property
    def first(self) -> int:
        return self._pages[self._numbers[0]].first

    def edges(self) -> array[int]:
        """The same for equal sets whatever happened to them before."""
        edges: array[int] = array("Q")
        for number in self._numbers:
            more = self._pages[number].edges()
            if edges and edges[-1] == more[0]:
                edges.pop()
                del more[0]
            edges.extend(more)
        return edges

    def add(self, start: int, end: int) -> None:
        """The caller knows that nothing of it is in the set."""
        self.size += end - start
        for number in range(start >> _SHIFT, ((end - 1) >> _SHIFT) + 1):
            page = self._pages.get(number)
            if page is None:
                page = self._pages[number] = RangeSet()
                insort(self._numbers, number)
            page.add(max(start, number << _SHIFT), min(end, (number + 1) << _SHIFT))

    def discard(self, start: int, end: int) -> int:
        """Takes out what is in it of this run; says how many integers that were."""
        gone = 0
        for number in self._within(start, end):
            page = self._pages[number]
            gone += page.discard(start, end)
            if not page.size:
                del self._pages[number], self._numbers[bisect_left(self._numbers, number)]
        self.size -= gone
        return gone

    def runs(self, start: int, end: int) -> Iterator[Run]:
        """What is in it of this run, by rising start, cut at the borders of pages. It must not change meanwhile."""
        for number in self._within(start, end):
            yield from self._pages[number].runs(start, end)

    def common(self, other: RangeSet) -> Iterator[Run]:
        """What is in both, by rising start. Neither must change meanwhile."""
        if other.run_count * WALK_SHARE < sum(page.run_count for page in self._pages.values()):
            for start, end in other:
                yield from self.runs(start, end)
            return
        pages = (self._pages[number] for number in self._numbers)
        yield from in_both(chain.from_iterable(pages), other)

    def _within(self, start: int, end: int) -> list[int]:
        if start >> _SHIFT == (end - 1) >> _SHIFT:
            return [start >> _SHIFT] if start >> _SHIFT in self._pages else []
        numbers = self._numbers
        return numbers[bisect_left(numbers, start >> _SHIFT) : bisect_left(numbers, ((end - 1) >> _SHIFT) + 1)]


Level = RangeSet | PagedSet

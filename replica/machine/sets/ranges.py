"""Keeps a set of integers as merged runs; never knows what the integers stand for.

One flat column of boundaries, start, end, start, end...: an integer is in the set when an odd number of boundaries is
at or below it. A run costs 16 bytes whatever its length. Consuming from the front moves an offset; the space behind the
offset takes back what returns to the front, so that releasing the oldest messages does not move the others.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Run = tuple[int, int]  # start, end; end is not in it

# Below this the space in front of the offset is not worth moving the rest for.
_SLACK_EDGES = 1024
# To look for a run among many costs as much as to step over so many.
WALK_SHARE = 8


class RangeSet:
    """Disjoint runs by rising start, neighbours merged. Every method takes half-open runs."""

    __slots__ = ("_edges", "_head", "size")

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._edges: array[int] = array("Q")
        self._head = 0  # even: boundaries before it are gone
        self.size = 0  # integers in the set
        for start, end in runs:
            self.add(start, end)

    @classmethod
    def from_edges(cls, edges: array[int]) -> RangeSet:
        made = cls()
        made._edges = edges
        made.size = sum(edges[1::2]) - sum(edges[::2])
        return made

    def edges(self) -> array[int]:
        """A copy, the same for equal sets whatever happened to them before."""
        return self._edges[self._head :]

    def __bool__(self) -> bool:
        return self.size > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._edges[self._head :] == other._edges[other._head :]

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __iter__(self) -> Iterator[Run]:
        edges = self._edges
        for at in range(self._head, len(edges), 2):
            yield edges[at], edges[at + 1]

    def __repr__(self) -> str:
        return f"RangeSet({list(self)})"

    def __contains__(self, value: int) -> bool:
        return bool(bisect_right(self._edges, value, self._head) & 1)

    @property
    def first(self) -> int:
        return self._edges[self._head]

    @property
    def run_count(self) -> int:
        return (len(self._edges) - self._head) // 2

    def add(self, start: int, end: int) -> None:
        """The caller knows that nothing of it is in the set: counting would cost what merging saves."""
        edges = self._edges
        self.size += end - start
        if len(edges) == self._head or start > edges[-1]:
            edges.append(start)
            edges.append(end)
        elif start == edges[-1]:
            edges[-1] = end
        else:
            at, until = bisect_left(edges, start, self._head), bisect_right(edges, end, self._head)
            assert not _overlap(edges, at, until, start, end), "added twice"
            self._replace(at, until, start if not at & 1 else None, end if not until & 1 else None)

    def discard(self, start: int, end: int) -> int:
        """Takes out what is in it of this run; says how many integers that were."""
        edges = self._edges
        at, until = bisect_left(edges, start, self._head), bisect_right(edges, end, self._head)
        gone = _overlap(edges, at, until, start, end)
        if gone:
            self.size -= gone
            self._replace(at, until, start if at & 1 else None, end if until & 1 else None)
        return gone

    def remove(self, start: int, end: int) -> None:
        """All of the run must be in the set."""
        gone = self.discard(start, end)
        assert gone == end - start, "removed what is not there"

    def _replace(self, at: int, until: int, first: int | None, second: int | None) -> None:
        edges = self._edges
        new = array("Q", [edge for edge in (first, second) if edge is not None])
        grow = len(new) - (until - at)
        if self._head >= grow and at - self._head < len(edges) - until:
            # Nearer to the front, and there is room: move that part instead of the rest.
            edges[self._head - grow : at - grow] = edges[self._head : at]
            self._head -= grow
            edges[at - grow : until] = new
            self._trim()
        else:
            edges[at:until] = new
        if len(edges) == self._head:
            del edges[:]
            self._head = 0

    def _trim(self) -> None:
        if self._head > _SLACK_EDGES and self._head * 2 > len(self._edges):
            del self._edges[: self._head]
            self._head = 0

    def covers(self, start: int, end: int) -> bool:
        at = bisect_right(self._edges, start, self._head)
        return bool(at & 1) and self._edges[at] >= end

    def count(self, start: int, end: int) -> int:
        """Integers of this run that are in the set."""
        edges = self._edges
        at, until = bisect_left(edges, start, self._head), bisect_right(edges, end, self._head)
        return _overlap(edges, at, until, start, end)

    def runs(self, start: int, end: int) -> Iterator[Run]:
        """What is in the set of this run, by rising start. The set must not change meanwhile."""
        edges = self._edges
        at = bisect_right(edges, start, self._head) & ~1
        for place in range(max(at, self._head), len(edges), 2):
            low, high = max(edges[place], start), min(edges[place + 1], end)
            if edges[place] >= end:
                return
            if low < high:
                yield low, high

    def gaps(self, start: int, end: int) -> Iterator[Run]:
        """What is not in the set of this run."""
        for low, high in self.runs(start, end):
            if start < low:
                yield start, low
            start = high
        if start < end:
            yield start, end

    def common(self, other: RangeSet) -> Iterator[Run]:
        """What is in both, by rising start. Neither must change meanwhile."""
        few, many = (self, other) if self.run_count <= other.run_count else (other, self)
        if few.run_count * WALK_SHARE < many.run_count:
            for start, end in few:
                yield from many.runs(start, end)
            return
        yield from in_both(few, many)


def in_both(one: Iterable[Run], other: Iterable[Run]) -> Iterator[Run]:
    """Of two series of runs, each by rising start."""
    ours, theirs = iter(one), iter(other)
    first, second = next(ours, None), next(theirs, None)
    while first is not None and second is not None:
        low, high = max(first[0], second[0]), min(first[1], second[1])
        if low < high:
            yield low, high
        if first[1] <= second[1]:
            first = next(ours, None)
        else:
            second = next(theirs, None)


def _overlap(edges: array[int], at: int, until: int, start: int, end: int) -> int:
    """Integers that runs with boundaries at..until share with start..end; the ends of the run may cut runs in two."""
    if at == until:  # no boundary inside: all of it is in one run, or none
        return end - start if at & 1 and end > start else 0
    gone = 0
    if at & 1:
        gone += edges[at] - start
        at += 1
    if until & 1:
        until -= 1
        gone += end - edges[until]
    for place in range(at, until, 2):
        gone += edges[place + 1] - edges[place]
    return gone

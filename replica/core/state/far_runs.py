"""Messages that another manager has leased to this one, as places in the batches that hold them there. They are taken
apart by two numbers: no body is copied. Never asks that manager anything.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tandemq.v1.message_pb2 import DeliveredSegment, MessageBatch

    Range = tuple[int, int]


class Gone:
    """Ordering indexes that are in any of some ranges (first, count). Another manager names them: they may be many,
    overlap, and have no end, so that looking for one must not go through all.
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        known = sorted(ranges)
        self._firsts = [first for first, _ in known]
        self._ends = list(accumulate((first + count for first, count in known), max))

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self._firsts, index)
        return at > 0 and index < self._ends[at - 1]


class FarRun(NamedTuple):
    """Messages of one lease, one record and one priority, in the order of delivery. Immutable."""

    lease_id: int
    """As that manager has it."""
    segment: DeliveredSegment
    batch: MessageBatch
    """Of the segment, read."""
    start: int
    end: int
    """Places in the batch."""
    priority: int

    @property
    def size(self) -> int:
        """Messages."""
        return self.end - self.start

    @property
    def age(self) -> tuple[int, int]:
        """By which it is compared with others: its priority and its time of entry."""
        return self.priority, self.segment.enqueue_time_ms

    def index_at(self, place: int) -> int:
        """Ordering index, of a place in the batch."""
        return self.segment.indexes[place] if self.segment.indexes else self.segment.first_index + place

    def ranges(self) -> list[Range]:
        """Ordering indexes as (first, count)."""
        if not self.segment.indexes:
            return [(self.segment.first_index + self.start, self.size)]
        made: list[Range] = []
        for index in self.segment.indexes[self.start : self.end]:
            if made and sum(made[-1]) == index:
                made[-1] = made[-1][0], made[-1][1] + 1
            else:
                made.append((index, 1))
        return made

    @property
    def bytes(self) -> int:
        """Of its payloads."""
        return sum(map(len, self.batch.payloads[self.start : self.end]))

    def fits(self, most: int, bytes_max: int) -> tuple[int, int]:
        """How many of its messages are that many at most, and have that many bytes at most; and their bytes."""
        whole = len(self.segment.batch)
        if self.size <= most and whole <= bytes_max:  # nearly always, and known without a look at them
            return self.size, whole
        found, sizes = 0, 0
        for payload in self.batch.payloads[self.start : self.end][:most]:
            if sizes + len(payload) > bytes_max:
                break
            found, sizes = found + 1, sizes + len(payload)
        return found, sizes

    def split(self, count: int) -> tuple[FarRun, FarRun]:
        """The first ones, and the others; neither is empty."""
        assert 0 < count < self.size, "the whole is no part"
        return self._replace(end=self.start + count), self._replace(start=self.start + count)

    def without(self, gone: Gone) -> Iterator[FarRun]:
        """What is left of it where messages of these indexes are not there any more."""
        places = ((self.index_at(place) in gone, place) for place in range(self.start, self.end))
        for is_gone, group in groupby(places, key=itemgetter(0)):
            if not is_gone:
                left = [place for _, place in group]
                yield self._replace(start=left[0], end=left[-1] + 1)


def count_of(runs: Iterable[FarRun]) -> int:
    """Messages."""
    return sum(run.size for run in runs)


def left_of(runs: Iterable[FarRun], gone: Sequence[Range]) -> list[FarRun]:
    """Those that are in none of these ranges (first index, count)."""
    lost = Gone(gone)
    return [left for run in runs for left in run.without(lost)] if gone else list(runs)

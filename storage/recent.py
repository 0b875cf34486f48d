"""Decides what is added to the database's answers by commits that it does not hold yet; never reads, writes or waits.

`Recent` is a value: what is pending at one moment. Records are only ever appended, each above all others of its
domain, so what is pending of a domain is a tail. A tail shares its lists with those that came before it, which see
less of them: adding costs what is added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from storage.store import Append


class Tail(NamedTuple):
    """The pending records of one domain: the first `end` of these lists, which only grow."""

    log_indexes: list[int]
    records: list[bytes]
    end: int

    def read(self, log_index: int) -> bytes | None:
        """One record."""
        at = bisect_left(self.log_indexes, log_index, 0, self.end)
        return self.records[at] if at < self.end and self.log_indexes[at] == log_index else None

    def rows(self, first: int) -> Iterator[tuple[int, bytes]]:
        """From this log index up."""
        at = bisect_left(self.log_indexes, first, 0, self.end)
        return ((self.log_indexes[place], self.records[place]) for place in range(at, self.end))

    @property
    def lowest(self) -> int:
        return self.log_indexes[0]

    @property
    def highest(self) -> int:
        return self.log_indexes[self.end - 1]


class Recent(NamedTuple):
    """What is pending. Made from NOTHING by `add`, one commit after the other by one thread, and by `since`."""

    tails: Mapping[int, Tail]
    meta: Mapping[str, tuple[int, bytes | None]]
    """By key: number of the commit, value; None deletes."""
    last: int
    """Number of the last commit."""
    size: int
    """Bytes of records and values."""
    changes: int

    def __bool__(self) -> bool:
        return bool(self.changes)

    def add(self, number: int, appends: Sequence[Append], meta: Mapping[str, bytes | None]) -> Recent:
        """And one commit more. Not twice to the same value."""
        tails = dict(self.tails)
        size = 0
        ends: dict[int, int] = {}
        for domain, log_index, record in appends:
            tail = tails.get(domain)
            if tail is None:
                tail = tails[domain] = Tail([], [], 0)
            tail.log_indexes.append(log_index)
            tail.records.append(record)
            ends[domain] = ends.get(domain, tail.end) + 1
            size += len(record)
        for domain, end in ends.items():
            tails[domain] = tails[domain]._replace(end=end)
            assert len(tails[domain].records) == end, "a value that was not the newest was added to"
        merged = self.meta
        if meta:
            merged = {**self.meta, **{key: (number, value) for key, value in meta.items()}}
            size += sum(len(value or b"") for value in meta.values())
        return Recent(tails, merged, number, self.size + size, self.changes + len(appends) + len(meta))

    def since(self, earlier: Recent) -> Recent:
        """Without what the earlier value held, with lists of its own."""
        if self.last == earlier.last:
            return NOTHING
        tails: dict[int, Tail] = {}
        for domain, tail in self.tails.items():
            start = earlier.tails[domain].end if domain in earlier.tails else 0
            if tail.end > start:
                indexes, records = tail.log_indexes[start : tail.end], tail.records[start : tail.end]
                tails[domain] = Tail(indexes, records, len(indexes))
        meta = {key: found for key, found in self.meta.items() if found[0] > earlier.last}
        return Recent(tails, meta, self.last, self.size - earlier.size, self.changes - earlier.changes)


NOTHING = Recent({}, {}, 0, 0, 0)


class Published(NamedTuple):
    """What readers find, replaced as a whole: what is pending, and which write to the database is the last that began.

    A reader takes this, then begins to read the database, and then looks whether another write has started meanwhile.
    If so it starts over. If not, what it reads is of before that last write, or of after it; after it when that had
    ended when this was published. Thus nobody waits for a sync.
    """

    now: Recent = NOTHING
    attempt: int = 0
    """Counts the writes to the database that have started."""
    writing: Recent | None = None
    """While one is under way: what of `now` it writes; all else in it is newer than `now`, and changes nothing here."""
    transaction: int = 0
    """Its number."""

    def over(self, transaction: int) -> Recent:
        """What is to be added to a read of the database as that transaction left it, this write being the last."""
        if self.writing is None or transaction < self.transaction:
            return self.now
        return self.now.since(self.writing)

    def started(self, transaction: int) -> Published:
        """A write of all that is pending now begins."""
        return Published(self.now, self.attempt + 1, self.now, transaction)

    def ended(self, *, done: bool) -> Published:
        """The write has ended, and what it wrote is in the database, or nothing is."""
        assert self.writing is not None
        return Published(self.now.since(self.writing) if done else self.now, self.attempt)

"""Knows which kept reactions a message may fit, by hashes of its ids; reads no message, and never decides what is done.

The reactions are the messages of a queue of their own (V11). Their records carry what they are found by.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from replica.machine.sets.packing import bytes_of, range_set
from replica.machine.sets.ranges import RangeSet, Run
from tandemq.peer.v1.record_pb2 import KEPT_BY_SELECTOR

KeptRow = tuple[int, int, list[int]]
"""Index, what it is found by, and the hashes."""
DENIED_RUNS_MAX = 64
"""Runs of messages that one was denied. With more it is denied all that is before their end."""


def kept_hash(name: str | bytes) -> int:
    """Of an id, the same at every member and for ever."""
    data = name.encode() if isinstance(name, str) else name
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def place_name(domain: int, log_index: int, ordinal: int) -> bytes:
    """A message id without its epoch, to be hashed."""
    return domain.to_bytes(4, "big") + log_index.to_bytes(6, "big") + ordinal.to_bytes(2, "big")


class KeptIndex:
    """Of one queue of kept reactions."""

    __slots__ = ("_by_hash", "_counts", "_keys", "denied", "hashes", "queue_id", "selectors")

    def __init__(self, queue_id: int, rows: Iterable[KeptRow] = ()) -> None:
        self.queue_id = queue_id  # whose messages they act on
        self.selectors: list[int] = []  # those that may fit any message, by rising index
        self.hashes = 0  # of all of them
        self.denied: dict[int, RangeSet] = {}  # by index, messages that one never acts on (V16)
        self._keys: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._by_hash: dict[tuple[int, int], list[int]] = {}
        self._counts: dict[int, int] = {}
        for index, by, hashes in rows:
            self.put(index, by, hashes)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, index: int) -> bool:
        return index in self._keys

    def put(self, index: int, by: int, hashes: Iterable[int]) -> None:
        """A reaction is kept at that index. `by`: a number of KeptBy."""
        key = self._keys[index] = by, tuple(hashes)
        self._counts[by] = self._counts.get(by, 0) + 1
        self.hashes += len(key[1])
        if by == KEPT_BY_SELECTOR:
            insort(self.selectors, index)
        for each in key[1]:
            insort(self._by_hash.setdefault((by, each), []), index)

    def forget(self, start: int, end: int) -> None:
        """They have left their queue."""
        few = range(start, end) if end - start <= len(self._keys) else [key for key in self._keys if start <= key < end]
        for index in few:
            if index in self._keys:
                self._forget(index)

    def deny(self, index: int, runs: Iterable[Run], start: int) -> None:
        """One never acts on these messages. `start`: of those before it none is in the queue."""
        known = self.denied.get(index, RangeSet())
        runs = [(max(low, start), high) for low, high in (*known, *runs) if high > start]
        made = RangeSet()
        for low, high in sorted(runs):
            for gap in list(made.gaps(low, high)):
                made.add(*gap)
        if made.run_count > DENIED_RUNS_MAX:
            made = RangeSet([(start, max(high for _, high in made))])
        self.denied[index] = made

    def is_denied(self, index: int, message: int) -> bool:
        """Whether one never acts on that message."""
        return index in self.denied and message in self.denied[index]

    def _forget(self, index: int) -> None:
        self.denied.pop(index, None)
        by, hashes = self._keys.pop(index)
        self._counts[by] -= 1
        self.hashes -= len(hashes)
        if not self._counts[by]:
            del self._counts[by]
        if by == KEPT_BY_SELECTOR:
            del self.selectors[bisect_left(self.selectors, index)]
        for each in hashes:
            known = self._by_hash[by, each]
            del known[bisect_left(known, index)]
            if not known:
                del self._by_hash[by, each]

    def has(self, by: int) -> bool:
        """Whether one is found by that."""
        return by in self._counts

    def find(self, by: int, name: str | bytes) -> Sequence[int]:
        """Indexes of those that may fit a message of that id, rising."""
        return self._by_hash.get((by, kept_hash(name)), ())

    def known(self, by: int, names: Iterable[str | bytes]) -> list[bool]:
        """Whether `find` finds any, for each."""
        return [(by, kept_hash(name)) in self._by_hash for name in names]

    def most(self, by: int, hashes: Iterable[int]) -> int:
        """How many there are, at most, that a message of one of these may fit."""
        return max((len(self._by_hash.get((by, each), ())) for each in hashes), default=0)

    def denied_rows(self) -> list[tuple[int, bytes]]:
        """Index and runs, by rising index."""
        return [(index, bytes_of(runs.edges())) for index, runs in sorted(self.denied.items())]

    def read_denied(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """As they were written."""
        self.denied.update((index, range_set(edges)) for index, edges in rows)

    def rows(self) -> list[KeptRow]:
        """By rising index."""
        return [(index, by, list(hashes)) for index, (by, hashes) in sorted(self._keys.items())]

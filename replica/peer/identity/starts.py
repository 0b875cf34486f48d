"""Remembers which processes have run on a data directory, so that another one's start is told from an own.

A number alone does not tell: a directory that was put back from an image counts its own starts on, and catches up with
the number that somebody else has seen when two of them end before anybody has counted them (0032). Asks nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from storage.errors import CorruptRecord

NUMBER_MAX = 1 << 40
"""No member starts so often; ids of transfers are made of the number, and have room for that."""
ID_BYTES = 8
ANCHORS, RECENT = 1_024, 1_024
_ENTRY = Struct(f">?Q{ID_BYTES}s")


class Start(NamedTuple):
    """One process of a member."""

    number: int
    process: bytes = b""
    """The first bytes of its id; empty: nobody says."""

    @classmethod
    def of(cls, number: int, process: bytes) -> Start:
        """With as much of the id as is kept."""
        kept = process[:ID_BYTES].ljust(ID_BYTES, b"\0")
        return cls(number, kept if any(kept) else b"")


@dataclass(frozen=True, slots=True)
class Starts:
    """Of one directory, oldest first; ends with this process's own."""

    anchors: tuple[Start, ...]
    """Those that were counted, and those of others whose state this directory has been given. The last `ANCHORS`."""
    recent: tuple[Start, ...]
    """All of this directory, counted or not. The first one and the last `RECENT`: what lies between is taken for
    another's, which is safe, and what is below the first one must not rise while nothing is counted.
    """

    @property
    def number(self) -> int:
        """Of this start."""
        return self.recent[-1].number

    @property
    def process(self) -> bytes:
        """Of this start."""
        return self.recent[-1].process

    def is_others(self, seen: Start) -> bool:
        """Whether somebody has seen a start of this member that was on another directory, or on a later state of this
        one. What lies before everything that is remembered was here once, as far as anybody can say.
        """
        if not seen.process:
            return seen.number >= self.number
        if seen in self.anchors or seen in self.recent:
            return False
        is_cut = len(self.anchors) == ANCHORS
        return seen.number >= min(each.number for each in (self.anchors if is_cut else (*self.anchors, *self.recent)))

    def after(self, seen: Start) -> Starts:
        """Go on from another one's start, whose state this copy is given: this one gets a number above both."""
        own = Start(max(seen.number, self.number) + 1, self.process)
        return Starts(_anchored(self.anchors, seen), _kept((*self.recent, own)))

    def counted(self) -> Starts:
        """So is this one."""
        return Starts(_anchored(self.anchors, self.recent[-1]), self.recent)

    def encode(self) -> bytes:
        """What is kept of them."""
        entries = [*((True, *each) for each in self.anchors), *((False, *each) for each in self.recent)]
        return b"".join(_ENTRY.pack(*entry) for entry in entries)


def begin(last: int, stored: bytes, process: bytes) -> Starts:
    """One more start, after number `last`. `stored`: what `encode` gave, empty if nothing was; it counts unless the
    starts went on without it. Raises CorruptRecord for what is nothing of the kind.
    """
    if len(stored) % _ENTRY.size:
        raise CorruptRecord(f"The list of the last starts has {len(stored)} bytes, no multiple of {_ENTRY.size}")
    entries = [(is_anchor, Start.of(number, found)) for is_anchor, number, found in _ENTRY.iter_unpack(stored)]
    anchors = tuple(start for is_anchor, start in entries if is_anchor)
    recent = tuple(start for is_anchor, start in entries if not is_anchor)
    if not recent or recent[-1].number != last:
        anchors, recent = (), ()
    return Starts(anchors, _kept((*recent, Start.of(last + 1, process))))


def _kept(recent: tuple[Start, ...]) -> tuple[Start, ...]:
    return recent if len(recent) <= RECENT else (recent[0], *recent[1 - RECENT :])


def _anchored(anchors: tuple[Start, ...], start: Start) -> tuple[Start, ...]:
    return (*(each for each in anchors if each != start), start)[-ANCHORS:]

"""Remembers which processes have run on a data directory, so that another one's start is told from an own.

A number alone does not tell: a directory that was put back from an image counts its own starts on, and catches up with
the number that somebody else has seen when two of them end before anybody has counted them (0032). Asks nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

ID_BYTES = 8
KEPT = 64
"""Starts that are remembered. Only those that nobody has counted add up."""
_ENTRY = Struct(f">Q{ID_BYTES}s")


class Start(NamedTuple):
    """One process of a member."""

    number: int
    process: bytes = b""
    """The first bytes of its id; empty: nobody says."""

    @classmethod
    def of(cls, number: int, process: bytes) -> Start:
        """With as much of the id as is kept."""
        return cls(number, process[:ID_BYTES].ljust(ID_BYTES, b"\0") if process.strip(b"\0") else b"")


@dataclass(frozen=True, slots=True)
class Starts:
    """Of one directory, by number: the one that was counted last, and those since. Ends with this process's own."""

    known: tuple[Start, ...]

    @property
    def number(self) -> int:
        """Of this start."""
        return self.known[-1].number

    @property
    def process(self) -> bytes:
        """Of this start."""
        return self.known[-1].process

    def is_others(self, seen: Start) -> bool:
        """Whether somebody has seen a start of this member that was on another directory, or on a later state of this
        one. What lies before everything that is remembered was here once, as far as anybody can say.
        """
        if not seen.process:
            return seen.number >= self.number
        return seen not in self.known and seen.number >= self.known[0].number

    def after(self, seen: Start) -> Starts:
        """Go on from another one's start, whose state this copy is given: this one gets a number above both."""
        own = Start(max(seen.number, self.number) + 1, self.process)
        return _kept((*sorted({*self.known, seen}), own))

    def counted(self) -> Starts:
        """Nothing before this start is asked for any more."""
        return Starts(self.known[-1:])

    def encode(self) -> bytes:
        """What is kept of them."""
        return b"".join(_ENTRY.pack(number, process) for number, process in self.known)


def begin(last: int, stored: bytes, process: bytes) -> Starts:
    """One more start, after number `last`. `stored`: what `encode` gave, empty if nothing was; it counts unless the
    starts went on without it.
    """
    known = [Start.of(number, found) for number, found in _ENTRY.iter_unpack(stored)]
    if known and known[-1].number != last:
        known = []
    return _kept((*known, Start.of(last + 1, process)))


def _kept(known: tuple[Start, ...]) -> Starts:
    """The first one stays: it was counted."""
    return Starts(known if len(known) <= KEPT else (known[0], *known[1 - KEPT :]))

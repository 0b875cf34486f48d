"""Turns fuzz input into choices, one byte or a few at a time; it never fails and, once it is used up, gives zeros.

The same input always makes the same choices, and a change of one byte changes little after it: a fuzzer that sees
coverage can then climb, and a failing input can be made shorter by leaving bytes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

EDGES = (0, 1, 2, 255, 256, 65_535, 1 << 31, (1 << 32) - 1, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
"""Where numbers stop fitting."""
TEXTS = ("", "q", "r", "q/sub", "no-such", "..", "SYSTEM.x", "a b", "ä", "x" * 255, "x" * 256, "q\0", "q\n")


class Source:
    """Choices from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        return self.take(1)[0]

    def take(self, count: int) -> bytes:
        """Exactly that many bytes."""
        found = self._data[self._at : self._at + count]
        self._at += count
        return found + bytes(count - len(found))

    def rest(self) -> bytes:
        found, self._at = self._data[self._at :], len(self._data)
        return found

    def blob(self, limit: int = 40) -> bytes:
        """Up to `limit` bytes, no more than there are."""
        count = min(self.byte() % (limit + 1), len(self._data) - self._at)
        return self.take(max(0, count))

    def number(self, low: int, high: int) -> int:
        """From low to high, both possible."""
        span = high - low + 1
        return low + int.from_bytes(self.take(1 if span <= 256 else 4), "big") % span

    def pick(self, values: Sequence[T]) -> T:
        return values[self.number(0, len(values) - 1)]

    def rarely(self) -> bool:
        """One time in eight; never when the input is used up."""
        return self.byte() % 8 == 7

    def flag(self) -> bool:
        return bool(self.byte() & 1)

    def u64(self, near: int = 0) -> int:
        """A number that is probably close to `near`, else one at which something stops fitting."""
        choice = self.byte()
        if choice < 200:
            return max(0, min((1 << 64) - 1, near + choice % 8 - (3 if choice & 64 else 0)))
        return EDGES[choice % len(EDGES)]

    def text(self) -> str:
        choice = self.byte()
        return TEXTS[choice % len(TEXTS)] if choice < 230 else self.blob().decode(errors="replace")

    def mutated(self, data: bytes) -> bytes:
        """The bytes with a few changes: bits flipped, cut short, a piece repeated or put in."""
        out = bytearray(data)
        for _ in range(1 + self.byte() % 3):
            at = self.number(0, max(0, len(out) - 1)) if out else 0
            kind = self.byte() % 5
            if kind == 0 and out:
                out[at] ^= 1 << self.byte() % 8
            elif kind == 1:
                del out[at:]
            elif kind == 2:
                out[at:at] = out[at : at + self.byte() % 16]
            elif kind == 3:
                out[at:at] = self.blob(16)
            elif out:
                out[at] = self.byte()
        return bytes(out)

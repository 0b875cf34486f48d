"""Makes payloads and knows them again: what was sent, what came, what is missing. No clock, no socket.

A payload is its number and one of 64 fillers of random bytes, chosen by the number. Both sides make the fillers from
the same seed, so the receiver compares every byte with what must have been sent: stricter than a checksum, and
cheaper.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable

HEAD = struct.Struct("<QQ")  # the number, and every bit of it turned over
FILLERS = 64
MASK = (1 << 64) - 1
SIZE_MIN = HEAD.size + 8


class Payloads:
    """Of one size and seed."""

    def __init__(self, size: int, seed: int) -> None:
        assert size >= SIZE_MIN, f"a payload has at least {SIZE_MIN} bytes"
        self.size = size
        chance = random.Random(f"{seed}:{size}")
        self._fillers = [chance.randbytes(size - HEAD.size) for _ in range(FILLERS)]

    def make(self, first: int, count: int) -> list[bytes]:
        pack, fillers = HEAD.pack, self._fillers
        return [pack(n, n ^ MASK) + fillers[n % FILLERS] for n in range(first, first + count)]

    def number_of(self, payload: bytes) -> int | None:
        """None when it is not, byte for byte, one that `make` made."""
        if len(payload) != self.size:
            return None
        number, turned = HEAD.unpack_from(payload)
        if number ^ turned != MASK or not payload.endswith(self._fillers[number % FILLERS]):
            return None
        return int(number)


class Ledger:
    """What a receiver has got: each number once, or what was wrong with it."""

    def __init__(self, payloads: Payloads) -> None:
        self._payloads = payloads
        self._seen = bytearray()
        self.received = 0  # different ones
        self.again = 0
        self.corrupt = 0

    def take(self, received: Iterable[bytes]) -> list[int]:
        """The numbers that came for the first time."""
        number_of, seen = self._payloads.number_of, self._seen
        new: list[int] = []
        for payload in received:
            number = number_of(payload)
            if number is None or number > 1 << 32:
                self.corrupt += 1
                continue
            if number >= len(seen):
                seen.extend(bytes(number + 1 - len(seen) + (1 << 16)))
            if seen[number]:
                self.again += 1
            else:
                seen[number] = 1
                new.append(number)
        self.received += len(new)
        return new

    def account(self, sent: int) -> dict[str, int]:
        """Against the numbers below `sent`, each of which was acknowledged. `unknown`: nobody sent them."""
        within = sum(self._seen[:sent])
        return {
            "sent": sent,
            "received": self.received,
            "lost": sent - within,
            "again": self.again,
            "corrupt": self.corrupt,
            "unknown": self.received - within,
        }

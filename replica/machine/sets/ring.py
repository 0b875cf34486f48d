"""Which member of a set a hash belongs to, so that a member that comes or goes moves no more than its share.

A ring and not the highest of a hash a member (rendezvous): that costs a look a member for each hash.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from functools import lru_cache
from hashlib import blake2b

POINTS = 64
"""Of each member: shares differ by an eighth or so."""


class Ring:
    """The same for the same members, in whatever order they came."""

    __slots__ = ("_homes", "_points")

    def __init__(self) -> None:
        self._points: list[int] = []  # rising
        self._homes: dict[int, list[int]] = {}  # members by point, rising; hardly ever more than one

    def add(self, member: int) -> None:
        """It is in it now."""
        for point in _points_of(member):
            homes = self._homes.setdefault(point, [])
            if not homes:
                insort(self._points, point)
            if member not in homes:
                insort(homes, member)

    def discard(self, member: int) -> None:
        """It is not in it."""
        for point in _points_of(member):
            homes = self._homes.get(point, [])
            if member not in homes:
                continue
            homes.remove(member)
            if not homes:
                del self._homes[point]
                del self._points[bisect_right(self._points, point) - 1]

    def home(self, key: int) -> int:
        """The member that a hash of 64 bits belongs to. There is one at least."""
        points = self._points
        return self._homes[points[bisect_right(points, key) % len(points)]][0]


@lru_cache(4_096)
def _points_of(member: int) -> tuple[int, ...]:
    return tuple(
        int.from_bytes(blake2b(b"%d/%d" % (member, place), digest_size=8).digest(), "big") for place in range(POINTS)
    )

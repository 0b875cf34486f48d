"""Holds the numbers of a writer's latest units with what each was made of; decides nothing.

Two columns instead of a dict: a thousand writers may have a thousand numbers each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

NUMBERS_KEPT = 1_024
"""Units of one writer that a repetition is compared with (U15)."""


class UnitNumbers:
    __slots__ = ("digests", "numbers")

    def __init__(self, numbers: array[int] | None = None, digests: array[int] | None = None) -> None:
        self.numbers = numbers if numbers is not None else array("Q")  # rising
        self.digests = digests if digests is not None else array("Q")

    def add(self, number: int, digest: int) -> None:
        """Above all that are there. Called by `apply` alone."""
        self.numbers.append(number)
        self.digests.append(digest)
        del self.numbers[:-NUMBERS_KEPT], self.digests[:-NUMBERS_KEPT]

    def digest_of(self, number: int) -> int | None:
        """None: it is of no unit, or too old to be known."""
        place = bisect_left(self.numbers, number)
        if place == len(self.numbers) or self.numbers[place] != number:
            return None
        return self.digests[place]

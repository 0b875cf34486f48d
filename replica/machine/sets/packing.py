"""Turns columns into the bytes of a snapshot and back, the same on every machine; knows no structure."""

from __future__ import annotations

import sys
from array import array

from replica.machine.sets.ranges import RangeSet


def bytes_of(column: array[int] | array[float]) -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def column_of(kind: str, data: bytes) -> array[int]:
    column: array[int] = array(kind, data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def range_set(edges: bytes) -> RangeSet:
    return RangeSet.from_edges(column_of("Q", edges))

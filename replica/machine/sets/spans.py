"""Keeps runs of integers that each carry a value; never knows what either stands for.

Rows (start, end, value) by rising start, disjoint, in blocks of columns: 24 bytes a row whatever its length, and a
change anywhere moves one block and not the rest, as runs that end in any order would else cost all of it each time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from replica.machine.sets.ranges import Run

# A change moves half of it; as many blocks as rows in one at a million rows.
BLOCK_ROWS = 1_024

SpanRow = tuple[int, int, int]  # start, end, value


class Spans:
    """Every method takes half-open runs. It reads like a `RangeSet` where values do not count."""

    __slots__ = ("_blocks", "_firsts", "size")

    def __init__(self) -> None:
        self._blocks: list[list[array[int]]] = []  # starts, ends, values
        self._firsts: list[int] = []  # first start of each block
        self.size = 0  # integers in it

    def __bool__(self) -> bool:
        return self.size > 0

    def __iter__(self) -> Iterator[SpanRow]:
        for starts, ends, values in self._blocks:
            yield from zip(starts, ends, values, strict=True)

    def add(self, start: int, end: int, value: int) -> bool:
        """The caller knows that nothing of it is in. False: it only lengthened the row before it."""
        self.size += end - start
        if not self._blocks:
            self._blocks.append([array("Q"), array("Q"), array("Q")])
            self._firsts.append(start)
        at = max(0, bisect_right(self._firsts, start) - 1)
        block = self._blocks[at]
        starts, ends, values = block
        row = bisect_right(starts, start)
        if row and ends[row - 1] == start and values[row - 1] == value:
            ends[row - 1] = end
            return False
        assert not row or ends[row - 1] <= start, "added twice"
        starts.insert(row, start)
        ends.insert(row, end)
        values.insert(row, value)
        self._firsts[at] = starts[0]
        if len(starts) > BLOCK_ROWS:
            # One that only grows at its end stays full; one that is filled up in its middle is halved.
            half = BLOCK_ROWS if row == BLOCK_ROWS else BLOCK_ROWS // 2
            self._blocks.insert(at + 1, [column[half:] for column in block])
            self._firsts.insert(at + 1, starts[half])
            for column in block:
                del column[half:]
        return True

    def take(self, start: int, end: int, begun: list[SpanRow] | None = None) -> int:
        """Takes out what is in it of this run; says how many integers that were. Adds what begins anew behind it."""
        taken = 0
        at = max(0, bisect_right(self._firsts, start) - 1)
        while at < len(self._blocks) and self._firsts[at] < end:
            block = self._blocks[at]
            starts, ends, values = block
            first = max(0, bisect_right(starts, start) - 1)
            until = bisect_left(starts, end, first)
            left: list[SpanRow] = []
            for row in range(first, until):
                low, high, value = starts[row], ends[row], values[row]
                gone = min(high, end) - max(low, start)
                if gone <= 0:
                    left.append((low, high, value))
                    continue
                taken += gone
                if low < start:
                    left.append((low, start, value))
                if high > end:
                    left.append((end, high, value))
                    if begun is not None:
                        begun.append((end, high, value))
            for place, column in enumerate(block):
                column[first:until] = array("Q", [row[place] for row in left])
            if starts:
                self._firsts[at] = starts[0]
                at += 1
            else:
                del self._blocks[at], self._firsts[at]
        self.size -= taken
        return taken

    def rows(self, start: int, end: int) -> Iterator[SpanRow]:
        """What is in it of this run, by rising start. It must not change meanwhile."""
        at = max(0, bisect_right(self._firsts, start) - 1)
        while at < len(self._blocks) and self._firsts[at] < end:
            starts, ends, values = self._blocks[at]
            for row in range(max(0, bisect_right(starts, start) - 1), len(starts)):
                if starts[row] >= end:
                    return
                low, high = max(starts[row], start), min(ends[row], end)
                if low < high:
                    yield low, high, values[row]
            at += 1

    def runs(self, start: int, end: int) -> Iterator[Run]:
        for low, high, _ in self.rows(start, end):
            yield low, high

    def columns(self) -> list[array[int]]:
        """Starts, ends, values: equal for equal histories."""
        columns: list[array[int]] = [array("Q"), array("Q"), array("Q")]
        for block in self._blocks:
            for column, part in zip(columns, block, strict=True):
                column.extend(part)
        return columns

    @classmethod
    def from_columns(cls, columns: list[array[int]]) -> Spans:
        made = cls()
        for base in range(0, len(columns[0]), BLOCK_ROWS):
            block = [column[base : base + BLOCK_ROWS] for column in columns]
            made._blocks.append(block)
            made._firsts.append(block[0][0])
        made.size = sum(columns[1]) - sum(columns[0])
        return made

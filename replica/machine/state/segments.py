"""Knows in which record a message stands and which messages of a record are left; never which of them is ready.

A segment is the accepted part of one ENQUEUE record. Segments are rows of columns in blocks, about 24 bytes a segment
whatever the number of its messages; what only some segments have (refused entries, priorities, expiry) stands aside.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

PRIORITIES = 10
PRIORITY_DEFAULT = 4
# Dropping a settled block costs nothing; a larger block would hold more settled rows back for one slow message.
BLOCK_ROWS = 1_024
# What `Segments.columns` gives: first index, log index, count, live, payload bytes, expiry (empty when all are 0).
COLUMNS = "QQHHIQ"


class Extra(NamedTuple):
    """What only some segments have. A column is empty (default) or has one entry an accepted message."""

    ordinals: array[int]  # empty: dense from 0
    priorities: bytes  # empty: PRIORITY_DEFAULT; one entry: for all
    expires_at_ms: array[int]  # empty: as the segment's; 0: never
    groups: array[int]  # empty: none; 0: none


_NONE: array[int] = array("Q")
PLAIN = Extra(array("H"), b"", _NONE, _NONE)
# Shared: a uniform priority is common enough not to pay for it with each message.
_UNIFORM = tuple(Extra(PLAIN.ordinals, bytes([priority]), _NONE, _NONE) for priority in range(PRIORITIES))


def extra_of(ordinals: array[int], priorities: bytes, expires_at_ms: array[int], groups: array[int] = _NONE) -> Extra:
    if ordinals or expires_at_ms or groups or len(priorities) > 1:
        return Extra(ordinals, priorities, expires_at_ms, groups)
    return _UNIFORM[priorities[0]] if priorities else PLAIN


class Part(NamedTuple):
    """Neighbouring messages of one segment."""

    log_index: int
    start: int  # index of the first of them
    end: int
    offset: int  # of `start` among the accepted messages of the segment
    segment_count: int  # accepted messages of the whole segment
    live: int  # of them still in the queue
    payload_bytes: int  # of those
    expires_at_ms: int  # of all of them; 0: never, or one each in `extra`
    extra: Extra

    @property
    def timed(self) -> bool:
        return bool(self.expires_at_ms or self.extra.expires_at_ms)

    def expiry(self, index: int) -> int:
        """Of one message; 0: never."""
        each = self.extra.expires_at_ms
        return each[self.offset + index - self.start] if each else self.expires_at_ms

    def group(self, index: int) -> int:
        """Hash of one message's group; 0: of none, or its queue keeps none."""
        each = self.extra.groups
        return each[self.offset + index - self.start] if each else 0

    def expiry_run(self, index: int) -> int:
        """End of the neighbours in the segment that share this message's expiry."""
        each = self.extra.expires_at_ms
        first = self.start - self.offset
        end = first + self.segment_count
        if each:
            expiry = each[index - first]
            end = next((at for at in range(index, end) if each[at - first] != expiry), end)
        return end


class _Block:
    __slots__ = ("counts", "dead", "expiries", "extras", "firsts", "lives", "logs", "sizes")

    def __init__(self) -> None:
        self.firsts: array[int] = array("Q")  # rising; index of the first message
        self.logs: array[int] = array("Q")  # rising; log index of the record
        self.counts: array[int] = array("H")  # accepted messages, at least 1
        self.lives: array[int] = array("H")  # of them still in the queue; 0: a dead row
        self.sizes: array[int] = array("I")  # payload bytes of the live ones
        self.dead = 0  # dead rows
        self.expiries: array[int] | None = None  # of all messages of a row, if any row has one; 0: never
        self.extras: dict[int, Extra] | None = None  # by row

    def compact(self) -> None:
        """Only by `Segments.take`, so that equal histories give equal blocks on every member."""
        keep = [row for row, live in enumerate(self.lives) if live]
        for name in ("firsts", "logs", "counts", "lives", "sizes"):
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, [column[row] for row in keep]))
        if self.expiries:
            self.expiries = array("Q", [self.expiries[row] for row in keep])
        if self.extras:
            self.extras = {at: self.extras[row] for at, row in enumerate(keep) if row in self.extras} or None
        self.dead = 0


class Segments:
    """Rows by rising first index and, since indexes rise with the log, by rising log index."""

    __slots__ = ("_blocks", "_starts", "rows")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._starts: list[int] = []  # first index of each block
        self.rows = 0  # live ones

    def append(
        self,
        first_index: int,
        log_index: int,
        count: int,
        payload_bytes: int,
        expires_at_ms: int = 0,
        extra: Extra = PLAIN,
    ) -> None:
        if not self._blocks or len(self._blocks[-1].firsts) >= BLOCK_ROWS:
            self._blocks.append(_Block())
            self._starts.append(first_index)
        block = self._blocks[-1]
        if extra is not PLAIN:
            if block.extras is None:
                block.extras = {}
            block.extras[len(block.firsts)] = extra
        if expires_at_ms and block.expiries is None:
            block.expiries = array("Q", bytes(8 * len(block.firsts)))
        if block.expiries is not None:
            block.expiries.append(expires_at_ms)
        block.firsts.append(first_index)
        block.logs.append(log_index)
        block.counts.append(count)
        block.lives.append(count)
        block.sizes.append(payload_bytes)
        self.rows += 1

    def _find(self, index: int) -> tuple[int, int]:
        """Block and row of the last segment that begins at or before the index; (-1, ...) if none."""
        at = bisect_right(self._starts, index) - 1
        if at < 0:
            return -1, 0
        return at, bisect_right(self._blocks[at].firsts, index) - 1

    def parts(self, start: int, end: int) -> Iterator[Part]:
        """The segments' shares of a run of indexes. What is gone is left out only with its whole segment."""
        at, first_row = self._find(start)
        if at < 0:
            at = first_row = 0
        for place in range(at, len(self._blocks)):
            block = self._blocks[place]
            for row in range(first_row, len(block.firsts)):
                first = block.firsts[row]
                if first >= end:
                    return
                count = block.counts[row]
                low, high = max(first, start), min(first + count, end)
                if low < high and (live := block.lives[row]):
                    extra = block.extras.get(row, PLAIN) if block.extras else PLAIN
                    expiry = block.expiries[row] if block.expiries else 0
                    log_index, size = block.logs[row], block.sizes[row]
                    yield Part(log_index, low, high, low - first, count, live, size, expiry, extra)
                if first + count >= end:
                    return
            first_row = 0

    def whole(self, start: int, end: int, bytes_max: int) -> tuple[int, int]:
        """As many whole segments from `start` on as lie next to each other before `end` and fit, of one block: their
        messages and payload bytes. 0 messages: none fits, or something of them is gone; `parts` says more.
        """
        at, row = self._find(start)
        if at < 0 or self._blocks[at].firsts[row] != start:
            return 0, 0
        block = self._blocks[at]
        firsts, counts = block.firsts, block.counts
        below = bisect_left(firsts, end, row)
        if firsts[below - 1] + counts[below - 1] > end:
            below -= 1
        sizes = list(accumulate(block.sizes[row:below]))
        below = row + bisect_right(sizes, bytes_max)
        if below == row or block.lives[row:below] != counts[row:below]:
            return 0, 0
        messages = firsts[below - 1] + counts[below - 1] - start
        return (messages, sizes[below - 1 - row]) if messages == sum(counts[row:below]) else (0, 0)

    def take(self, start: int, end: int, freed: list[int]) -> int:
        """Messages leave the queue; all of them must be in it. Adds log indexes that have none left; returns bytes."""
        taken_bytes = 0
        while start < end:
            at, row = self._find(start)
            assert at >= 0, "message before the first segment"
            block = self._blocks[at]
            while start < end and row < len(block.firsts):
                first, live = block.firsts[row], block.lives[row]
                count = min(first + block.counts[row], end) - start
                assert first <= start, "message before its segment"
                assert 0 < count <= live, "message is not in the queue"
                start += count
                if count == live:
                    taken_bytes += block.sizes[row]
                    block.sizes[row] = block.lives[row] = 0
                    freed.append(block.logs[row])
                    block.dead += 1
                    self.rows -= 1
                else:
                    share = block.sizes[row] * count // live
                    taken_bytes += share
                    block.sizes[row] -= share
                    block.lives[row] = live - count
                row += 1
            self._settle(at, block)
        return taken_bytes

    def _settle(self, at: int, block: _Block) -> None:
        rows = len(block.firsts)
        if rows < BLOCK_ROWS and at == len(self._blocks) - 1 and block.dead * 2 <= BLOCK_ROWS:
            return  # the one that grows
        if block.dead == rows:
            del self._blocks[at], self._starts[at]
        elif block.dead * 2 > rows:
            block.compact()
            self._starts[at] = block.firsts[0]

    def locate(self, index: int) -> tuple[int, int] | None:
        """Log index and ordinal of a message, as long as its segment has any left."""
        for part in self.parts(index, index + 1):
            return part.log_index, part.extra.ordinals[part.offset] if part.extra.ordinals else part.offset
        return None

    def _record(self, log_index: int) -> tuple[_Block, int] | None:
        """Block and row of a record's segment."""
        at = bisect_left(self._blocks, log_index, key=lambda block: block.logs[-1])
        if at == len(self._blocks):
            return None
        block = self._blocks[at]
        row = bisect_left(block.logs, log_index)
        return (block, row) if block.logs[row] == log_index else None

    def live_of(self, log_index: int) -> int:
        """Messages of a record that are left."""
        found = self._record(log_index)
        return found[0].lives[found[1]] if found else 0

    def index_of(self, log_index: int, ordinal: int) -> int | None:
        """Index of a message by its place in the log, as long as its segment has any left."""
        found = self._record(log_index)
        if found is None or not found[0].lives[found[1]]:
            return None
        block, row = found
        ordinals = block.extras[row].ordinals if block.extras and row in block.extras else PLAIN.ordinals
        at = bisect_left(ordinals, ordinal) if ordinals else ordinal
        if at >= block.counts[row] or (ordinals and ordinals[at] != ordinal):
            return None
        return block.firsts[row] + at

    def next_record(self, above: int) -> int | None:
        """Log index of the first live row above that one."""
        for at in range(bisect_right(self._blocks, above, key=lambda block: block.logs[-1]), len(self._blocks)):
            block = self._blocks[at]
            for row in range(bisect_right(block.logs, above), len(block.logs)):
                if block.lives[row]:
                    return block.logs[row]
        return None

    def log_indexes(self) -> Iterator[int]:
        for block in self._blocks:
            yield from (log for log, live in zip(block.logs, block.lives, strict=True) if live)

    def after(self, log_index: int) -> list[tuple[int, int, int]]:
        """Log index, first index and count of the segments of later records."""
        return [
            (log, first, count)
            for block in self._blocks
            if block.logs[-1] > log_index
            for log, first, count, live in zip(block.logs, block.firsts, block.counts, block.lives, strict=True)
            if log > log_index and live
        ]

    def columns(self) -> tuple[list[array[int]], dict[int, Extra]]:
        """Live rows only, and extras by their place among them: equal for equal contents."""
        columns: list[array[int]] = [array(kind) for kind in COLUMNS]
        extras: dict[int, Extra] = {}
        for block in self._blocks:
            keep = None if not block.dead else [row for row, live in enumerate(block.lives) if live]
            if block.extras:
                base = len(columns[0])
                places = enumerate(range(len(block.firsts)) if keep is None else keep)
                extras |= {base + at: block.extras[row] for at, row in places if row in block.extras}
            expiries = block.expiries or array("Q", bytes(8 * len(block.firsts)))
            parts = (block.firsts, block.logs, block.counts, block.lives, block.sizes, expiries)
            for column, part in zip(columns, parts, strict=True):
                column.extend(part if keep is None else array(part.typecode, [part[row] for row in keep]))
        if not any(columns[-1]):
            del columns[-1][:]
        return columns, extras

    @classmethod
    def from_columns(cls, columns: list[array[int]], extras: dict[int, Extra]) -> Segments:
        made = cls()
        made.rows = len(columns[0])
        for base in range(0, made.rows, BLOCK_ROWS):
            block = _Block()
            block.firsts, block.logs, block.counts, block.lives, block.sizes, expiries = (
                column[base : base + BLOCK_ROWS] for column in columns
            )
            block.expiries = expiries if any(expiries) else None
            made._blocks.append(block)
            made._starts.append(block.firsts[0])
        for place, extra in extras.items():
            block = made._blocks[place // BLOCK_ROWS]
            block.extras = block.extras or {}
            block.extras[place % BLOCK_ROWS] = extra
        return made

"""Says where so many rows of the journal end, without making a row: out of the heads of records, and from memory where
somebody has asked before. It reads no body and answers no caller.

    block n    rows of records n * BLOCK up to before (n + 1) * BLOCK, by kind and queue, and the last record's epoch

What is committed never changes, so a block that is whole stays right until its records are trimmed or given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.node.journal import RowPlace, Trimmed
from replica.node.journal_rows import ENQUEUED, enqueues_of, facts_of, ordinals_of
from storage.errors import CorruptRecord
from storage.records import ZERO_DIGEST, Prefix, split_stored_head
from tandemq.peer.v1.record_pb2 import RecordHeader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from replica.node.journal import Bounds
    from replica.node.journal_rows import Wanted
    from storage.store import Store

BLOCK = 64
LOOK_RECORDS = 4_096
"""Heads that one call reads; then it ends, and says how far it came."""
KEPT_MAX = 200_000
"""Numbers in memory, some 150 bytes each; beyond it the oldest blocks are forgotten, and counted again when asked."""
NOWHERE = Prefix(0, 0, 0, 0, 0, 0, 0, 0, ZERO_DIGEST)
"""Which record it is, says which lease a row has; rows are as many without."""

Key = tuple[int, int]
"""Kind and queue."""
Counts = dict[Key, int]


class Counted(NamedTuple):
    """How many rows there are up to a place."""

    rows: int
    following: RowPlace
    at_end: bool
    queue_ids: set[int]
    """That rows of it name."""


class Block(NamedTuple):
    """Rows of some records, and the epoch of the last of them."""

    counts: Counts
    epoch: int


class Record(NamedTuple):
    """Rows of one."""

    log_index: int
    epoch: int
    counts: Counts


class RowCounts:
    """Of one domain at one member. Any thread, one at a time."""

    def __init__(self) -> None:
        self._generation = -1
        self._kept: dict[int, Block] = {}
        """By number, in the order in which they were counted."""
        self._numbers = 0
        self._last: Sequence[Record] = ()
        """What was read last: who goes on behind a place inside a block does not read it again."""
        self._looked = 0
        """Heads that this call has read."""

    def find(
        self, store: Store, domain: int, place: RowPlace, bounds: Bounds, until: int, wanted: Wanted, rows_max: int
    ) -> Counted:
        """The end of the record that has the last of rows_max wanted rows from that place on, or the last one before
        `until`, or as far as one call looks. Raises Trimmed, and CorruptRecord for a damaged head.
        """
        if self._generation != bounds.generation:
            self._generation, self._numbers, self._last = bounds.generation, 0, ()
            self._kept.clear()
        end = min(bounds.end, until) if until else bounds.end
        rows, at, seen = 0, place, set[Key]()
        self._looked = 0
        if at.row and at.log_index < end:
            ((log_index, epoch, header),) = _heads(store, domain, at.log_index, at.log_index + 1)
            counts = rows_of(header, at.row)
            rows, at = _sum(counts, wanted), RowPlace(log_index + 1, epoch)
            seen.update(counts)
        while at.log_index < end and rows < rows_max and self._looked < LOOK_RECORDS:
            number, inside = divmod(at.log_index, BLOCK)
            block_end = (number + 1) * BLOCK
            whole = not inside and block_end <= end
            block = self._kept.get(number) if whole else None
            if block is not None and rows + (more := _sum(block.counts, wanted)) < rows_max:
                rows, at = rows + more, RowPlace(block_end, block.epoch)
                seen.update(block.counts)
                continue
            records = self._records(store, domain, at.log_index, min(block_end, end))
            if whole:
                self._keep(number, records)
            for record in records:
                rows += _sum(record.counts, wanted)
                seen.update(record.counts)
                at = RowPlace(record.log_index + 1, record.epoch)
                if rows >= rows_max:
                    break
        queue_ids = {queue_id for kind, queue_id in seen if wanted.takes(kind, queue_id)}
        return Counted(rows, at, at.log_index >= end, queue_ids - {0})

    def _records(self, store: Store, domain: int, first: int, end: int) -> Sequence[Record]:
        last = self._last
        if not (last and last[0].log_index <= first and end <= last[-1].log_index + 1):
            self._last = last = [
                Record(log_index, epoch, rows_of(header))
                for log_index, epoch, header in _heads(store, domain, first, end)
            ]
            self._looked += len(last)
        begin = first - last[0].log_index
        return last[begin : begin + end - first]

    def _keep(self, number: int, records: Sequence[Record]) -> None:
        counts: Counts = {}
        for record in records:
            for key, rows in record.counts.items():
                counts[key] = counts.get(key, 0) + rows
        before = self._kept.pop(number, None)
        self._numbers += len(counts) + 1 - (len(before.counts) + 1 if before else 0)
        self._kept[number] = Block(counts, records[-1].epoch)
        while self._numbers > KEPT_MAX and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._numbers -= len(self._kept.pop(oldest).counts) + 1


def rows_of(header: RecordHeader, first: int = 0) -> Counts:
    """Rows of one record from the first-th on, as `journal_rows.JournalRows` gives them, by kind and queue."""
    counts: Counts = {}
    stored = 0
    for op in enqueues_of(header):
        begin, stored = stored, stored + len(ordinals_of(op))
        if stored > first:
            counts[ENQUEUED, op.queue_id] = stored - max(first, begin)
        if header.HasField("enqueue") and not op.dropped and not op.HasField("moved_from"):
            return counts  # as nearly all are
    for fact in facts_of(NOWHERE, header)[max(0, first - stored) :]:
        key = (fact.kind, fact.queue_id)
        counts[key] = counts.get(key, 0) + 1
    return counts


def _sum(counts: Mapping[Key, int], wanted: Wanted) -> int:
    if not wanted.kinds and not wanted.queue_ids:
        return sum(counts.values())
    return sum(rows for (kind, queue_id), rows in counts.items() if wanted.takes(kind, queue_id))


def _heads(store: Store, domain: int, first: int, end: int) -> Iterator[tuple[int, int, RecordHeader]]:
    """Log index, epoch and header of every record from `first` up to before `end`, verified, without a gap."""
    at = first
    for log_index, head in store.scan_heads(domain, first, limit=end - first):
        if log_index != at:
            raise Trimmed
        of_domain, epoch, says, header = split_stored_head(head)
        if (of_domain, says) != (domain, log_index):
            raise CorruptRecord(f"record {log_index} says that it is {says} of {of_domain:#x}")
        yield log_index, epoch, RecordHeader.FromString(header)
        at += 1
    if at < end:
        raise Trimmed

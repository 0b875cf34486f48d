"""Remembers which sequences of which producer were executed and with what answer; never decides what a repetition gets.

Rows are added and forgotten by the times and counts of the records alone, so every member remembers the same.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from typing import NamedTuple

from replica.machine.state.limits import Limits
from tandemq.v1 import common_pb2

# Rows that are forgotten together; deltas within it have four bytes each.
CHUNK_ROWS = 1_024
_DELTA_MAX = (1 << 32) - 1
_DOWNGRADED, _NO_INDEX = 1, 2
FINGERPRINTS_KEPT = 1_024  # at least; 4 bytes each

Refusals = tuple[tuple[int, common_pb2.Reason], ...]  # ordinal in the record, why
Doubles = tuple[tuple[int, int], ...]  # ordinal in the record, index of the message that had its dedup id first


class DealtPart(NamedTuple):
    """What a batch that a macro queue has dealt came to at one member."""

    queue_id: int
    first_index: int  # of the first one that entered
    ordinals: array[int]  # places in the batch of those that entered, rising


class DuplicateRun(NamedTuple):
    """How a record was answered."""

    first_sequence: int  # 0 for a unary call
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    first_index: int  # of the first accepted entry; 0 when all were refused
    log_index: int
    epoch: int
    refusals: Refusals
    downgraded: bool = False
    doubles: Doubles = ()
    queue_id: int = 0  # that the messages entered, where it was sent to a macro queue
    parts: tuple[
        DealtPart, ...
    ] = ()  # the members that they entered, where there are several; refusals are the batch's


class Chunk:
    """Neighbouring rows of one epoch, 13 bytes each."""

    __slots__ = (
        *("base", "doubles", "end_sequence", "epoch", "flags", "indexes"),
        *("logs", "parts", "queues", "refusals", "sequences", "time_ms"),
    )

    def __init__(self, epoch: int, base: tuple[int, int, int]) -> None:
        self.epoch = epoch
        self.base = base  # sequence, index and log index that the columns count from
        self.sequences: array[int] = array("I")  # first sequence of the record
        self.indexes: array[int] = array("I")  # first index
        self.logs: array[int] = array("I")
        self.flags: array[int] = array("B")
        self.refusals: dict[int, Refusals] = {}  # by row
        self.doubles: dict[int, Doubles] = {}  # by row
        self.queues: dict[int, int] = {}  # by row, of a macro queue
        self.parts: dict[int, tuple[DealtPart, ...]] = {}  # by row, of a macro queue
        self.end_sequence = base[0]  # one beyond the last
        self.time_ms = 0  # of the last row

    def fits(self, epoch: int, sequence: int, index: int, log_index: int) -> bool:
        base_sequence, base_index, base_log = self.base
        return (
            self.epoch == epoch
            and len(self.sequences) < CHUNK_ROWS
            and 0 <= index - base_index <= _DELTA_MAX
            and sequence - base_sequence <= _DELTA_MAX
            and log_index - base_log <= _DELTA_MAX
        )

    def append(self, run: DuplicateRun, time_ms: int) -> None:
        flags = _DOWNGRADED if run.downgraded else 0
        if run.refusals:
            self.refusals[len(self.sequences)] = run.refusals
        if run.doubles:
            self.doubles[len(self.sequences)] = run.doubles
        if run.queue_id:
            self.queues[len(self.sequences)] = run.queue_id
        if run.parts:
            self.parts[len(self.sequences)] = run.parts
        if run.first_index:
            self.indexes.append(run.first_index - self.base[1])
        else:
            flags |= _NO_INDEX
            self.indexes.append(0)
        self.sequences.append(run.first_sequence - self.base[0])
        self.logs.append(run.log_index - self.base[2])
        self.flags.append(flags)
        self.end_sequence = run.first_sequence + run.count
        self.time_ms = time_ms

    def run(self, row: int) -> DuplicateRun:
        first = self.base[0] + self.sequences[row]
        last_row = row + 1 == len(self.sequences)
        end = self.end_sequence if last_row else self.base[0] + self.sequences[row + 1]
        flags = self.flags[row]
        index = 0 if flags & _NO_INDEX else self.base[1] + self.indexes[row]
        refusals = self.refusals.get(row, ())
        log_index, downgraded = self.base[2] + self.logs[row], bool(flags & _DOWNGRADED)
        doubles = self.doubles.get(row, ())
        answer = first, end - first, index, log_index, self.epoch, refusals, downgraded, doubles
        return DuplicateRun(*answer, self.queues.get(row, 0), self.parts.get(row, ()))


class Producer:
    """One producer at one queue. Sequences are dense, so a row needs no count."""

    __slots__ = ("chunks", "fingerprints", "last_sequence", "row", "rows", "time_ms")

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.fingerprints: array[int] = array("I")  # of the newest rows, the last one last: what their batches held
        self.last_sequence = 0
        self.rows = 0
        self.time_ms = 0
        self.row = b""  # in the last snapshot; empty: touched since

    @property
    def first_kept(self) -> int:
        return self.chunks[0].base[0] if self.chunks else self.last_sequence + 1

    def remember(self, fingerprint: int) -> None:
        """Of the row that was appended last; bounded, as only what is unanswered is sent again in earnest."""
        self.fingerprints.append(fingerprint)
        if len(self.fingerprints) > 2 * FINGERPRINTS_KEPT:
            del self.fingerprints[:FINGERPRINTS_KEPT]

    def find(self, first_sequence: int, count: int) -> tuple[DuplicateRun, int | None] | None:
        """How the record of exactly these sequences was answered, and what it held (None: no longer known).

        None: they were cut in other batches, so nothing proves that the same messages are meant.
        """
        rows_after = 0
        for chunk in reversed(self.chunks):
            if chunk.base[0] > first_sequence:
                rows_after += len(chunk.sequences)
                continue
            row = bisect_right(chunk.sequences, first_sequence - chunk.base[0]) - 1
            run = chunk.run(row)
            if (run.first_sequence, run.count) != (first_sequence, count):
                return None
            rows_after += len(chunk.sequences) - 1 - row
            return run, self.fingerprints[-1 - rows_after] if rows_after < len(self.fingerprints) else None
        return None


class Producers:
    """All producers of a domain, the least recently used first."""

    __slots__ = ("_limits", "_producers", "rows")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._producers: OrderedDict[tuple[int, bytes], Producer] = OrderedDict()
        self.rows = 0

    def known_since_ms(self, time_ms: int) -> int:
        """Who has not sent since then may be forgotten."""
        return time_ms - self._limits.dedup_window_ms

    def get(self, queue_id: int, client_id: bytes) -> Producer | None:
        return self._producers.get((queue_id, client_id))

    def dump(self) -> list[tuple[tuple[int, bytes], Producer]]:
        """Queue and client id, and what is known; by last use."""
        return list(self._producers.items())

    def put(self, queue_id: int, client_id: bytes, producer: Producer) -> None:
        self._producers[queue_id, client_id] = producer
        self.rows += producer.rows

    def add(self, queue_id: int, client_id: bytes, run: DuplicateRun, time_ms: int, fingerprint: int = 0) -> None:
        key = queue_id, client_id
        producer = self._producers.get(key)
        if producer is None:
            producer = self._producers[key] = Producer()
        else:
            self._producers.move_to_end(key)
        assert run.first_sequence == producer.last_sequence + 1, "a sequence was skipped or executed twice"
        chunks = producer.chunks
        index = run.first_index or (chunks[-1].base[1] if chunks else 0)
        if not chunks or not chunks[-1].fits(run.epoch, run.first_sequence, index, run.log_index):
            chunks.append(Chunk(run.epoch, (run.first_sequence, run.first_index, run.log_index)))
        chunks[-1].append(run, time_ms)
        producer.remember(fingerprint)
        producer.last_sequence = run.first_sequence + run.count - 1
        producer.time_ms = time_ms
        producer.rows += 1
        producer.row = b""
        self.rows += 1
        self._forget(producer, time_ms)

    def _forget(self, producer: Producer, time_ms: int) -> None:
        limits, chunks = self._limits, producer.chunks
        before_ms = self.known_since_ms(time_ms)
        while chunks[0].time_ms < before_ms and (
            chunks[0].end_sequence <= producer.last_sequence - limits.dedup_sequences + 1
        ):
            producer.rows -= len(chunks[0].sequences)
            self.rows -= len(chunks[0].sequences)
            del chunks[0]
        while len(self._producers) > limits.dedup_producers_max or self.rows > limits.dedup_rows_max:
            key, oldest = next(iter(self._producers.items()))
            if oldest.time_ms >= before_ms:
                return
            self.rows -= oldest.rows
            del self._producers[key]

    def forget_queue(self, queue_id: int) -> None:
        for key in [key for key in self._producers if key[0] == queue_id]:
            self.rows -= self._producers.pop(key).rows

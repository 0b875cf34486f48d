"""A domain's log as the core sees it: last index, chained digest, epoch boundaries, and the newest records in memory.
Reads no disk.

Two ways in: `build` on the master makes the next record, `accept` on a replica checks one that arrived. Both keep the
record's bytes as
they are, for the store, the peer and the consumer alike (DESIGN.md 2.3).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from replica.core.state.durable import HISTORY_MAX, Boundary
from storage.errors import CorruptRecord
from storage.records import FLAG_VOLATILE_BODY, PREFIX_SIZE, Prefix, assemble, build_head, is_body, read_prefix, verify
from tandemq.peer.v1.record_pb2 import RecordHeader

if TYPE_CHECKING:
    from collections.abc import Iterable

RING_BYTES_MAX = 64 << 20
"""Newest records kept in memory for the peer and for delivery; older ones are read from the store. More while what is
older is not written yet: a disk that hangs has it nowhere.
"""


class HeldRef(NamedTuple):
    """Names a batch that the peer already holds, so that its body need not travel back."""

    client_id: bytes
    queue: str
    first_sequence: int


class Entry(NamedTuple):
    """One record of the log."""

    log_index: int
    epoch: int
    digest: bytes
    record: bytes
    """Prefix, header, body; the body is there even when only the head goes to disk (volatile)."""
    head_len: int
    flags: int
    held: HeldRef | None

    @property
    def stored(self) -> bytes:
        """What goes to disk: everything, or the head alone when the body is volatile."""
        return self.record[: self.head_len] if self.flags & FLAG_VOLATILE_BODY else self.record


class LogReader(Protocol):
    """What the core may ask of the store about older records; a point read, no transaction survives it."""

    def prefix_at(self, log_index: int) -> Prefix | None:
        """Prefix of the record, or None when it is not held."""
        ...

    def header_at(self, log_index: int) -> RecordHeader | None:
        """Header of the record, or None when it is not held or cannot be read."""
        ...

    def has_body(self, log_index: int) -> bool:
        """Whether the record is held with its body."""
        ...


class DomainLog:
    """The log of one domain. Invariant: indexes of the ring are dense and end at `last_index`."""

    def __init__(self, domain: int, *, base_index: int, base_digest: bytes, base_epoch: int, reader: LogReader) -> None:
        self.domain = domain
        self.base_index = base_index
        self.base_digest = base_digest
        self.base_epoch = base_epoch
        self.last_index = base_index
        self.last_epoch = base_epoch
        self.digest = base_digest
        self.history: list[Boundary] = []
        self.ring: deque[Entry] = deque()
        self.ring_bytes = 0
        self.stored_index = base_index
        """Records up to here are in the store."""
        self.appended_bytes = 0
        """Of all records since the process started; only grows."""
        self._reader = reader

    def restore(self, last_index: int, last_epoch: int, digest: bytes, history: list[Boundary]) -> None:
        """Position at the end of what the store holds (recovery); the ring starts empty."""
        self.last_index, self.last_epoch, self.digest = last_index, last_epoch, digest
        self.stored_index = last_index
        self.history = list(history)
        self.ring.clear()
        self.ring_bytes = 0

    def build(
        self,
        header: RecordHeader,
        body: bytes,
        epoch: int,
        *,
        volatile_body: bool,
        held: HeldRef | None,
        body_crc: int | None = None,
    ) -> Entry:
        """The next record, on the master. `body_crc`: its CRC32C, where it is known."""
        flags = FLAG_VOLATILE_BODY if volatile_body else 0
        head, digest = build_head(
            flags=flags,
            domain=self.domain,
            epoch=epoch,
            log_index=self.last_index + 1,
            header=header.SerializeToString(),
            body=body,
            previous_digest=self.digest,
            body_crc=body_crc,
        )
        record = assemble(head, body) if body else head
        entry = Entry(self.last_index + 1, epoch, digest, record, len(head), flags, held)
        self._push(entry)
        return entry

    def accept(self, record: bytes) -> Entry:
        """The next record, on a replica: follows the last one in index, epoch and digest, else CorruptRecord."""
        prefix = verify(record, previous_digest=self.digest)
        if prefix.domain != self.domain or prefix.log_index != self.last_index + 1 or prefix.epoch < self.last_epoch:
            raise CorruptRecord(
                f"record {prefix.log_index} of epoch {prefix.epoch} in domain {prefix.domain:#x} does not follow "
                f"{self.last_index} of epoch {self.last_epoch} in {self.domain:#x}; the peer must send from there"
            )
        head_len = PREFIX_SIZE + prefix.header_len
        entry = Entry(prefix.log_index, prefix.epoch, prefix.digest, record, head_len, prefix.flags, None)
        self._push(entry)
        return entry

    def _push(self, entry: Entry) -> None:
        if not self.history or entry.epoch > self.history[-1].epoch:
            self.history.append(Boundary(entry.epoch, entry.log_index))
            del self.history[:-HISTORY_MAX]
        self.last_index, self.last_epoch, self.digest = entry.log_index, entry.epoch, entry.digest
        self.ring.append(entry)
        self.ring_bytes += len(entry.record)
        self.appended_bytes += len(entry.record)
        self._shrink()

    def take_history(self, history: Iterable[Boundary]) -> None:
        """The boundaries as its master knows them, up to where this log ends."""
        self.history = [boundary for boundary in history if boundary.first_index <= self.last_index]

    def on_stored(self, log_index: int) -> None:
        """Every record up to there is in the store now."""
        self.stored_index = max(self.stored_index, log_index)
        self._shrink()

    def _shrink(self) -> None:
        ring = self.ring
        while self.ring_bytes > RING_BYTES_MAX and len(ring) > 1 and ring[0].log_index <= self.stored_index:
            self.ring_bytes -= len(ring.popleft().record)

    def get(self, log_index: int) -> Entry | None:
        """The record when it is still in memory."""
        if not self.ring:
            return None
        offset = log_index - self.ring[0].log_index
        return self.ring[offset] if 0 <= offset < len(self.ring) else None

    def tail_from(self, log_index: int, bytes_max: int) -> list[Entry]:
        """Records from there on, at least one and at most about `bytes_max`; empty when the first is not in memory."""
        if not self.ring:
            return []
        offset = log_index - self.ring[0].log_index
        if not 0 <= offset < len(self.ring):
            return []
        out: list[Entry] = []
        size = 0
        # A deque is walked from its nearer end: the usual cursor stands within a few records of the last one.
        for position in range(offset, len(self.ring)):
            entry = self.ring[position]
            size += len(entry.record)
            if out and size > bytes_max:
                break
            out.append(entry)
        return out

    def digest_at(self, log_index: int) -> tuple[int, bytes] | None:
        """(epoch, chained digest) at an index, or None when neither the record nor its digest is held any more."""
        if log_index == self.last_index:
            return self.last_epoch, self.digest
        if log_index == self.base_index:
            return self.base_epoch, self.base_digest
        entry = self.get(log_index)
        if entry is not None:
            return entry.epoch, entry.digest
        if not self.base_index < log_index < self.last_index:
            return None
        prefix = self._reader.prefix_at(log_index)
        return (prefix.epoch, prefix.digest) if prefix is not None else None

    def header_at(self, log_index: int) -> RecordHeader | None:
        """What the record is, or None when it is not held any more. Reads the store beyond the ring."""
        entry = self.get(log_index)
        if entry is not None:
            return RecordHeader.FromString(entry.record[PREFIX_SIZE : entry.head_len])
        return self._reader.header_at(log_index)

    def is_body_of(self, log_index: int, body: bytes) -> bool:
        """Whether it is the body of that record, as its prefix says; empty where the record is stored with its body."""
        prefix = self._prefix_at(log_index)
        if prefix is None:
            return False
        if not body and not self.is_volatile(log_index):
            return True
        return bool(prefix.flags & FLAG_VOLATILE_BODY) and is_body(prefix, body)

    def is_volatile(self, log_index: int) -> bool:
        """Whether the body of that record is not on this member's disk."""
        entry = self.get(log_index)
        if entry is not None and not entry.flags & FLAG_VOLATILE_BODY:
            return False
        return not self._reader.has_body(log_index)  # it may have been written since (SAVE)

    def _prefix_at(self, log_index: int) -> Prefix | None:
        entry = self.get(log_index)
        return read_prefix(entry.record) if entry is not None else self._reader.prefix_at(log_index)

    def end_of_epoch(self, epoch: int) -> int | None:
        """Last index of an epoch in this log, or None when it has none here."""
        for position, boundary in enumerate(self.history):
            if boundary.epoch == epoch:
                following = self.history[position + 1 :]
                return following[0].first_index - 1 if following else self.last_index
        return self.base_index if epoch == self.base_epoch else None

    def cut(self, last_index: int) -> None:
        """Forget every record above `last_index`, whose digest must be known (P10)."""
        known = self.digest_at(last_index)
        assert known is not None, f"cut of domain {self.domain:#x} to {last_index}: digest unknown there"
        while self.ring and self.ring[-1].log_index > last_index:
            self.ring_bytes -= len(self.ring.pop().record)
        self.history = [boundary for boundary in self.history if boundary.first_index <= last_index]
        self.last_index = last_index
        self.stored_index = min(self.stored_index, last_index)
        self.last_epoch, self.digest = known

    def raise_base(self, base_index: int, base_digest: bytes, base_epoch: int) -> None:
        """Records up to there are about to go; what stood there is still known."""
        assert self.base_index < base_index < self.last_index, f"base {base_index} of a log up to {self.last_index}"
        self.base_index, self.base_digest, self.base_epoch = base_index, base_digest, base_epoch

    def reset(self, base_index: int, base_digest: bytes, base_epoch: int, history: list[Boundary]) -> None:
        """Start anew above a full transfer's snapshot."""
        self.base_index, self.base_digest, self.base_epoch = base_index, base_digest, base_epoch
        self.restore(base_index, base_epoch, base_digest, history)

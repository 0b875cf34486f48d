"""States what the replica needs of a store, in the replica's words; never how it is kept nor what a record means.

A store holds, per domain, records by log index, and a few named values beside them (`meta`). It changes by batches:
each takes effect whole or not at all, and is durable when `commit` returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from storage.doubt import Doubt
from storage.errors import CorruptRecord, StoreFailed
from storage.records import Prefix, is_bare, is_body, read_stored_prefix

# Of the layout (databases, keys, identity, commit log), and raised with the records' own (`records.verify_stored`).
# 2: a commit log may hold what the database does not.
STORE_FORMAT = 2
META_FORMAT, META_PAIR, META_MEMBER, META_INSTANCE = "format", "pair", "member", "instance"
RESERVED_META = frozenset((META_FORMAT, META_PAIR, META_MEMBER, META_INSTANCE))  # written with the directory
META_LOG = "commit log"  # a store's own, given to nobody
META_KEY_BYTES_MAX = 511  # LMDB 0.9
LOG_INDEX_MAX = (1 << 64) - 1


class Append(NamedTuple):
    domain: int
    log_index: int
    record: bytes


@dataclass(slots=True)
class WriteBatch:
    """One transaction, filled step by step. Carried out in the order of the fields, whatever the order of filling."""

    wipe: set[int] = field(default_factory=set)  # domains that lose all their records
    cut: dict[int, int] = field(default_factory=dict)  # domain: the highest log index that stays
    drops: dict[int, list[int]] = field(default_factory=dict)  # domain: log indexes to delete; a missing one is fine
    inserts: list[Append] = field(default_factory=list)  # any order, overwrites; a full transfer, so slower
    appends: list[Append] = field(default_factory=list)  # rising per domain, above everything in the domain
    bodies: list[Append] = field(default_factory=list)  # of records stored without; one that is gone or whole stays so
    meta: dict[str, bytes | None] = field(default_factory=dict)  # None deletes


@dataclass(frozen=True, slots=True)
class Usage:
    """Room is counted in live pages: what was freed counts as free, though a file never shrinks."""

    used_bytes: int  # pages in use now
    map_bytes: int  # what used_bytes can grow to: the map, or less where the disk holds less
    file_bytes: int  # the file's high-water mark, at least used_bytes


class View(Protocol):
    """Everything in a store as it was at one moment, whatever is committed meanwhile. Any thread, one at a time.

    It keeps the room of all that goes meanwhile: whoever opened it must close it within a bounded time.
    """

    def meta_items(self) -> list[tuple[str, bytes]]:
        """By rising key."""

    def domains(self) -> dict[int, int]:
        """How many records each domain has that has any, by rising number."""

    def last(self, domain: int) -> bytes | None:
        """The record with the highest log index."""

    def scan(self, domain: int, first: int, *, limit_bytes: int) -> list[tuple[int, bytes]]:
        """As `Store.scan`."""

    def close(self) -> None:
        """Waits for a call under way. A second call does nothing; every other call raises StoreFailed from then on."""


class Store(Protocol):
    """One writer thread calls `commit`; every other method may be called from any thread at any time before `close`.

    No method but `view` leaves a transaction open, so nothing else here pins old pages. Reading raises `CorruptRecord`
    when the store itself is damaged and `StoreFailed` after `close`; records are returned as they lie there,
    `records.verify` judges.
    """

    @property
    def doubts(self) -> Sequence[Doubt]:
        """What the copy could not prove about its last writes when it was opened."""

    def commit(self, batch: WriteBatch) -> None:
        """Blocks until the batch is fsynced. `StoreFull`: nothing was done. `StoreFailed`: stop, outcome unknown."""

    def read(self, domain: int, log_index: int) -> bytes | None: ...

    def read_many(self, domain: int, log_indexes: Sequence[int]) -> list[bytes | None]:
        """In the order asked for, all from the same moment."""

    def scan(
        self, domain: int, first: int, *, limit_records: int = 256, limit_bytes: int = 4 << 20
    ) -> list[tuple[int, bytes]]:
        """One slice from log index `first` up; at least one record if there is any, even one above `limit_bytes`.

        The caller resumes at the last log index plus one, until the answer is empty.
        """

    def scan_prefixes(self, domain: int, first: int, *, limit: int = 10_000) -> list[tuple[int, Prefix, int]]:
        """(log index, prefix, bytes of the record) from `first` up, without reading bodies. Raises CorruptRecord."""

    def scan_heads(self, domain: int, first: int, *, limit: int = 1_024) -> list[tuple[int, bytes]]:
        """(log index, prefix and header) from `first` up, as they lie there; bodies are not copied."""

    def scan_indexes(self, domain: int, first: int, *, limit: int = 10_000) -> list[int]:
        """Log indexes of what is there from `first` up, damaged or not: no record is looked into."""

    def bounds(self, domain: int) -> tuple[int, int] | None:
        """Lowest and highest log index present."""

    def get_meta(self, key: str) -> bytes | None: ...

    def meta_items(self, prefix: str) -> list[tuple[str, bytes]]:
        """By rising key."""

    def usage(self) -> Usage: ...

    def reader_check(self) -> int:
        """Housekeeping, at start and each minute: frees the slots of readers that died; how many there were."""

    def view(self) -> View:
        """For a backup. The store's `close` closes it too."""

    def close(self) -> None:
        """Nobody else may be inside a method, one of a view excepted. A second call does nothing."""


def check_batch(batch: WriteBatch) -> None:
    """What no batch may contain, for any store; whether the appends rise shows only against what is there."""
    for key in batch.meta:
        assert key not in (*RESERVED_META, META_LOG), f"meta {key!r} belongs to the store"
        assert 0 < len(key.encode()) <= META_KEY_BYTES_MAX, f"meta key {key[:40]!r} is empty or too long"


def lacks(head: bytes, entry: Append, where: str) -> bool:
    """Whether a stored record is to be completed with this body. StoreFailed: what is stored cannot be read."""
    try:
        bare = is_bare(head)
    except CorruptRecord as error:
        raise StoreFailed(f"Log index {entry.log_index} cannot be completed: {error.what}", where) from error
    assert not bare or is_body(read_stored_prefix(head), entry.record), "a body that belongs to another record"
    return bare


def place_checked(prefix: Prefix, domain: int, log_index: int, where: str) -> Prefix:
    """The prefix, if the record lies under the key it carries."""
    if (prefix.domain, prefix.log_index) != (domain, log_index):
        what = f"The record under domain {domain}, log index {log_index} says {prefix.domain}, {prefix.log_index}"
        raise CorruptRecord(what, where)
    return prefix

"""Keeps what a disk store keeps, in memory, for the simulator and the tests; never survives its process.

It passes the same contract tests. Durability is simulated: `crash` hands the committed state to a successor, and
`fail_next` makes one commit fail as a disk would.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from storage.doubt import Doubt
from storage.errors import StorageError, StoreFailed, StoreFull
from storage.identity import new_identity
from storage.records import Prefix, head_of, read_stored_prefix
from storage.store import Usage, WriteBatch, check_batch, lacks, place_checked

_WHERE = "memory store"
_Key = TypeVar("_Key", int, str)
Undo = list[Callable[[], object]]


class _Table(Generic[_Key]):
    """Rows by key, and the keys in rising order."""

    __slots__ = ("order", "rows")

    def __init__(self) -> None:
        self.order: list[_Key] = []
        self.rows: dict[_Key, bytes] = {}

    def replace(self, key: _Key, value: bytes | None) -> bytes | None:
        """Puts a value, or deletes with None; what was there before."""
        before = self.rows.get(key)
        if value is not None:
            if before is None:
                self.order.insert(self.at(key), key)
            self.rows[key] = value
        elif before is not None:
            del self.order[self.at(key)], self.rows[key]
        return before

    def at(self, key: _Key) -> int:
        """Where the key is or would be."""
        if not self.order or key > self.order[-1]:
            return len(self.order)  # where nearly every append happens
        return bisect_left(self.order, key)


_NOTHING: _Table[int] = _Table()  # what a domain without a table reads as; never written


class MemoryView:
    """See `View` for the contract."""

    def __init__(self, store: MemoryStore, logs: dict[int, _Table[int]], meta: _Table[str]) -> None:
        self._store = store
        self._closed = False
        self._meta = [(key, meta.rows[key]) for key in meta.order]
        self._logs = {number: [(index, log.rows[index]) for index in log.order] for number, log in logs.items()}

    def meta_items(self) -> list[tuple[str, bytes]]:
        self._check_usable()
        return self._meta

    def domains(self) -> dict[int, int]:
        self._check_usable()
        return {number: len(rows) for number, rows in sorted(self._logs.items()) if rows}

    def last(self, domain: int) -> bytes | None:
        self._check_usable()
        rows = self._logs.get(domain)
        return rows[-1][1] if rows else None

    def scan(self, domain: int, first: int, *, limit_bytes: int) -> list[tuple[int, bytes]]:
        self._check_usable()
        found: list[tuple[int, bytes]] = []
        rows = self._logs.get(domain, [])
        size = 0
        for row in rows[bisect_left(rows, (first, b"")) :]:
            size += len(row[1])
            if found and size > limit_bytes:
                break
            found.append(row)
        return found

    def close(self) -> None:
        self._closed = True

    def _check_usable(self) -> None:
        if self._closed or self._store.closed:
            raise StoreFailed("The view is closed", _WHERE)


class MemoryStore:
    """See `Store` for the contract. `instance` is given, not drawn: a simulation must be repeatable."""

    def __init__(
        self,
        *,
        pair: str = "pair",
        member: str = "member",
        instance: bytes = bytes(16),
        map_bytes: int = 64 << 30,
        max_domains: int = 250,
    ) -> None:
        self.doubts: Sequence[Doubt] = ()
        self.fail_next: StorageError | None = None  # raised by the next commit, of which nothing is done
        self._map_bytes = map_bytes
        self._max_domains = max_domains
        self._mutex = threading.Lock()
        self._closed = False
        self._failure: StoreFailed | None = None
        self.undo_kept: list[tuple[Undo, int]] | None = None
        """With a list: how to take back each commit that it has seen, for a disk that only said it was durable."""
        self._logs: dict[int, _Table[int]] = {}
        self._meta: _Table[str] = _Table()
        for key, value in new_identity(pair, member, instance).items():
            self._meta.replace(key, value)
        self._used_bytes = sum(map(len, self._meta.rows.values()))  # of records and meta values
        self._file_bytes = self._used_bytes

    @property
    def closed(self) -> bool:
        """Dead, or taken over."""
        return self._closed

    def crash(self) -> MemoryStore:
        """What a restart finds. This store is dead from here on, as its process is."""
        successor = MemoryStore(map_bytes=self._map_bytes, max_domains=self._max_domains)
        successor.take_over(self)
        return successor

    def take_over(self, other: MemoryStore) -> None:
        """Holds from here on what the other held, which is dead."""
        with other._mutex:
            other._closed = True
            self._logs, self._meta = other._logs, other._meta
            self._used_bytes, self._file_bytes = other._used_bytes, other._file_bytes
            other._logs, other._meta = {}, _Table()
            self.undo_kept = other.undo_kept

    def commit(self, batch: WriteBatch) -> None:
        check_batch(batch)
        with self._mutex:
            self._check_usable()
            if self._failure is not None:
                raise self._failure
            undo: Undo = []
            used_bytes = self._used_bytes
            try:
                if self.fail_next is not None:
                    failure, self.fail_next = self.fail_next, None
                    raise failure
                self._write(batch, undo)
            except StorageError as error:
                self._take_back(undo, used_bytes)
                if isinstance(error, StoreFailed):
                    self._failure = error
                raise
            self._file_bytes = max(self._file_bytes, self._used_bytes)
            if self.undo_kept is not None:
                self.undo_kept.append((undo, used_bytes))

    def take_back(self, count: int) -> None:
        """Undoes the last commits, none of which was durable after all."""
        assert self.undo_kept is not None
        for _ in range(count):
            self._take_back(*self.undo_kept.pop())

    def _take_back(self, undo: Undo, used_bytes: int) -> None:
        for step in reversed(undo):
            step()
        self._used_bytes = used_bytes

    def _write(self, batch: WriteBatch, undo: Undo) -> None:
        for domain, last in (*((domain, -1) for domain in batch.wipe), *batch.cut.items()):
            if log := self._logs.get(domain):
                while log.order and log.order[-1] > last:
                    self._replace(log, log.order[-1], None, undo)
        for domain, log_indexes in batch.drops.items():
            if log := self._logs.get(domain):
                for log_index in log_indexes:
                    self._replace(log, log_index, None, undo)
        for entry in batch.inserts:
            self._replace(self._for_writing(entry.domain, undo), entry.log_index, entry.record, undo)
        for entry in batch.appends:
            log = self._for_writing(entry.domain, undo)
            if log.order and log.order[-1] >= entry.log_index:
                what = f"Appending log index {entry.log_index} of domain {entry.domain} would not leave it the highest"
                raise StoreFailed(what, _WHERE)
            self._replace(log, entry.log_index, entry.record, undo)
        for entry in batch.bodies:
            log = self._logs.get(entry.domain, _NOTHING)
            head = log.rows.get(entry.log_index)
            if head is not None and lacks(head, entry, _WHERE):
                self._replace(log, entry.log_index, head + entry.record, undo)
        before_bytes = self._used_bytes
        for key, value in batch.meta.items():
            self._replace(self._meta, key, value, undo)
        grows = bool(batch.inserts or batch.appends or batch.bodies) or self._used_bytes > before_bytes
        if grows and self._used_bytes > self._map_bytes:
            raise StoreFull(f"The map of {self._map_bytes} bytes has no room for this batch", _WHERE)

    def _replace(self, table: _Table[_Key], key: _Key, value: bytes | None, undo: Undo) -> None:
        before = table.replace(key, value)
        undo.append(partial(table.replace, key, before))
        self._used_bytes += len(value or b"") - len(before or b"")

    def _for_writing(self, domain: int, undo: Undo) -> _Table[int]:
        log = self._logs.get(domain)
        if log is None:
            if len(self._logs) >= self._max_domains:
                raise StoreFull("There are as many domains as this store was opened for", _WHERE)
            log = self._logs[domain] = _Table()
            undo.append(partial(self._logs.pop, domain))
        return log

    def read(self, domain: int, log_index: int) -> bytes | None:
        with self._mutex:
            log = self._log(domain)
            return log.rows.get(log_index)

    def read_many(self, domain: int, log_indexes: Sequence[int]) -> list[bytes | None]:
        with self._mutex:
            log = self._log(domain)
            return [log.rows.get(log_index) for log_index in log_indexes]

    def scan(
        self, domain: int, first: int, *, limit_records: int = 256, limit_bytes: int = 4 << 20
    ) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        with self._mutex:
            log = self._log(domain)
            start = log.at(first)
            size = 0
            for log_index in log.order[start : start + limit_records]:
                record = log.rows[log_index]
                size += len(record)
                if found and size > limit_bytes:
                    break
                found.append((log_index, record))
        return found

    def scan_prefixes(self, domain: int, first: int, *, limit: int = 10_000) -> list[tuple[int, Prefix, int]]:
        found: list[tuple[int, Prefix, int]] = []
        with self._mutex:
            log = self._log(domain)
            start = log.at(first)
            for log_index in log.order[start : start + limit]:
                record = log.rows[log_index]
                found.append(
                    (log_index, place_checked(read_stored_prefix(record), domain, log_index, _WHERE), len(record))
                )
        return found

    def scan_heads(self, domain: int, first: int, *, limit: int = 1_024) -> list[tuple[int, bytes]]:
        with self._mutex:
            log = self._log(domain)
            start = log.at(first)
            return [(log_index, head_of(log.rows[log_index])) for log_index in log.order[start : start + limit]]

    def scan_indexes(self, domain: int, first: int, *, limit: int = 10_000) -> list[int]:
        with self._mutex:
            log = self._log(domain)
            start = log.at(first)
            return list(log.order[start : start + limit])

    def bounds(self, domain: int) -> tuple[int, int] | None:
        with self._mutex:
            log = self._log(domain)
            return (log.order[0], log.order[-1]) if log.order else None

    def get_meta(self, key: str) -> bytes | None:
        with self._mutex:
            self._check_usable()
            return self._meta.rows.get(key)

    def meta_items(self, prefix: str) -> list[tuple[str, bytes]]:
        with self._mutex:
            self._check_usable()
            return [(key, self._meta.rows[key]) for key in self._meta.order if key.startswith(prefix)]

    def usage(self) -> Usage:
        with self._mutex:
            self._check_usable()
            return Usage(self._used_bytes, self._map_bytes, self._file_bytes)

    def reader_check(self) -> int:
        with self._mutex:
            self._check_usable()
        return 0

    def view(self) -> MemoryView:
        with self._mutex:
            self._check_usable()
            return MemoryView(self, self._logs, self._meta)

    def close(self) -> None:
        with self._mutex:
            self._closed = True

    def _log(self, domain: int) -> _Table[int]:
        self._check_usable()
        return self._logs.get(domain, _NOTHING)

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreFailed("The store is closed", _WHERE)

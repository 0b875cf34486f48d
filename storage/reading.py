"""Decides what one read answers: what the database holds at a moment, and above it what is pending at the same moment.

No read here waits, and none leaves its transaction. Log indexes of a pending tail lie above all others of its domain.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from storage.environment import read_errors
from storage.errors import StoreFailed
from storage.records import Prefix, head_of, read_stored_prefix
from storage.store import META_LOG, place_checked

if TYPE_CHECKING:
    import lmdb

    from storage.recent import Recent, Tail

KEY = Struct(">Q")
_HIDDEN = META_LOG.encode()


class Moment:
    """One read transaction with buffers, and what is to be added to it. Bytes are copied out of it."""

    def __init__(self, txn: lmdb.Transaction, meta: lmdb._Database, recent: Recent) -> None:
        self._txn = txn
        self._meta = meta
        self.recent = recent

    def read(self, db: lmdb._Database | None, domain: int, log_index: int) -> bytes | None:
        tail = self.recent.tails.get(domain)
        found = tail.read(log_index) if tail is not None else None
        if found is None and db is not None:
            stored = self._txn.get(KEY.pack(log_index), db=db)
            found = bytes(stored) if stored is not None else None
        return found

    def read_many(self, db: lmdb._Database | None, domain: int, log_indexes: Sequence[int]) -> list[bytes | None]:
        keys = [KEY.pack(log_index) for log_index in log_indexes]
        rows = self._txn.cursor(db).getmulti(keys) if db is not None else ()
        found = {bytes(key): bytes(value) for key, value in rows}
        tail = self.recent.tails.get(domain)
        if tail is None:
            return [found.get(key) for key in keys]
        return [
            found[key] if key in found else tail.read(log_index)
            for key, log_index in zip(keys, log_indexes, strict=True)
        ]

    def scan(
        self, db: lmdb._Database | None, domain: int, first: int, *, limit_records: int, limit_bytes: int
    ) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        size = 0
        for log_index, value in self._rows(db, domain, first) if limit_records > 0 else ():
            size += len(value)
            if found and size > limit_bytes:
                break
            found.append((log_index, bytes(value)))
            if len(found) >= limit_records:
                break
        return found

    def scan_prefixes(
        self, db: lmdb._Database | None, domain: int, first: int, *, limit: int, where: str
    ) -> list[tuple[int, Prefix, int]]:
        found: list[tuple[int, Prefix, int]] = []
        for log_index, value in self._rows(db, domain, first) if limit > 0 else ():
            prefix = place_checked(read_stored_prefix(value), domain, log_index, where)
            found.append((log_index, prefix, len(value)))
            if len(found) >= limit:
                break
        return found

    def scan_heads(self, db: lmdb._Database | None, domain: int, first: int, *, limit: int) -> list[tuple[int, bytes]]:
        rows = islice(self._rows(db, domain, first), max(limit, 0))
        return [(log_index, head_of(value)) for log_index, value in rows]

    def scan_indexes(self, db: lmdb._Database | None, domain: int, first: int, *, limit: int) -> list[int]:
        return [log_index for log_index, _ in islice(self._rows(db, domain, first), max(limit, 0))]

    def _rows(self, db: lmdb._Database | None, domain: int, first: int) -> Iterator[tuple[int, memoryview | bytes]]:
        if db is not None:
            cursor = self._txn.cursor(db)
            more = cursor.set_range(KEY.pack(first))
            while more:
                key, value = cursor.item()
                yield KEY.unpack(key)[0], value
                more = cursor.next()
        tail = self.recent.tails.get(domain)
        if tail is not None:
            yield from tail.rows(first)

    def bounds(self, db: lmdb._Database | None, domain: int) -> tuple[int, int] | None:
        tail: Tail | None = self.recent.tails.get(domain)
        cursor = self._txn.cursor(db) if db is not None else None
        if cursor is None or not cursor.first():
            return (tail.lowest, tail.highest) if tail is not None else None
        lowest: int = KEY.unpack(cursor.key())[0]
        if tail is not None:
            return lowest, tail.highest
        cursor.last()
        return lowest, KEY.unpack(cursor.key())[0]

    def last(self, db: lmdb._Database | None, domain: int) -> bytes | None:
        tail = self.recent.tails.get(domain)
        if tail is not None:
            return tail.records[tail.end - 1]
        cursor = self._txn.cursor(db) if db is not None else None
        return bytes(cursor.value()) if cursor is not None and cursor.last() else None

    def count(self, db: lmdb._Database | None, domain: int) -> int:
        tail = self.recent.tails.get(domain)
        stored: int = self._txn.stat(db)["entries"] if db is not None else 0
        return stored + (tail.end if tail is not None else 0)

    def pages(self, databases: Sequence[lmdb._Database]) -> int:
        """How many pages these take, and the list of databases."""
        stats = [self._txn.stat(), *(self._txn.stat(db) for db in databases)]
        return sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)

    def get_meta(self, key: str) -> bytes | None:
        if key in self.recent.meta:
            return self.recent.meta[key][1]
        stored = self._txn.get(key.encode(), db=self._meta)
        return bytes(stored) if stored is not None else None

    def meta_items(self, prefix: str) -> list[tuple[str, bytes]]:
        start = prefix.encode()
        stored: dict[str, bytes | None] = {}
        cursor = self._txn.cursor(self._meta)
        more = cursor.set_range(start)  # the first of all, where nothing is asked for
        while more and (key := bytes(cursor.key())).startswith(start):
            if key != _HIDDEN:
                stored[key.decode()] = bytes(cursor.value())
            more = cursor.next()
        if self.recent.meta:
            stored.update((key, value) for key, (_, value) in self.recent.meta.items() if key.startswith(prefix))
            # UTF-8 sorts as the characters do.
            return [(key, value) for key, value in sorted(stored.items()) if value is not None]
        return [(key, value) for key, value in stored.items() if value is not None]


class DiskView:
    """See `View` for the contract: a moment that lasts. LMDB lets any thread use its transaction, one at a time."""

    def __init__(
        self, moment: Moment, txn: lmdb.Transaction, domains: Mapping[int, lmdb._Database], where: str
    ) -> None:
        self._moment = moment
        self._domains = domains
        self._where = where
        self._using = threading.Lock()
        self._txn: lmdb.Transaction | None = txn

    def knows_all(self) -> bool:
        """Whether it has a handle of every domain that there was at its moment."""
        with self._reading():
            assert self._txn is not None
            return self._txn.stat()["entries"] == len(self._domains) + 1

    def meta_items(self) -> list[tuple[str, bytes]]:
        with self._reading() as moment:
            return moment.meta_items("")

    def domains(self) -> dict[int, int]:
        with self._reading() as moment:
            counts = {number: moment.count(db, number) for number, db in sorted(self._domains.items())}
        return {number: count for number, count in counts.items() if count}

    def last(self, domain: int) -> bytes | None:
        with self._reading() as moment:
            return moment.last(self._domains.get(domain), domain)

    def scan(self, domain: int, first: int, *, limit_bytes: int) -> list[tuple[int, bytes]]:
        with self._reading() as moment:
            db = self._domains.get(domain)
            return moment.scan(db, domain, first, limit_records=1 << 62, limit_bytes=limit_bytes)

    def close(self) -> None:
        with self._using:
            if self._txn is not None:
                self._txn.abort()
                self._txn = None

    @contextmanager
    def _reading(self) -> Iterator[Moment]:
        with self._using:
            if self._txn is None:
                raise StoreFailed("The view is closed", self._where)
            with read_errors(self._where):
                yield self._moment

"""Decides how a member's records lie in one LMDB environment; never what a record means, nor when one may go.

Rules that are not negotiable here: LMDB 0.9 files, default sync and metasync, no writemap (anything else lost or tore
acknowledged commits in crash images); one environment a process; no transaction outlives a call. `append=True` answers
False instead of raising when a key is not the highest, so every answer is checked. Every LMDB call gives the GIL away,
and a busy thread may keep it for a switch interval: hence few calls per commit.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from struct import Struct
from weakref import WeakSet

import lmdb

from storage.directory import check_restored, lock_directory, make_directory, make_whole, sync_directory
from storage.errors import CorruptRecord, NewerFormat, StorageError, StoreFailed, StoreFull
from storage.identity import check_identity, new_identity
from storage.records import Prefix, read_stored_prefix
from storage.room import BALLAST_BYTES, Room
from storage.store import (
    LOG_INDEX_MAX,
    META_MEMBER,
    META_PAIR,
    RESERVED_META,
    Append,
    Usage,
    WriteBatch,
    check_batch,
    lacks,
    place_checked,
)

_KEY = Struct(">Q")
_META = b"meta"
_READERS_MAX = 1022  # reads at the same moment; a slot is 64 bytes
_DOMAINS_MAX = 250
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_DAMAGED = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.BadTxnError)


def open_disk(
    directory: Path,
    *,
    pair: str,
    member: str,
    map_bytes: int = 64 << 30,
    max_domains: int = _DOMAINS_MAX,
    ballast_bytes: int = BALLAST_BYTES,
) -> DiskStore:
    """The store in this directory, made if there is none. `map_bytes` is sparse: it costs nothing until used.

    Raises DirectoryInUse, WrongPair, NewerFormat, CorruptRecord; then nothing in the directory was changed.
    """
    make_directory(directory)
    with ExitStack() as undo:
        lock = lock_directory(directory)
        undo.callback(os.close, lock)
        check_restored(directory, "data.mdb")
        make_whole(directory, "data.mdb", lambda making: _make_environment(making, map_bytes, pair, member))
        env = _open_environment(directory, map_bytes, max_domains)
        undo.callback(env.close)
        try:
            _check_owner(env, directory, pair, member)
            sync_directory(directory)  # each time: the process that made the files may have died before it did this
            env.reader_check()
            store = DiskStore(env, lock, directory, Room(directory, ballast_bytes))
        except lmdb.Error as error:
            raise _read_error(error, directory) from error
        undo.pop_all()
    return store


def open_to_read(directory: Path) -> DiskStore:
    """The store in this directory, whoever's it is, to be read alone while no member has it. Writes nothing but LOCK.

    Raises DirectoryInUse, NewerFormat, CorruptRecord, RestoreUnfinished, StoreFailed.
    """
    with ExitStack() as undo:
        lock = lock_directory(directory)
        undo.callback(os.close, lock)
        check_restored(directory, "data.mdb")
        env = _open_environment(directory, 0, _DOMAINS_MAX, readonly=True)
        undo.callback(env.close)
        try:
            found = _identity_in(env, directory)
            pair, member = ((found.get(key) or b"").decode(errors="replace") for key in (META_PAIR, META_MEMBER))
            check_identity(found, pair, member, str(directory))
            store = DiskStore(env, lock, directory, Room(directory, 0))
        except lmdb.Error as error:
            raise _read_error(error, directory) from error
        undo.pop_all()
    return store


def _make_environment(directory: Path, map_bytes: int, pair: str, member: str) -> None:
    """A new one that says whose it is."""
    try:
        with _open_environment(directory, map_bytes, 0) as env:
            _check_owner(env, directory, pair, member)
    except lmdb.Error as error:
        raise _read_error(error, directory) from error


def _open_environment(directory: Path, map_bytes: int, max_domains: int, *, readonly: bool = False) -> lmdb.Environment:
    """With `readonly` nothing is made, and whoever has the directory's lock is alone with it."""
    try:
        return lmdb.Environment(
            os.fspath(directory),
            map_size=map_bytes,
            max_dbs=max_domains + 1,
            max_readers=_READERS_MAX,
            mode=0o600,
            readonly=readonly,
            create=not readonly,
            lock=not readonly,
            sync=True,
            metasync=True,
            writemap=False,
            lib_version=0,
        )
    except lmdb.Error as error:
        if isinstance(error, lmdb.VersionMismatchError) or _is_of_newer_engine(directory):
            raise NewerFormat("The file was written by a newer LMDB", str(directory)) from error
        if isinstance(error, _DAMAGED):
            raise CorruptRecord(f"LMDB cannot read this file: {error}", str(directory)) from error
        raise StoreFailed(f"LMDB cannot open this directory: {error}", str(directory)) from error


def _is_of_newer_engine(directory: Path) -> bool:
    """The 0.9 engine calls such a file no LMDB file at all; moving it away would be the wrong advice."""
    try:
        lmdb.Environment(os.fspath(directory), readonly=True, lock=False, create=False, lib_version=1).close()
    except lmdb.Error:
        return False
    return True


class DiskStore:
    """See `Store` for the contract. Not to be used in a forked child: open after the fork."""

    def __init__(self, env: lmdb.Environment, lock: int, directory: Path, room: Room) -> None:
        self._env = env
        self._lock = lock
        self._directory = directory
        self._room = room
        self._pid = os.getpid()
        self._closed = False
        self._writing = threading.Lock()  # held inside commit, to notice a second writer
        self._failure: StoreFailed | None = None
        self._views: WeakSet[DiskView] = WeakSet()
        self._meta = env.open_db(_META, create=False)
        # Replaced as a whole, never changed in place: readers look it up without a lock. A handle is in here only once
        # the transaction that made it is committed; a reader takes it before it begins, as LMDB refuses a handle that
        # is younger than the transaction.
        self._domains = {int(name[1:], 16): env.open_db(name, create=False) for name in env.dbs() if name != _META}

    def commit(self, batch: WriteBatch) -> None:
        self._check_usable()
        check_batch(batch)
        if self._failure is not None:
            raise self._failure
        alone = self._writing.acquire(blocking=False)
        assert alone, "two threads commit at the same time"
        try:
            fresh = self._write_or_make_room(batch)
        except StoreFailed as failure:
            self._failure = failure
            raise
        finally:
            self._writing.release()
        if fresh:
            self._domains = {**self._domains, **fresh}

    def _write_or_make_room(self, batch: WriteBatch) -> dict[int, lmdb._Database]:
        where = str(self._directory)
        while True:
            try:
                return self._write(batch)
            except lmdb.MapFullError as error:
                raise StoreFull(f"The map of {self._env.info()['map_size']} bytes cannot take this", where) from error
            except lmdb.DbsFullError as error:
                raise StoreFull("There are as many domains as this store was opened for", where) from error
            except lmdb.Error as error:
                if not self._was_disk_full(error, batch):
                    raise StoreFailed(f"A commit failed: {error}", where) from error
                if not self._room.give_way():
                    raise StoreFull("The disk has no room for this batch", where) from error
                # Nothing of the batch was done and there is room now: not the repetition that StoreFailed forbids.

    def _was_disk_full(self, error: lmdb.Error, batch: WriteBatch) -> bool:
        """Whether this failure means a full disk and nothing else, so that the store can go on."""
        if error.code not in _NO_SPACE and not (error.code == errno.EIO and self._room.cannot_take(batch)):
            return False
        try:
            # LMDB refuses for good once the page that makes a commit valid could not be written.
            self._env.begin(write=True).abort()
        except lmdb.Error:
            return False
        return True

    def _write(self, batch: WriteBatch) -> dict[int, lmdb._Database]:
        """Carries the batch out in one transaction; the databases that were made for it."""
        fresh: dict[int, lmdb._Database] = {}
        with self._env.begin(write=True) as txn:
            for domain in batch.wipe & self._domains.keys():
                txn.drop(self._domains[domain], delete=False)
            for domain, last in batch.cut.items():
                if domain in self._domains:
                    _cut(txn, self._domains[domain], last)
            for domain, log_indexes in batch.drops.items():
                if domain in self._domains:
                    for log_index in log_indexes:
                        txn.delete(_KEY.pack(log_index), db=self._domains[domain])
            for entry in batch.inserts:
                txn.put(_KEY.pack(entry.log_index), entry.record, db=self._for_writing(txn, entry.domain, fresh))
            for domain, items in _by_domain(batch.appends).items():
                self._append(txn, domain, items, fresh)
            for entry in batch.bodies:
                self._complete(txn, entry, fresh)
            for key, value in batch.meta.items():
                if value is None:
                    txn.delete(key.encode(), db=self._meta)
                else:
                    txn.put(key.encode(), value, db=self._meta)
        return fresh

    def _append(
        self, txn: lmdb.Transaction, domain: int, items: list[tuple[bytes, bytes]], fresh: dict[int, lmdb._Database]
    ) -> None:
        db = self._for_writing(txn, domain, fresh)
        if len(items) == 1:
            done = txn.put(*items[0], append=True, db=db)
        else:
            done = txn.cursor(db).putmulti(items, append=True) == (len(items), len(items))
        if not done:
            first, last = (_KEY.unpack(items[at][0])[0] for at in (0, -1))
            what = f"Appending log index {first} to {last} of domain {domain} would not leave them the highest"
            raise StoreFailed(what, str(self._directory))

    def _complete(self, txn: lmdb.Transaction, entry: Append, fresh: dict[int, lmdb._Database]) -> None:
        db = self._domains.get(entry.domain) or fresh.get(entry.domain)
        key = _KEY.pack(entry.log_index)
        found = txn.get(key, db=db) if db is not None else None
        if found is not None and lacks(head := bytes(found), entry, str(self._directory)):
            txn.put(key, head + entry.record, db=db)

    def _for_writing(self, txn: lmdb.Transaction, domain: int, fresh: dict[int, lmdb._Database]) -> lmdb._Database:
        db = self._domains.get(domain) or fresh.get(domain)
        if db is None:
            db = fresh[domain] = self._env.open_db(b"d%08x" % domain, txn=txn)
        return db

    def read(self, domain: int, log_index: int) -> bytes | None:
        return self._get(self._domains.get(domain), _KEY.pack(log_index))

    def read_many(self, domain: int, log_indexes: Sequence[int]) -> list[bytes | None]:
        keys = [_KEY.pack(log_index) for log_index in log_indexes]
        with self._cursor(self._domains.get(domain)) as cursor:
            found = {bytes(key): bytes(value) for key, value in cursor.getmulti(keys)} if cursor else {}
        return [found.get(key) for key in keys]

    def scan(
        self, domain: int, first: int, *, limit_records: int = 256, limit_bytes: int = 4 << 20
    ) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        size = 0
        with self._cursor(self._domains.get(domain)) as cursor:
            more = cursor and cursor.set_range(_KEY.pack(first))
            while cursor and more and len(found) < limit_records:
                key, value = cursor.item()
                size += len(value)
                if found and size > limit_bytes:
                    break
                found.append((_KEY.unpack(key)[0], bytes(value)))
                more = cursor.next()
        return found

    def scan_prefixes(self, domain: int, first: int, *, limit: int = 10_000) -> list[tuple[int, Prefix, int]]:
        found: list[tuple[int, Prefix, int]] = []
        with self._cursor(self._domains.get(domain)) as cursor:
            more = cursor and cursor.set_range(_KEY.pack(first))
            while cursor and more and len(found) < limit:
                key, value = cursor.item()
                log_index = _KEY.unpack(key)[0]
                prefix = place_checked(read_stored_prefix(value), domain, log_index, str(self._directory))
                found.append((log_index, prefix, len(value)))
                more = cursor.next()
        return found

    def bounds(self, domain: int) -> tuple[int, int] | None:
        with self._cursor(self._domains.get(domain)) as cursor:
            if not cursor or not cursor.first():
                return None
            lowest: int = _KEY.unpack(cursor.key())[0]
            cursor.last()
            return lowest, _KEY.unpack(cursor.key())[0]

    def get_meta(self, key: str) -> bytes | None:
        return self._get(self._meta, key.encode())

    def meta_items(self, prefix: str) -> list[tuple[str, bytes]]:
        start = prefix.encode()
        found: list[tuple[str, bytes]] = []
        with self._cursor(self._meta) as cursor:
            more = cursor and (cursor.set_range(start) if start else cursor.first())
            while cursor and more and (key := bytes(cursor.key())).startswith(start):
                found.append((key.decode(), bytes(cursor.value())))
                more = cursor.next()
        return found

    def usage(self) -> Usage:
        self._check_usable()
        databases = (self._meta, *self._domains.values())
        try:
            with self._env.begin() as txn:
                stats = [txn.stat(), *(txn.stat(db) for db in databases)]
            info = self._env.info()
        except lmdb.Error as error:
            raise _read_error(error, self._directory) from error
        page_bytes = stats[0]["psize"]
        pages = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
        file_bytes = (info["last_pgno"] + 1) * page_bytes
        reachable = min(info["map_size"], file_bytes + self._room.available_bytes())
        return Usage(pages * page_bytes, reachable, file_bytes)

    def reader_check(self) -> int:
        self._check_usable()
        self._room.restore_ballast()
        return self._env.reader_check()

    def view(self) -> DiskView:
        self._check_usable()
        while True:
            view = DiskView(self._env, dict(self._domains), self._directory)
            if view.knows_all():
                self._views.add(view)
                return view
            view.close()  # a domain was made between the two lines: it is known in a moment

    def close(self) -> None:
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            for view in list(self._views):
                view.close()  # LMDB would read from a map that is gone
            self._env.close()
            os.close(self._lock)

    def _get(self, db: lmdb._Database | None, key: bytes) -> bytes | None:
        self._check_usable()
        if db is None:
            return None
        try:
            with self._env.begin() as txn:
                return txn.get(key, db=db)
        except lmdb.Error as error:
            raise _read_error(error, self._directory) from error

    @contextmanager
    def _cursor(self, db: lmdb._Database | None) -> Iterator[lmdb.Cursor[memoryview] | None]:
        """A cursor whose views end with the block; None for a domain that has no database yet."""
        self._check_usable()
        if db is None:
            yield None
            return
        try:
            with self._env.begin(buffers=True) as txn:
                yield txn.cursor(db)
        except lmdb.Error as error:
            raise _read_error(error, self._directory) from error

    def _check_usable(self) -> None:
        # LMDB would let a forked child go on, and corrupt the reader table for both.
        assert os.getpid() == self._pid, "a store must not be used in a forked child"
        if self._closed:
            raise StoreFailed("The store is closed", str(self._directory))


class DiskView:
    """See `View` for the contract: a read transaction, which LMDB lets any thread use, one at a time."""

    def __init__(self, env: lmdb.Environment, domains: dict[int, lmdb._Database], directory: Path) -> None:
        self._directory = directory
        self._domains = domains
        self._meta = env.open_db(_META, create=False)
        self._using = threading.Lock()
        self._txn: lmdb.Transaction | None = env.begin(buffers=True)

    def knows_all(self) -> bool:
        """Whether it has a handle of every domain that there was at its moment."""
        with self._reading() as txn:
            return txn.stat()["entries"] == len(self._domains) + 1

    def meta_items(self) -> list[tuple[str, bytes]]:
        with self._reading() as txn:
            return [(bytes(key).decode(), bytes(value)) for key, value in txn.cursor(self._meta)]

    def domains(self) -> dict[int, int]:
        with self._reading() as txn:
            counts = {number: txn.stat(db)["entries"] for number, db in sorted(self._domains.items())}
        return {number: count for number, count in counts.items() if count}

    def last(self, domain: int) -> bytes | None:
        with self._reading() as txn:
            cursor = txn.cursor(self._domains[domain]) if domain in self._domains else None
            return bytes(cursor.value()) if cursor is not None and cursor.last() else None

    def scan(self, domain: int, first: int, *, limit_bytes: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        size = 0
        with self._reading() as txn:
            cursor = txn.cursor(self._domains[domain]) if domain in self._domains else None
            more = cursor is not None and cursor.set_range(_KEY.pack(first))
            while cursor is not None and more:
                key, value = cursor.item()
                size += len(value)
                if found and size > limit_bytes:
                    break
                found.append((_KEY.unpack(key)[0], bytes(value)))
                more = cursor.next()
        return found

    def close(self) -> None:
        with self._using:
            if self._txn is not None:
                self._txn.abort()
                self._txn = None

    @contextmanager
    def _reading(self) -> Iterator[lmdb.Transaction]:
        with self._using:
            if self._txn is None:
                raise StoreFailed("The view is closed", str(self._directory))
            try:
                yield self._txn
            except lmdb.Error as error:
                raise _read_error(error, self._directory) from error


def _check_owner(env: lmdb.Environment, directory: Path, pair: str, member: str) -> None:
    """Whose directory this is; writes it if nothing was ever committed here."""
    with env.begin(write=True) as txn:
        if txn.stat()["entries"] == 0:
            meta = env.open_db(_META, txn=txn)
            for key, value in new_identity(pair, member, os.urandom(16)).items():
                txn.put(key.encode(), value, db=meta)
            return
    check_identity(_identity_in(env, directory), pair, member, str(directory))


def _identity_in(env: lmdb.Environment, directory: Path) -> dict[str, bytes | None]:
    try:
        meta = env.open_db(_META, create=False)
    except lmdb.NotFoundError:
        raise CorruptRecord("The directory holds data that is not Tandemq's", str(directory)) from None
    with env.begin() as txn:
        return {key: txn.get(key.encode(), db=meta) for key in sorted(RESERVED_META)}


def _cut(txn: lmdb.Transaction, db: lmdb._Database, last: int) -> None:
    """Deletes every record above `last`."""
    cursor = txn.cursor(db)
    if last < LOG_INDEX_MAX and cursor.set_range(_KEY.pack(last + 1)):
        while cursor.delete():  # moves on to the next; False at the end
            pass


def _by_domain(entries: list[Append]) -> dict[int, list[tuple[bytes, bytes]]]:
    items: dict[int, list[tuple[bytes, bytes]]] = {}
    for entry in entries:
        items.setdefault(entry.domain, []).append((_KEY.pack(entry.log_index), entry.record))
    return items


def _read_error(error: lmdb.Error, directory: Path) -> StorageError:
    if isinstance(error, _DAMAGED):
        return CorruptRecord(f"LMDB found damage: {error}", str(directory))
    return StoreFailed(f"Reading failed: {error}", str(directory))

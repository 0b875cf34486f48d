"""Decides how a member's records lie in one LMDB environment and the log before it; never what a record means, nor when
one may go.

Small commits are durable in the commit log, with one sync where LMDB needs two, and pending until they are folded into
the database: by a thread soon after, or with the next commit that goes there directly. All others do, as would
everything without a log: what they hold is written once. The order is that of the commits: a direct one carries what
is pending in the same transaction, before its own.

Rules that are not negotiable here: one environment a process; no transaction outlives a call. Every LMDB call gives the
GIL away, and a busy thread may keep it for a switch interval: hence few calls per commit.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from weakref import WeakSet

import lmdb

from storage.commit_log import LOG_BYTES, NO_SPACE, CommitLog, LogFullError, LogRead, make_log, open_log, read_log
from storage.directory import check_restored, lock_directory, make_directory, make_whole, sync_directory
from storage.doubt import Doubt, doubts_of_database
from storage.entries import check_store
from storage.environment import (
    DATA_FILE,
    META,
    check_owner,
    identity_in,
    log_state_in,
    make_environment,
    open_environment,
    read_errors,
    read_meta_pages,
)
from storage.errors import StoreFailed, StoreFull
from storage.folding import Folder
from storage.identity import check_identity
from storage.log_format import Content, LogEntry, LogState
from storage.mark import Mark
from storage.reading import DiskView, Moment
from storage.recent import NOTHING, Published, Recent
from storage.records import Prefix
from storage.room import BALLAST_BYTES, DirectoryRoom, Load, load_of
from storage.store import META_INSTANCE, META_MEMBER, META_PAIR, Append, Usage, WriteBatch, check_batch
from storage.writing import Write, not_rising

SMALL_BYTES_MAX = 64 << 10  # of a commit that goes to the log: what is larger is written once
PENDING_BYTES_MAX = 1 << 20  # more is folded at once
_DOMAINS_MAX = 250


def open_disk(
    directory: Path,
    *,
    pair: str,
    member: str,
    map_bytes: int = 64 << 30,
    max_domains: int = _DOMAINS_MAX,
    ballast_bytes: int = BALLAST_BYTES,
    commit_log: bool = True,
) -> DiskStore:
    """The store in this directory, made if there is none. `map_bytes` is sparse: it costs nothing until used.

    Without `commit_log` no log is made, and everything is in the one file once it is closed. Raises DirectoryInUse,
    WrongPair, NewerFormat, CorruptRecord; then nothing in the directory was changed.
    """
    make_directory(directory)
    check_store(directory)
    with ExitStack() as undo:
        lock = lock_directory(directory)
        undo.callback(os.close, lock)
        check_restored(directory, DATA_FILE)
        make_whole(directory, DATA_FILE, lambda making: make_environment(making, map_bytes, pair, member))
        pages = read_meta_pages(directory)
        env = open_environment(directory, map_bytes, max_domains)
        undo.callback(env.close)
        transaction: int = env.info()["last_txnid"]
        with read_errors(str(directory)):
            check_owner(env, directory, pair, member)
            sync_directory(directory)  # each time: the process that made the files may have died before it did this
            env.reader_check()
            mark = Mark(directory, DATA_FILE, identity_in(env, directory)[META_INSTANCE] or b"")
            undo.callback(mark.close)
            reported = mark.read()
            doubts = doubts_of_database(pages, transaction, reported, str(directory / DATA_FILE))
            log, read = None, LogRead([], [])
            if (state := log_state_in(env, directory)) is not None:
                log, read = open_log(directory, state, reported)
            mark.begin()
            room = DirectoryRoom(directory, ballast_bytes)
            store = DiskStore(env, lock, directory, room, mark, [*doubts, *read.doubts], commit_log=commit_log)
            store.go_on(log, read.entries)
        undo.pop_all()
    return store


def open_to_read(directory: Path) -> DiskStore:
    """The store in this directory, whoever's it is, to be read alone while no member has it. Writes nothing but LOCK.

    Raises DirectoryInUse, NewerFormat, CorruptRecord, RestoreUnfinished, StoreFailed.
    """
    check_store(directory)
    with ExitStack() as undo:
        lock = lock_directory(directory)
        undo.callback(os.close, lock)
        check_restored(directory, DATA_FILE)
        pages = read_meta_pages(directory)
        env = open_environment(directory, 0, _DOMAINS_MAX, readonly=True)
        undo.callback(env.close)
        with read_errors(str(directory)):
            found = identity_in(env, directory)
            pair, member = ((found.get(key) or b"").decode(errors="replace") for key in (META_PAIR, META_MEMBER))
            check_identity(found, pair, member, str(directory))
            mark = Mark(directory, DATA_FILE, found[META_INSTANCE] or b"")
            reported = mark.read()
            doubts = doubts_of_database(pages, env.info()["last_txnid"], reported, str(directory / DATA_FILE))
            read = LogRead([], [])
            if (state := log_state_in(env, directory)) is not None:
                read = read_log(directory, state, reported)
            room = DirectoryRoom(directory, 0)
            store = DiskStore(env, lock, directory, room, mark, [*doubts, *read.doubts], commit_log=False)
            store.go_on(None, read.entries)
        undo.pop_all()
    return store


class DiskStore:
    """See `Store` for the contract. Not to be used in a forked child: open after the fork."""

    def __init__(
        self,
        env: lmdb.Environment,
        lock: int,
        directory: Path,
        room: DirectoryRoom,
        mark: Mark,
        doubts: Sequence[Doubt],
        *,
        commit_log: bool = True,
    ) -> None:
        self.doubts: Sequence[Doubt] = tuple(doubts)
        """What this copy could not prove about its last writes when it was opened."""
        self._env = env
        self._lock = lock
        self._directory = directory
        self._room = room
        self._mark = mark
        self._transaction = 0  # of whoever writes to the database, the last that was started
        self._is_parents = False
        """In a forked child: the store is that of the process that opened it."""
        self._closed = False
        self._writing = threading.Lock()  # held inside commit, to notice a second writer
        self._failure: StoreFailed | None = None
        self._views: WeakSet[DiskView] = WeakSet()
        self._meta = env.open_db(META, create=False)
        # Replaced as a whole, never changed in place: readers look it up without a lock. A handle is in here only once
        # the transaction that made it is committed; a reader takes it before it begins, as LMDB refuses a handle that
        # is younger than the transaction, and after what is pending, which has no records of a domain without one.
        self._domains = {int(name[1:], 16): env.open_db(name, create=False) for name in env.dbs() if name != META}
        self._page_bytes: int = env.stat()["psize"]
        self._log_wanted = commit_log
        self._log: CommitLog | None = None
        self._made_log: CommitLog | None = None  # that the database does not know of yet
        self._published = Published()
        self._publishing = threading.Lock()  # of whoever replaces it; never held over a call that may wait
        self._database = threading.Lock()  # held by whoever writes to the environment
        self._folder = Folder(self._fold)
        self._cannot_fold = False
        self._void = False  # the last number of the log was given up; a direct commit says so to the database
        self._allowance = (-1, False, 0)  # during or after which write it was counted, and what pending may need
        self._tops: dict[int, int] = {}  # highest log index by domain, as far as known; the writer's
        _OPENED.add(self)

    def go_on(self, log: CommitLog | None, entries: Sequence[LogEntry]) -> None:
        """Takes up what was pending, before anything else is done. Without a log nothing is ever written."""
        self._log = log
        recent = NOTHING
        for entry in entries:
            recent = recent.add(entry.number, entry.content.appends, entry.content.meta)
        self._published = Published(recent)
        if log is not None and recent:
            self._folder.notify()

    @property
    def pending_changes(self) -> int:
        """How many records and values were committed that the database does not hold yet."""
        return self._published.now.changes

    def commit(self, batch: WriteBatch) -> None:
        self._check_usable()
        check_batch(batch)
        if self._failure is not None:
            raise self._failure
        alone = self._writing.acquire(blocking=False)
        assert alone, "two threads commit at the same time"
        try:
            load = load_of(batch)
            if not (self._is_small(batch, load) and self._write_log(batch, load)):
                self._write_directly(batch, load)
        except StoreFailed as failure:
            self._failure = failure
            raise
        finally:
            self._writing.release()

    # -- through the log -------------------------------------------------------------------------------------------

    def _is_small(self, batch: WriteBatch, load: Load) -> bool:
        """Whether it may go to the log. A domain without a database would have to be made first."""
        if not self._log_wanted or not load.changes or load.size > SMALL_BYTES_MAX:
            return False
        if batch.wipe or batch.cut or batch.drops or batch.inserts or batch.bodies:
            return False
        return all(entry.domain in self._domains for entry in batch.appends)

    def _write_log(self, batch: WriteBatch, load: Load) -> bool:
        """Writes it to the log; False: there is no room for that, or no log."""
        if self._log is None:
            self._make_log()
            return False
        now = self._published.now
        if self._void or self._cannot_fold or not self._may_become_pending(Load(now.size, now.changes).plus(load)):
            return False
        data = self._log.prepare(Content(batch.appends, batch.meta), empty=not now)
        if data is None:
            return False
        tops = self._tops_with(batch.appends)
        try:
            number = self._log.append(data)
        except LogFullError:
            self._void = True
            return False
        except OSError as error:
            raise StoreFailed(f"The commit log could not be written: {error}", str(self._directory)) from error
        self._mark.report(number, 0)
        self._tops.update(tops)
        with self._publishing:
            published = self._published
            now = published.now.add(number, batch.appends, batch.meta)
            self._published = published._replace(now=now)
        self._folder.notify()
        if now.size > PENDING_BYTES_MAX or self._log.is_nearly_full:
            self._folder.hurry()
        return True

    def _make_log(self) -> None:
        """One that counts once the next transaction has named it."""
        if self._made_log is None and self._room.affords(LOG_BYTES):
            try:
                self._made_log = make_log(self._directory)
            except OSError:
                self._log_wanted = False  # somebody else was faster; without one everything goes its old way

    def _may_become_pending(self, load: Load) -> bool:
        """Whether the database can take all this, in pages that it has never used: no reader can keep those."""
        published = self._published
        attempt, ended, allowance = self._allowance
        if (attempt, ended) != (published.attempt, published.writing is None):
            info = self._env.info()
            unused = info["map_size"] - (info["last_pgno"] + 1) * self._page_bytes
            allowance = min(unused, self._room.available_bytes())
            self._allowance = (published.attempt, published.writing is None, allowance)
        return load.bytes_at_most <= allowance

    def _tops_with(self, appends: Sequence[Append]) -> dict[int, int]:
        """The highest log index of each domain after these. Raises StoreFailed when they do not rise."""
        tops: dict[int, int] = {}
        for domain, log_index, _ in appends:
            top = tops.get(domain)
            if top is None and (top := self._tops.get(domain)) is None:
                bounds = self.bounds(domain)
                top = bounds[1] if bounds is not None else -1
            if log_index <= top:
                raise not_rising(domain, log_index, log_index, str(self._directory))
            tops[domain] = log_index
        return tops

    def _fold(self) -> bool:
        """Writes what is pending to the database; whether there is more by now."""
        with self._database:
            if self._failure is not None or not self._published.now:
                return False
            try:
                self._write_or_make_room(WriteBatch(), Load(0, 0), None)
            except StoreFull:
                self._cannot_fold = True  # the next commit goes there directly, and gets the error
                return False
            except StoreFailed as failure:
                self._failure = failure
                return False
            return bool(self._published.now)

    # -- to the database -------------------------------------------------------------------------------------------

    def _write_directly(self, batch: WriteBatch, load: Load) -> None:
        with self._database:
            if self._failure is not None:
                raise self._failure
            fresh = self._write_or_make_room(batch, load, self._log.last if self._log is not None else 0)
            # A transaction that changes nothing is never written, and its number used again; an append changes some.
            self._mark.report(0, self._transaction if batch.appends else self._env.info()["last_txnid"])
        self._void = False
        if fresh:
            self._domains = {**self._domains, **fresh}
        for domain in (*batch.wipe, *batch.cut, *batch.drops, *(entry.domain for entry in batch.inserts)):
            self._tops.pop(domain, None)
        self._tops.update({entry.domain: entry.log_index for entry in batch.appends})
        if self._made_log is not None:
            self._log, self._made_log = self._made_log, None

    def _write_or_make_room(self, batch: WriteBatch, load: Load, last: int | None) -> dict[int, lmdb._Database]:
        where = str(self._directory)
        while True:
            now = self._published.now
            try:
                return self._write(batch, last)
            except lmdb.MapFullError as error:
                raise StoreFull(f"The map of {self._env.info()['map_size']} bytes cannot take this", where) from error
            except lmdb.DbsFullError as error:
                raise StoreFull("There are as many domains as this store was opened for", where) from error
            except lmdb.Error as error:
                if not self._was_disk_full(error, load.plus(Load(now.size, now.changes))):
                    raise StoreFailed(f"A commit failed: {error}", where) from error
                if not self._room.give_way():
                    raise StoreFull("The disk has no room for this batch", where) from error
                # Nothing of the batch was done and there is room now: not the repetition that StoreFailed forbids.

    def _was_disk_full(self, error: lmdb.Error, load: Load) -> bool:
        """Whether this failure means a full disk and nothing else, so that the store can go on."""
        if error.code not in NO_SPACE and not (error.code == errno.EIO and self._room.cannot_take(load)):
            return False
        try:
            # LMDB refuses for good once the page that makes a commit valid could not be written.
            self._env.begin(write=True).abort()
        except lmdb.Error:
            return False
        return True

    def _write(self, batch: WriteBatch, last: int | None) -> dict[int, lmdb._Database]:
        """Carries out what is pending and then the batch in one transaction; the databases that were made for it.

        `last`: of the log, the number up to which nothing counts from then on; None: that of what is pending then.
        """
        done = False
        try:
            with self._env.begin(write=True) as txn:
                with self._publishing:
                    pending = self._published.now
                    self._transaction = txn.id()
                    self._published = self._published.started(self._transaction)
                write = Write(self._env, txn, self._meta, self._domains, str(self._directory))
                log = self._log or self._made_log
                if log is not None and (pending or self._void or self._log is None):
                    write.pending(pending, LogState(log.log_id, pending.last if last is None else last))
                write.carry_out(batch)
            done = True
        finally:
            with self._publishing:
                if self._published.writing is not None:
                    self._published = self._published.ended(done=done)
        self._cannot_fold = False
        return write.fresh

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, domain: int, log_index: int) -> bytes | None:
        self._check_usable()
        tail = self._published.now.tails.get(domain)
        if tail is not None and (found := tail.read(log_index)) is not None:
            return found
        with self._moment(domain) as (moment, db):
            return moment.read(db, domain, log_index)

    def read_many(self, domain: int, log_indexes: Sequence[int]) -> list[bytes | None]:
        with self._moment(domain) as (moment, db):
            return moment.read_many(db, domain, log_indexes)

    def scan(
        self, domain: int, first: int, *, limit_records: int = 256, limit_bytes: int = 4 << 20
    ) -> list[tuple[int, bytes]]:
        with self._moment(domain) as (moment, db):
            return moment.scan(db, domain, first, limit_records=limit_records, limit_bytes=limit_bytes)

    def scan_prefixes(self, domain: int, first: int, *, limit: int = 10_000) -> list[tuple[int, Prefix, int]]:
        with self._moment(domain) as (moment, db):
            return moment.scan_prefixes(db, domain, first, limit=limit, where=str(self._directory))

    def scan_heads(self, domain: int, first: int, *, limit: int = 1_024) -> list[tuple[int, bytes]]:
        with self._moment(domain) as (moment, db):
            return moment.scan_heads(db, domain, first, limit=limit)

    def scan_indexes(self, domain: int, first: int, *, limit: int = 10_000) -> list[int]:
        with self._moment(domain) as (moment, db):
            return moment.scan_indexes(db, domain, first, limit=limit)

    def bounds(self, domain: int) -> tuple[int, int] | None:
        with self._moment(domain) as (moment, db):
            return moment.bounds(db, domain)

    def get_meta(self, key: str) -> bytes | None:
        with self._moment() as (moment, _):
            return moment.get_meta(key)

    def meta_items(self, prefix: str) -> list[tuple[str, bytes]]:
        with self._moment() as (moment, _):
            return moment.meta_items(prefix)

    def usage(self) -> Usage:
        databases = (self._meta, *self._domains.values())
        with self._moment() as (moment, _):
            pages = moment.pages(databases)
            info = self._env.info()
        file_bytes = (info["last_pgno"] + 1) * self._page_bytes
        reachable = min(info["map_size"], file_bytes + self._room.available_bytes())
        used = pages * self._page_bytes + moment.recent.size
        return Usage(used, reachable, max(used, file_bytes))

    def reader_check(self) -> int:
        self._check_usable()
        self._room.restore_ballast()
        if self._cannot_fold:
            self._folder.notify()  # there may be room again
        return self._env.reader_check()

    def view(self) -> DiskView:
        self._check_usable()
        while True:
            published, domains = self._published, dict(self._domains)
            txn = self._env.begin(buffers=True)
            recent = self._above(published, txn)
            if recent is not None:
                view = DiskView(Moment(txn, self._meta, recent), txn, domains, str(self._directory))
                if view.knows_all():
                    self._views.add(view)
                    return view
            txn.abort()  # a domain was made, or another write started, between the lines: that is known in a moment

    def close(self) -> None:
        if not self._closed and not self._is_parents:
            self._folder.stop()
            if self._log is not None:
                self._fold()  # so that nothing is left to do at the next start; if it fails, that is done then
            self._closed = True
            for view in list(self._views):
                view.close()  # LMDB would read from a map that is gone
            self._env.close()
            self._mark.close()
            for log in (self._log, self._made_log):
                if log is not None:
                    log.close()
            os.close(self._lock)

    @contextmanager
    def _moment(self, domain: int | None = None) -> Iterator[tuple[Moment, lmdb._Database | None]]:
        """What to read from, whose buffers end with the block, and the domain's database if there is one."""
        self._check_usable()
        with read_errors(str(self._directory)):
            while True:
                published = self._published
                db = self._domains.get(domain) if domain is not None else None
                with self._env.begin(buffers=True) as txn:
                    recent = self._above(published, txn)
                    if recent is not None:
                        yield Moment(txn, self._meta, recent), db
                        return

    def _above(self, published: Published, txn: lmdb.Transaction) -> Recent | None:
        """What was pending at the moment of this read, which began after that was published. None: begin anew."""
        if not published.now:
            return NOTHING
        if self._published.attempt != published.attempt:
            return None
        return published.over(txn.id() if published.writing is not None else 0)

    def _check_usable(self) -> None:
        # LMDB would let a forked child go on, and corrupt the reader table for both.
        assert not self._is_parents, "a store must not be used in a forked child"
        if self._closed:
            raise StoreFailed("The store is closed", str(self._directory))

    def leave_to_parent(self) -> None:
        """In a forked child: nothing of it is used, or closed, here."""
        self._is_parents = True


_OPENED: WeakSet[DiskStore] = WeakSet()


def _leave_all_to_parent() -> None:
    for store in list(_OPENED):
        store.leave_to_parent()


# Once, at the fork, and not at each use: to ask for the process id is a system call.
os.register_at_fork(after_in_child=_leave_all_to_parent)

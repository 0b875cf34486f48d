"""What a store does when LMDB refuses to write: whose failure it was, what was done of the batch, and what goes on.

LMDB is made to fail by an environment in front of the real one; small disks and a preload library show the same with
real processes (`test_disk.py`, `test_commit_log_refused.py`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lmdb
import pytest

from storage.commit_log import LOG_BYTES, LOG_NAME
from storage.disk import DiskStore, open_disk
from storage.environment import copy_environment
from storage.errors import CorruptRecord, StoreFailed, StoreFull
from storage.store import Append, WriteBatch
from tests.support.commit_logs import after_a_crash, append, begin, everything, open_here, pending

BALLAST = 64 << 10


class Failing:
    """An environment whose next writes fail at their end, one error each."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self.errors: list[lmdb.Error] = []
        self.broken = False
        """From the next failure on, nothing can be written: as when the page that makes a commit valid was not."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, *, write: bool = False, **options: Any) -> Any:
        if not write:
            return self._env.begin(**options)
        if self.broken and not self.errors:
            raise error_of(errno.EIO)
        return Write(self._env, self.errors) if self.errors else self._env.begin(write=True)


class Write:
    """A transaction that fails at its end; one that is only begun, to see whether that can be done, does not."""

    def __init__(self, env: lmdb.Environment, errors: list[lmdb.Error]) -> None:
        self._env, self._errors = env, errors

    def __enter__(self) -> lmdb.Transaction:
        self._txn = self._env.begin(write=True)
        return self._txn

    def __exit__(self, *_: object) -> None:
        self._txn.abort()
        raise self._errors.pop(0)

    def abort(self) -> None:
        """Nothing was begun."""


def error_of(code: int, kind: type[lmdb.Error] = lmdb.DiskError) -> lmdb.Error:
    error = kind("planted")
    error.code = code
    return error


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    """With domains 1 and 2, and a log."""
    with closing(open_here(tmp_path / "a")) as store:
        begin(store)
        yield store


def failing(store: DiskStore, *errors: lmdb.Error) -> Failing:
    env = Failing(store._env)
    env.errors = list(errors)
    store._env = env  # type: ignore[assignment]  # in front of the real one
    return env


def direct(log_index: int = 9) -> WriteBatch:
    """One that does not go to the log."""
    return WriteBatch(wipe={2}, appends=[Append(1, log_index, b"x")])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_refuses_the_batch_and_nothing_else(store: DiskStore, code: int) -> None:
    append(store, 2, k=b"1")
    before = everything(store)
    failing(store, error_of(code))
    with pytest.raises(StoreFull, match="disk has no room"):
        store.commit(direct())
    assert everything(store) == before
    with after_a_crash(store) as found:
        assert everything(found) == before
    store.commit(direct())
    assert (store.bounds(1), store.bounds(2), pending(store)) == ((1, 9), None, [])


def test_a_ballast_is_given_away_and_the_batch_is_carried_out(tmp_path: Path) -> None:
    with closing(open_disk(tmp_path, pair="p", member="a", ballast_bytes=BALLAST)) as store:
        store.commit(WriteBatch(appends=[Append(1, 1, b"x")]))
        env = failing(store, error_of(errno.ENOSPC), error_of(errno.ENOSPC))
        with pytest.raises(StoreFull):
            store.commit(direct())
        assert env.errors == [], "tried once more with the room of the ballast"
        assert not (tmp_path / "ballast").exists()
        store.reader_check()
        assert (tmp_path / "ballast").stat().st_size == BALLAST
        env.errors.append(error_of(errno.ENOSPC))
        store.commit(direct())
        assert store.bounds(1) == (1, 9)
        assert not (tmp_path / "ballast").exists()


@pytest.mark.parametrize("free", [0, 1 << 40])
def test_a_broken_write_is_a_full_disk_only_where_the_disk_is_full(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    """LMDB says EIO of both."""
    failing(store, error_of(errno.EIO))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1))
    with pytest.raises(StoreFailed if free else StoreFull):
        store.commit(direct())
    if free:
        with pytest.raises(StoreFailed):
            store.commit(direct(10))
    else:
        store.commit(direct(10))


def test_a_full_disk_that_left_the_database_unusable_stops_the_store(store: DiskStore) -> None:
    failing(store, error_of(errno.ENOSPC)).broken = True
    for _ in range(2):
        with pytest.raises(StoreFailed):
            store.commit(direct())


@pytest.mark.parametrize("error", [error_of(errno.EFBIG), error_of(-30795, lmdb.PanicError)])
def test_any_other_failure_stops_the_store_for_good(store: DiskStore, error: lmdb.Error) -> None:
    append(store, 2)
    before = everything(store)
    failing(store, error)
    with pytest.raises(StoreFailed, match="A commit failed"):
        store.commit(direct())
    for batch in (direct(), WriteBatch(meta={"k": b"2"})):
        with pytest.raises(StoreFailed, match="A commit failed"):
            store.commit(batch)
    assert not store._fold()
    assert (everything(store), pending(store)) == (before, [2]), "nor is anything folded"


@pytest.mark.parametrize(
    ("error", "what"),
    [(lmdb.MapFullError("planted"), "The map of"), (lmdb.DbsFullError("planted"), "as many domains")],
)
def test_a_limit_of_the_store_is_no_failure(store: DiskStore, error: lmdb.Error, what: str) -> None:
    failing(store, error)
    with pytest.raises(StoreFull, match=what):
        store.commit(direct())
    store.commit(direct())


def test_a_fold_that_finds_no_room_is_told_to_the_next_commit(store: DiskStore) -> None:
    append(store, 2)
    env = failing(store, error_of(errno.ENOSPC))
    assert not store._fold()
    assert pending(store) == [2]
    env.errors.append(error_of(errno.ENOSPC))
    with pytest.raises(StoreFull):
        append(store, 3)
    append(store, 3)
    assert pending(store) == [], "it went to the database, with what was pending"
    append(store, 4)
    assert pending(store) == [4]


def test_a_fold_writes_only_what_is_pending(store: DiskStore) -> None:
    attempts = store._published.attempt
    assert not store._fold()
    assert store._published.attempt == attempts
    append(store, 2)
    assert not store._fold(), "no more came meanwhile"
    assert (store._published.attempt, pending(store)) == (attempts + 1, [])


def test_a_fold_that_fails_stops_the_store(store: DiskStore) -> None:
    append(store, 2)
    failing(store, error_of(errno.EFBIG))
    assert not store._fold()
    with pytest.raises(StoreFailed):
        append(store, 3)


def test_after_a_fold_without_room_housekeeping_tries_again(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    append(store, 2)
    failing(store, error_of(errno.ENOSPC))
    store._fold()
    notified: list[bool] = []
    monkeypatch.setattr(store._folder, "notify", lambda: notified.append(True))
    store.reader_check()
    assert notified == [True]
    store._fold()
    store.reader_check()
    assert notified == [True], "it has"


@pytest.mark.parametrize("how", ["short", "full"])
def test_a_log_without_room_leaves_the_commit_to_the_database(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    append(store, 2)
    number = store._log.last if store._log else 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: 0) if how == "short" else patch.setattr(os, "fdatasync", raising)
        append(store, 3)
    assert (pending(store), store.bounds(1)) == ([], (1, 3))
    append(store, 4)
    assert store._log is not None
    assert (pending(store), store._log.last) == ([4], number + 2), "the number that was given up is not used again"
    before = everything(store)
    with after_a_crash(store) as found:
        assert (everything(found), pending(found)) == (before, [4])


def raising(*_: object) -> None:
    raise OSError(errno.ENOSPC, "planted")


def test_a_log_that_fails_stops_the_store(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "planted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(StoreFailed, match="commit log could not be written"):
            append(store, 2)
    for again in (lambda: append(store, 2), lambda: store.commit(direct())):
        with pytest.raises(StoreFailed, match="commit log could not be written"):
            again()
    assert store.bounds(1) == (1, 1)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (lmdb.CorruptedError("planted"), CorruptRecord),
        (lmdb.PageNotFoundError("planted"), CorruptRecord),
        (lmdb.InvalidError("planted"), CorruptRecord),
        (lmdb.BadTxnError("planted"), CorruptRecord),
        (error_of(errno.EIO), StoreFailed),
        (lmdb.ReadersFullError("planted"), StoreFailed),
    ],
)
def test_a_read_that_fails_says_what_it_means(store: DiskStore, error: lmdb.Error, raised: type[Exception]) -> None:
    class Broken(Failing):
        def begin(self, **_: Any) -> Any:
            raise error

    whole = store._env
    store._env = Broken(store._env)  # type: ignore[assignment]  # in front of the real one
    reads: list[Callable[[], object]] = [
        lambda: store.read(1, 1),
        lambda: store.read_many(1, [1]),
        lambda: store.scan(1, 0),
        lambda: store.scan_prefixes(1, 0),
        lambda: store.scan_heads(1, 0),
        lambda: store.scan_indexes(1, 0),
        lambda: store.bounds(1),
        lambda: store.get_meta("k"),
        lambda: store.meta_items(""),
        store.usage,
    ]
    for read in reads:
        with pytest.raises(raised):
            read()
    store._env = whole
    assert store.read(1, 1) == b"first"


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (error_of(errno.ENOSPC), StoreFull),
        (error_of(errno.EDQUOT), StoreFull),
        (error_of(errno.EIO), StoreFailed),
        (error_of(-30796, lmdb.CorruptedError), CorruptRecord),
        (error_of(-30797, lmdb.PageNotFoundError), CorruptRecord),
    ],
)
def test_a_copy_that_fails_says_what_it_means(tmp_path: Path, error: lmdb.Error, raised: type[Exception]) -> None:
    class Broken:
        def copy(self, _: str, *, compact: bool) -> None:
            assert compact
            raise error

    with pytest.raises(raised) as info:
        copy_environment(Broken(), tmp_path)  # type: ignore[arg-type]  # what it needs of one
    assert type(info.value) is raised


@pytest.mark.parametrize("short", [0, 1])
def test_a_log_is_made_where_the_disk_can_afford_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: int
) -> None:
    free = 8 * LOG_BYTES - short
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1))
    with closing(open_here(tmp_path)) as store:
        for index in range(1, 4):
            append(store, index)
        assert (tmp_path / LOG_NAME).exists() == (not short)
        assert pending(store) == ([] if short else [3])
        assert store.bounds(1) == (1, 3)


def test_a_log_that_was_made_in_vain_is_used_by_the_next_commit(tmp_path: Path) -> None:
    with closing(open_here(tmp_path)) as store:
        append(store, 1)
        env = failing(store, error_of(errno.ENOSPC))
        with pytest.raises(StoreFull):
            append(store, 2)
        made = (tmp_path / LOG_NAME).stat().st_ino
        assert env.errors == []
        append(store, 2)
        append(store, 3)
        assert (pending(store), (tmp_path / LOG_NAME).stat().st_ino) == ([3], made)
        with after_a_crash(store) as found:
            assert pending(found) == [3]


class Looked(Failing):
    """One whose writes are looked at before they are committed, and after, when the store does not know of it yet."""

    def __init__(self, env: lmdb.Environment, look: Callable[[], None]) -> None:
        super().__init__(env)
        self._look = look

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        txn = self._env.begin(write=True)
        yield txn
        self._look()
        txn.commit()
        self._look()

    def begin(self, *, write: bool = False, **options: Any) -> Any:
        return self._writing() if write else self._env.begin(**options)


def test_what_is_pending_is_read_once_while_it_is_written(store: DiskStore) -> None:
    append(store, 2, 3, k=b"1", gone=None)
    append(store, 4)
    before, seen = everything(store), []
    store._env = Looked(store._env, lambda: seen.append(everything(store)))  # type: ignore[assignment]  # in front
    store._fold()
    assert seen == [before, before]
    assert (everything(store), pending(store)) == (before, [])

"""A disk store whose commit log is looked at, left as a crash would leave it, or damaged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import lmdb

from storage.commit_log import LOG_BYTES, LOG_NAME
from storage.disk import DiskStore, open_disk
from storage.store import META_LOG, Append, WriteBatch


def open_here(directory: Path, *, folds: bool = False, **options: Any) -> DiskStore:
    """By default one whose pending commits are folded when the test says so, and with direct ones."""
    store = open_disk(directory, pair="p", member="a", ballast_bytes=0, **options)
    if not folds:
        store._folder.stop()
    return store


def begin(store: DiskStore) -> None:
    store.commit(WriteBatch(appends=[Append(1, 1, b"first"), Append(2, 1, b"first")]))
    store.commit(WriteBatch(meta={"k": b"0"}))  # the first that could go to a log makes one
    assert (store._directory / LOG_NAME).stat().st_size == LOG_BYTES


def append(store: DiskStore, *log_indexes: int, size: int = 100, **meta: bytes | None) -> None:
    store.commit(WriteBatch(appends=[Append(1, index, value(index, size)) for index in log_indexes], meta=meta))


def value(log_index: int, size: int = 100) -> bytes:
    return (b"%d/" % log_index).ljust(size, b".")


def pending(store: DiskStore) -> list[int]:
    """What of domain 1 is in the log alone."""
    tail = store._published.now.tails.get(1)
    return tail.log_indexes[: tail.end] if tail is not None else []


def everything(store: DiskStore) -> tuple[object, ...]:
    rows = [store.scan(domain, 0, limit_records=10**6, limit_bytes=1 << 30) for domain in (1, 2, 3)]
    for domain, found in zip((1, 2, 3), rows, strict=True):
        indexes = [index for index, _ in found]
        assert store.bounds(domain) == ((indexes[0], indexes[-1]) if indexes else None)
        assert store.read_many(domain, [*indexes, 10**9]) == [*(record for _, record in found), None]
        assert [store.read(domain, index) for index in indexes] == [record for _, record in found]
        if indexes:
            middle = len(indexes) // 2
            assert store.scan(domain, indexes[middle], limit_records=3) == found[middle : middle + 3]
    items = store.meta_items("")
    assert [(key, store.get_meta(key)) for key, _ in items] == items
    assert META_LOG not in dict(items)
    with closing(store.view()) as view:
        assert view.meta_items() == items
        assert view.domains() == {number: len(found) for number, found in zip((1, 2, 3), rows, strict=True) if found}
        assert [view.scan(domain, 0, limit_bytes=1 << 30) for domain in (1, 2, 3)] == rows
        assert [view.last(domain) for domain in (1, 2, 3)] == [found[-1][1] if found else None for found in rows]
    return (*rows, items)


def crashed(store: DiskStore) -> Path:
    """A directory as the store's process would leave it, were it killed now."""
    number = sum(1 for _ in store._directory.parent.iterdir())
    return shutil.copytree(store._directory, store._directory.parent / f"crash-{number}")


def killed(store: DiskStore) -> Path:
    """Its directory, files and all, as it would be left if its process were killed now; the store is closed."""
    as_it_is = crashed(store)
    store.close()
    for path in as_it_is.iterdir():
        shutil.copyfile(path, store._directory / path.name)
    shutil.rmtree(as_it_is)
    return store._directory


@contextmanager
def after_a_crash(store: DiskStore, **options: Any) -> Iterator[DiskStore]:
    with closing(open_here(crashed(store), **options)) as found:
        yield found


def database_alone(directory: Path) -> list[int]:
    with lmdb.open(str(directory), max_dbs=9, lib_version=0, readonly=True, lock=False) as env:
        db = env.open_db(b"d%08x" % 1, create=False)
        with env.begin() as txn:
            return [int.from_bytes(key) for key, _ in txn.cursor(db)]


def damage(directory: Path, at: int) -> None:
    """Another byte than was there, whichever that was: some are random."""
    with (directory / LOG_NAME).open("r+b") as file:
        file.seek(at)
        (was,) = file.read(1)
        file.seek(at)
        file.write(bytes([was ^ 0xFF]))


def log_of(store: DiskStore) -> bytes:
    return (store._directory / LOG_NAME).read_bytes()

"""Makes a directory's database as small as what is in it, while no member has it: beside the old one, which keeps its
place until every row of the new one was compared with it and is durable. Never changes what is stored.

1. The directory's lock is held throughout.
2. LMDB copies the pages in use into a directory of its own, as `make_whole` does for a new database: what a broken off
   run leaves there is removed by the next start, or the next run.
3. The file is synced, read through a second environment and compared, row for row.
4. A rename puts it in the place of the old one, and the directory is synced. Before it the old database counts, after
   it the new one; there is no third state.

`commit.log` stays as it is: it belongs to the database by what is written in that, and the copy says the same.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from storage.directory import check_restored, lock_directory, remove_directory, sync_directory
from storage.entries import check_store
from storage.environment import DATA_FILE, copy_environment, identity_in, open_environment, read_errors
from storage.errors import CorruptRecord, StoreFailed, StoreFull
from storage.mark import MARK_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import lmdb

MAKING = f"{DATA_FILE}.making"
SPARE_BYTES = 16 << 20  # that must stay free beside the copy
_DATABASES_MAX = 255
_STEP_ROWS = 10_000


class CompactionStep(StrEnum):
    """What `on_step` is called after, in this order."""

    LOCKED = "locked"
    MADE = "made"  # the place for the copy
    COPIED = "copied"
    SYNCED = "synced"
    COMPARED = "compared"
    REPLACED = "replaced"
    DONE = "done"


class Compacted(NamedTuple):
    """Sizes of the file, and how many rows were compared."""

    before_bytes: int
    after_bytes: int
    rows: int


def compact(
    directory: Path,
    *,
    on_step: Callable[[CompactionStep], None] = lambda _step: None,
    on_progress: Callable[[int, int], None] = lambda _rows, _all: None,
) -> Compacted:
    """Whose it is does not matter. Raises DirectoryInUse, RestoreUnfinished, StoreFull when there is no room,
    CorruptRecord, NewerFormat, StoreFailed, OSError; then the old database is in its place, unchanged.
    """
    data = directory / DATA_FILE
    if not data.exists() and not data.is_symlink():
        raise StoreFailed(f"There is no {DATA_FILE} here", str(directory))
    check_store(directory)
    lock = lock_directory(directory)
    try:
        check_restored(directory, DATA_FILE)
        on_step(CompactionStep.LOCKED)
        return _compact(directory, on_step, on_progress)
    finally:
        os.close(lock)


def _compact(
    directory: Path, on_step: Callable[[CompactionStep], None], on_progress: Callable[[int, int], None]
) -> Compacted:
    making = directory / MAKING
    remove_directory(making)
    with read_errors(str(directory)), closing(_opened(directory)) as old:
        identity_in(old, directory)  # else it is not ours
        _check_room(directory, _used_bytes(old) + SPARE_BYTES)
        making.mkdir(mode=0o700)
        on_step(CompactionStep.MADE)
        with ExitStack() as undo:
            undo.callback(remove_directory, making)
            rows = _copied(old, making, on_step, on_progress)
            undo.pop_all()
    before = (directory / DATA_FILE).stat().st_size
    # It knows its database by the inode, and the copy may get that of the one before: transactions count from 1 in it.
    (directory / MARK_FILE).unlink(missing_ok=True)
    (making / DATA_FILE).rename(directory / DATA_FILE)
    sync_directory(directory)
    on_step(CompactionStep.REPLACED)
    remove_directory(making)
    on_step(CompactionStep.DONE)
    return Compacted(before, (directory / DATA_FILE).stat().st_size, rows)


def _copied(
    old: lmdb.Environment,
    making: Path,
    on_step: Callable[[CompactionStep], None],
    on_progress: Callable[[int, int], None],
) -> int:
    """Makes the copy, durable and compared; how many rows it has."""
    copy_environment(old, making)
    on_step(CompactionStep.COPIED)
    path = making / DATA_FILE
    path.chmod(0o600)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_directory(making)
    on_step(CompactionStep.SYNCED)
    with read_errors(str(making)), closing(_opened(making)) as new:
        rows = _compared(old, new, making, on_progress)
    on_step(CompactionStep.COMPARED)
    return rows


def _compared(
    old: lmdb.Environment, new: lmdb.Environment, making: Path, on_progress: Callable[[int, int], None]
) -> int:
    done = 0
    total = _row_count(old)
    for place, (ours, copied) in enumerate(zip_longest(_rows(old), _rows(new)), 1):
        if ours != copied:
            raise CorruptRecord("The copy differs from the database; the old one stays", str(making))
        if place % _STEP_ROWS == 0:
            on_progress(place, total)
        done = place
    return done


def _rows(env: lmdb.Environment) -> Iterator[tuple[bytes, memoryview, memoryview]]:
    """Everything: the database's name, key and value. Buffers are good until the next row."""
    names = sorted(env.dbs())
    handles = [env.open_db(name, create=False) for name in names]
    with env.begin(buffers=True) as txn:
        for name, handle in zip(names, handles, strict=True):
            for key, value in txn.cursor(handle):
                yield name, key, value


def _row_count(env: lmdb.Environment) -> int:
    handles = [env.open_db(name, create=False) for name in env.dbs()]
    with env.begin() as txn:
        return sum(txn.stat(handle)["entries"] for handle in handles)


def _used_bytes(env: lmdb.Environment) -> int:
    handles = [env.open_db(name, create=False) for name in env.dbs()]
    with env.begin() as txn:
        stats = [txn.stat(), *(txn.stat(handle) for handle in handles)]
    pages = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
    return (pages + 2) * int(env.stat()["psize"])


def _check_room(directory: Path, needed: int) -> None:
    import shutil  # with every kind of archive

    free = shutil.disk_usage(directory).free
    if free < needed:
        what = f"The copy needs {needed:,} bytes beside the old file, and {free:,} are free"
        raise StoreFull(what, str(directory))


def _opened(directory: Path) -> lmdb.Environment:
    return open_environment(directory, 0, _DATABASES_MAX, readonly=True)

"""A compacted directory holds what it held, in less room; wherever it is broken off, one of the two files is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import lmdb
import pytest

from storage.commit_log import LOG_NAME
from storage.compaction import MAKING, SPARE_BYTES, CompactionStep, compact
from storage.directory import lock_directory
from storage.disk import open_disk, open_to_read
from storage.environment import DATA_FILE
from storage.errors import CorruptRecord, DirectoryInUse, StoreFailed, StoreFull
from storage.mark import MARK_FILE
from storage.store import Append, WriteBatch
from tests.support.commit_logs import open_here
from tests.support.until import OUTER_S

ROOT = Path(__file__).resolve().parents[2]


def fill(directory: Path, *, records: int = 200, size: int = 30_000) -> None:
    """Two domains, most of whose records have gone; some commits in the log alone."""
    store = open_disk(directory, pair="p", member="a", ballast_bytes=0)
    for domain in (1, 2):
        rows = [Append(domain, index, os.urandom(size)) for index in range(1, records + 1)]
        store.commit(WriteBatch(appends=rows, meta={f"domain/{domain}": b"state"}))
        store.commit(WriteBatch(drops={domain: list(range(1, records - 4))}))
    store.close()


def test_what_was_reported_of_the_old_database_is_not_believed_of_the_new_one(tmp_path: Path) -> None:
    """A copy may get the inode of the database before the last one; its transactions count from 1."""
    fill(tmp_path)
    assert (tmp_path / MARK_FILE).exists()
    for _ in range(3):
        compact(tmp_path)
        assert not (tmp_path / MARK_FILE).exists()
        store = open_to_read(tmp_path)
        store.close()
        assert store.doubts == ()


def rows_of(directory: Path) -> list[tuple[bytes, bytes, bytes]]:
    with lmdb.open(str(directory), max_dbs=9, lib_version=0, readonly=True, lock=False) as env:
        names = sorted(env.dbs())
        databases = [env.open_db(name, create=False) for name in names]
        with env.begin() as txn:
            return [(name, *row) for name, db in zip(names, databases, strict=True) for row in txn.cursor(db)]


def seen(directory: Path) -> tuple[list[tuple[int, bytes]], list[tuple[str, bytes]]]:
    """What a member finds, pending commits too."""
    store = open_disk(directory, pair="p", member="a", ballast_bytes=0)
    try:
        records = [row for domain in (1, 2) for row in store.scan(domain, 0, limit_records=10_000, limit_bytes=1 << 30)]
        return records, store.meta_items("")
    finally:
        store.close()


CHILD = """
import os, signal, sys
from pathlib import Path
from storage.compaction import compact
def step(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    print(step, flush=True)
compact(Path(sys.argv[1]), on_step=step)
"""
PENDING = """
import os, signal, sys
from pathlib import Path
from storage.disk import open_disk
from storage.store import Append, WriteBatch
store = open_disk(Path(sys.argv[1]), pair="p", member="a", ballast_bytes=0)
store._folder.stop()
for index in (998, 999, 1000):
    store.commit(WriteBatch(appends=[Append(1, index, b"pending")]))
assert store._published.now
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=OUTER_S, env=environment, check=False)


def test_it_holds_what_it_held_in_less_room(tmp_path: Path) -> None:
    fill(tmp_path)
    before = rows_of(tmp_path)
    done = compact(tmp_path)
    assert rows_of(tmp_path) == before
    assert done.rows == len(before)
    assert done.after_bytes == (tmp_path / DATA_FILE).stat().st_size < done.before_bytes / 10
    assert (tmp_path / DATA_FILE).stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / MAKING).exists()
    again = compact(tmp_path)
    assert again.after_bytes == done.after_bytes
    store = open_disk(tmp_path, pair="p", member="a", ballast_bytes=0)
    store.commit(WriteBatch(appends=[Append(1, 900, b"one more")]))
    store.close()
    assert (900, b"one more") in seen(tmp_path)[0]


@pytest.mark.process
def test_commits_that_only_the_log_holds_are_there_afterwards(tmp_path: Path) -> None:
    fill(tmp_path)
    assert run(PENDING, tmp_path).returncode == -signal.SIGKILL
    log = (tmp_path / LOG_NAME).read_bytes()
    compact(tmp_path)
    assert (tmp_path / LOG_NAME).read_bytes() == log
    assert (1000, b"pending") in seen(tmp_path)[0]


@pytest.mark.process
@pytest.mark.parametrize("step", list(CompactionStep))
def test_a_kill_at_any_step_leaves_one_whole_store(tmp_path: Path, step: CompactionStep) -> None:
    fill(tmp_path, records=50)
    before, size = rows_of(tmp_path), (tmp_path / DATA_FILE).stat().st_size
    ended = run(CHILD, tmp_path, step)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert ended.stdout.split() == [str(each) for each in list(CompactionStep)[: list(CompactionStep).index(step)]]
    assert rows_of(tmp_path) == before
    replaced = step in (CompactionStep.REPLACED, CompactionStep.DONE)
    assert ((tmp_path / DATA_FILE).stat().st_size < size) is replaced
    records, _ = seen(tmp_path)
    assert len(records) == 10
    assert not (tmp_path / MAKING).exists()  # the start has taken it away
    assert compact(tmp_path).rows == len(rows_of(tmp_path))


@pytest.mark.process
def test_a_kill_while_it_copies_leaves_the_old_store(tmp_path: Path) -> None:
    fill(tmp_path, records=10)
    store = open_disk(tmp_path, pair="p", member="a", ballast_bytes=0)
    for index in range(100, 140):
        store.commit(WriteBatch(appends=[Append(1, index, os.urandom(1 << 20))]))
    store.close()
    before = rows_of(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", CHILD, tmp_path, "copied"], env=environment) as process:
        # Killed as soon as there is a part of the copy; where that is missed, the child kills itself at its end.
        while process.poll() is None and not _begun(tmp_path):
            pass
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert rows_of(tmp_path) == before
    assert len(seen(tmp_path)[0]) == 50
    assert not (tmp_path / MAKING).exists()


def _begun(directory: Path) -> bool:
    try:
        return (directory / MAKING / DATA_FILE).stat().st_size > 0
    except FileNotFoundError:
        return False


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, records=10)
    lock = lock_directory(tmp_path)
    try:
        with pytest.raises(DirectoryInUse):
            compact(tmp_path)
    finally:
        os.close(lock)
    held: list[bool] = []

    def step(_step: CompactionStep) -> None:
        with pytest.raises(DirectoryInUse):
            os.close(lock_directory(tmp_path))
        held.append(True)

    compact(tmp_path, on_step=step)
    assert len(held) == len(CompactionStep)


def test_without_room_for_both_nothing_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, records=10)
    before = (tmp_path / DATA_FILE).read_bytes()
    monkeypatch.setattr("storage.compaction.SPARE_BYTES", 1 << 60)
    with pytest.raises(StoreFull, match="are free"):
        compact(tmp_path)
    assert (tmp_path / DATA_FILE).read_bytes() == before
    assert not (tmp_path / MAKING).exists()


@pytest.mark.process
def test_a_copy_that_cannot_be_written_leaves_the_old_store(tmp_path: Path) -> None:
    fill(tmp_path, records=50)
    before = rows_of(tmp_path)
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
    ended = run(limited + CHILD, tmp_path, "never")
    assert ended.returncode == 1
    assert "StoreFailed" in ended.stderr
    assert rows_of(tmp_path) == before
    assert not (tmp_path / MAKING).exists()


@pytest.mark.parametrize("what", ["value", "row"])
def test_a_copy_that_differs_never_takes_the_place(tmp_path: Path, what: str) -> None:
    fill(tmp_path, records=10)
    before = (tmp_path / DATA_FILE).read_bytes()

    def spoil(step: CompactionStep) -> None:
        if step is CompactionStep.SYNCED:
            with (
                lmdb.open(str(tmp_path / MAKING), max_dbs=9, lib_version=0) as env,
                env.begin(write=True) as txn,
            ):
                db = env.open_db(b"meta", txn=txn, create=False)
                assert txn.put(b"domain/1", b"other", db=db) if what == "value" else txn.delete(b"domain/2", db=db)

    with pytest.raises(CorruptRecord, match="differs"):
        compact(tmp_path, on_step=spoil)
    assert (tmp_path / DATA_FILE).read_bytes() == before
    assert not (tmp_path / MAKING).exists()


def test_what_is_no_directory_of_ours_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match=r"no data\.mdb"):
        compact(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with lmdb.open(str(tmp_path), max_dbs=2, lib_version=0) as env, env.begin(write=True) as txn:
        txn.put(b"k", b"v", db=env.open_db(b"theirs", txn=txn))
    before = (tmp_path / DATA_FILE).read_bytes()
    with pytest.raises(CorruptRecord, match="not Tandemq's"):
        compact(tmp_path)
    assert (tmp_path / DATA_FILE).read_bytes() == before


def test_a_reader_sees_the_same(tmp_path: Path) -> None:
    fill(tmp_path)
    store = open_to_read(tmp_path)
    before = store.meta_items("")
    store.close()
    compact(tmp_path)
    store = open_to_read(tmp_path)
    assert store.meta_items("") == before
    store.close()


def test_the_room_that_it_needs_is_the_copys_and_a_little_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte; the copy is then no larger than it was said to be."""
    with closing(open_here(tmp_path, commit_log=False)) as store:
        store.commit(WriteBatch(appends=[Append(1, index, b"x" * 5000) for index in range(1, 200)]))
        store.commit(WriteBatch(drops={1: list(range(1, 150))}))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(StoreFull) as full:
        compact(tmp_path)
    needed = int(full.value.what.split()[3].replace(",", ""))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=needed - 1))
    with pytest.raises(StoreFull):
        compact(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=needed))
    compacted = compact(tmp_path)
    assert compacted.after_bytes <= needed - SPARE_BYTES <= compacted.after_bytes + 2 * 4096
    assert compacted.before_bytes > compacted.after_bytes


def test_how_far_the_comparison_is_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.compaction._STEP_ROWS", 10)
    with closing(open_here(tmp_path, commit_log=False)) as store:
        store.commit(WriteBatch(appends=[Append(1, index, b"x") for index in range(1, 26)]))
    told: list[tuple[int, int]] = []
    compacted = compact(tmp_path, on_progress=lambda done, rows: told.append((done, rows)))
    assert told == [(done, compacted.rows) for done in range(10, compacted.rows + 1, 10)]
    assert compacted.rows == 25 + 4

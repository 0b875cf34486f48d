"""How what is in a commit log comes into the database, and what is read meanwhile."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from storage.commit_log import LOG_BYTES
from storage.disk import PENDING_BYTES_MAX, DiskStore, open_to_read
from storage.errors import StoreFull
from storage.log_format import BLOCK_BYTES
from storage.store import Append, WriteBatch
from tests.support.commit_logs import (
    after_a_crash,
    append,
    begin,
    crashed,
    database_alone,
    everything,
    open_here,
    pending,
    value,
)


@pytest.fixture
def store(tmp_path):
    """With domains 1 and 2, and a log."""
    store = open_here(tmp_path / "a")
    begin(store)
    yield store
    store.close()


# -- folding ---------------------------------------------------------------------------------------------------------


def wait_until_folded(store: DiskStore) -> None:
    """The thread that folds needs nothing but time."""
    while store._published.now:
        with store._database:
            pass


def test_what_is_pending_is_folded_soon_and_while_commits_go_on(tmp_path):
    with closing(open_here(tmp_path / "a", folds=True)) as store:
        begin(store)
        append(store, 2)
        wait_until_folded(store)
        assert database_alone(crashed(store)) == [1, 2]
        append(store, 3)
        wait_until_folded(store)
        assert database_alone(crashed(store)) == [1, 2, 3]


@pytest.mark.parametrize("size", [60_000, 10])
def test_much_is_folded_at_once(tmp_path, monkeypatch, size):
    """Many bytes, or many blocks of the log."""
    monkeypatch.setattr("storage.folding.FOLD_S", 3600)
    count = PENDING_BYTES_MAX // size if size > BLOCK_BYTES else LOG_BYTES * 3 // 4 // BLOCK_BYTES
    with closing(open_here(tmp_path / "a", folds=True)) as store:
        begin(store)
        attempts = store._published.attempt
        for index in range(2, count):
            append(store, index, size=size)
        assert store._published.attempt == attempts
        for index in range(count, count + 4):
            append(store, index, size=size)
        while store._published.attempt == attempts or store._published.writing is not None:
            with store._database:
                pass
        assert len(pending(store)) < 6


def test_pending_commits_are_taken_up_and_folded_after_a_start(store):
    append(store, 2)
    with closing(open_here(crashed(store), folds=True)) as found:
        wait_until_folded(found)
        assert found.bounds(1) == (1, 2)


def test_a_full_map_refuses_and_keeps_what_is_pending(tmp_path):
    """Nothing becomes pending that the database might not take: what was acknowledged can always be folded."""
    with closing(open_here(tmp_path / "a", map_bytes=8 << 20)) as store:
        begin(store)
        logged = 0
        for index in range(2, 1000):
            try:
                append(store, index, size=30_000, k=b"%d" % index)
            except StoreFull:
                break
            logged += bool(store._published.now)
        assert logged > 10
        assert store.bounds(1) == (1, index - 1)
        assert store.get_meta("k") == b"%d" % (index - 1)
        before = everything(store)
        with after_a_crash(store, map_bytes=8 << 20) as found:
            assert everything(found) == before
            found.commit(WriteBatch(drops={1: [1, 2, 3, 4]}))
            append(found, index, size=10)
            assert found.bounds(1) == (5, index)


# -- reading meanwhile -----------------------------------------------------------------------------------------------


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads give way to each other a hundred times as often as they do by themselves."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 100)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.slow
@pytest.mark.usefixtures("restless")
def test_readers_see_one_moment_while_commits_are_logged_folded_cut_and_wiped(tmp_path):
    """Each commit moves the domain and the value together; a mixture of two moments would have a gap or go back."""
    done = threading.Event()
    failures: list[str] = []

    def check(rows: list[tuple[int, bytes]], bounds: tuple[int, int] | None) -> None:
        indexes = [index for index, _ in rows]
        lives = {record.partition(b"/")[0] for _, record in rows}
        if indexes != list(range(1, len(indexes) + 1)) or len(lives) > 1 or (bounds and bounds[0] != 1):
            failures.append(f"{indexes[:3]} to {indexes[-3:]}, {len(indexes)} rows of {lives}, {bounds}")

    def read() -> int:
        rounds = 0
        while not done.is_set() or not rounds:
            check(store.scan(1, 0, limit_records=10**6), store.bounds(1))
            both = [value for key, value in store.meta_items("pair-of/")]
            if len(set(both)) > 1:
                failures.append(f"values of two commits: {both}")
            found = store.read_many(1, range(1, 8))
            check([(index, record) for index, record in enumerate(found, 1) if record is not None], None)
            with closing(store.view()) as view:
                rows = view.scan(1, 0, limit_bytes=1 << 30)
                check(rows, None)
                if view.domains() != ({1: len(rows)} if rows else {}) or (rows and view.last(1) != rows[-1][1]):
                    failures.append("a view that does not agree with itself")
            rounds += 1
        return rounds

    def fold() -> None:
        while not done.is_set():
            store._fold()

    store = open_here(tmp_path / "a")
    with closing(store), ThreadPoolExecutor(4) as pool:
        readers = [*(pool.submit(read) for _ in range(3)), pool.submit(fold)]
        try:
            for life in range(20):
                # A domain is one life: wiped and begun again in one commit, which goes directly.
                number = b"%d" % life
                meta = {"pair-of/a": number, "pair-of/b": number}
                store.commit(WriteBatch(wipe={1}, appends=[Append(1, 1, number + b"/1")], meta=meta))
                for index in range(2, 9):
                    meta = dict.fromkeys(("pair-of/a", "pair-of/b"), b"%d/%d" % (life, index))
                    store.commit(WriteBatch(appends=[Append(1, index, b"%d/%d" % (life, index))], meta=meta))
                    if index == 6:
                        store.commit(WriteBatch(cut={1: 4}, meta=dict.fromkeys(meta, b"cut %d" % life)))
                        store.commit(WriteBatch(appends=[Append(1, each, b"%d/" % life) for each in (5, 6)]))
        finally:
            done.set()
        for reader in readers:
            reader.result()
    assert failures == []


@pytest.mark.parametrize("write", [WriteBatch(), WriteBatch(wipe={1}), WriteBatch(meta={"k": b"9"})])
def test_a_read_that_a_write_came_between_begins_anew(store, write):
    """What was pending when it began may be gone by the time it looks into the database."""
    append(store, 2, k=b"1")
    published = store._published
    store.commit(write)
    store._fold()
    with store._env.begin() as txn:
        assert store._above(published, txn) is None
    append(store, 3)
    with store._env.begin() as txn:
        assert store._above(store._published, txn) is store._published.now


def test_a_view_is_one_moment_of_both(store):
    append(store, 2, 3, k=b"1")
    with closing(store.view()) as view:
        append(store, 4, k=b"2")
        store._fold()
        store.commit(WriteBatch(wipe={1}, meta={"k": None}))
        assert [index for index, _ in view.scan(1, 0, limit_bytes=1 << 30)] == [1, 2, 3]
        assert view.last(1) == value(3)
        assert view.domains() == {1: 3, 2: 1}
        assert dict(view.meta_items())["k"] == b"1"
        assert [index for index, _ in view.scan(1, 2, limit_bytes=1)] == [2]


def fold_threads() -> int:
    return sum(each.name == "tandemq-fold" for each in threading.enumerate())


def test_who_only_reads_folds_nothing_and_who_has_nothing_pending_has_no_thread(store, tmp_path):
    append(store, 2)
    before = fold_threads()
    with closing(open_to_read(crashed(store))) as found:
        assert (pending(found), fold_threads()) == ([2], before)
    with closing(open_here(crashed(store), folds=True)):
        assert fold_threads() == before + 1
    store._fold()
    with closing(open_here(crashed(store), folds=True)) as found:
        assert (pending(found), fold_threads()) == ([], before)

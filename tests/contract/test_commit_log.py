"""What only a store with a log before its database can get wrong: what is in one and not in the other, and when."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import lmdb
import pytest

from storage.commit_log import LOG_BYTES, LOG_NAME
from storage.disk import PENDING_BYTES_MAX, SMALL_BYTES_MAX, DiskStore, open_disk, open_to_read
from storage.errors import CorruptRecord, NewerFormat, StoreFailed, StoreFull
from storage.log_format import BLOCK_BYTES
from storage.store import META_LOG, Append, WriteBatch
from tests.contract.test_disk import put_meta


def open_here(directory: Path, *, folds: bool = False, **options) -> DiskStore:
    """By default one whose pending commits are folded when the test says so, and with direct ones."""
    store = open_disk(directory, pair="p", member="a", ballast_bytes=0, **options)
    if not folds:
        store._folder.stop()
    return store


@pytest.fixture
def store(tmp_path):
    """With domains 1 and 2, and a log."""
    store = open_here(tmp_path / "a")
    begin(store)
    yield store
    store.close()


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


@contextmanager
def after_a_crash(store: DiskStore, **options):
    with closing(open_here(crashed(store), **options)) as found:
        yield found


def database_alone(directory: Path) -> list[int]:
    with lmdb.open(str(directory), max_dbs=9, lib_version=0, readonly=True, lock=False) as env:
        db = env.open_db(b"d%08x" % 1, create=False)
        with env.begin() as txn:
            return [int.from_bytes(key) for key, _ in txn.cursor(db)]


def damage(directory: Path, at: int, data: bytes = b"\xff") -> None:
    with (directory / LOG_NAME).open("r+b") as file:
        file.seek(at)
        file.write(data)


def log_of(store: DiskStore) -> bytes:
    return (store._directory / LOG_NAME).read_bytes()


# -- what goes there -------------------------------------------------------------------------------------------------


def test_a_small_commit_is_durable_in_the_log_alone(store):
    append(store, 2, 3, k=b"1", new=b"2")
    before = everything(store)
    assert pending(store) == [2, 3]
    assert database_alone(crashed(store)) == [1]
    with after_a_crash(store) as found:
        assert everything(found) == before
    with closing(open_to_read(crashed(store))) as found:
        assert everything(found) == before


def test_entries_share_no_block(store):
    """A block that is written again may tear, and what was acknowledged in it would go."""
    append(store, 2)
    first, end = log_of(store), store._log.end
    append(store, 3)
    second = log_of(store)
    assert end % BLOCK_BYTES == 0
    assert store._log.end == end + BLOCK_BYTES
    assert first[:end] == second[:end]


@pytest.mark.parametrize(
    "batch",
    [
        WriteBatch(appends=[Append(1, 9, b"x" * (SMALL_BYTES_MAX + 1))]),
        WriteBatch(meta={"k": b"x" * (SMALL_BYTES_MAX + 1)}),
        WriteBatch(appends=[Append(3, 1, b"a domain without a database")]),
        WriteBatch(wipe={2}),
        WriteBatch(cut={1: 2}),
        WriteBatch(drops={1: [1, 2]}),
        WriteBatch(inserts=[Append(1, 8, b"x")]),
        WriteBatch(inserts=[Append(1, 2, b"over a pending one")]),
        WriteBatch(bodies=[Append(1, 99, b"x")]),
        WriteBatch(wipe={1}, appends=[Append(1, 1, b"again")], meta={"k": None, "pending": b"2"}),
    ],
)
def test_all_else_goes_to_the_database_with_what_was_pending_before_it(store, tmp_path, batch):
    append(store, 2, 3, k=b"1", pending=b"1")
    with closing(open_here(tmp_path / "b", commit_log=False)) as other:
        other.commit(WriteBatch(appends=[Append(1, 1, b"first"), Append(2, 1, b"first")], meta={"k": b"0"}))
        append(other, 2, 3, k=b"1", pending=b"1")
        other.commit(batch)
        expected = everything(other)
        assert not (tmp_path / "b" / LOG_NAME).exists()
    store.commit(batch)
    assert not store._published.now
    assert everything(store)[:3] == expected[:3]
    assert [item for item in everything(store)[3] if item[0] != "instance"] == [
        item for item in expected[3] if item[0] != "instance"
    ]
    before = everything(store)
    with after_a_crash(store) as found:
        assert everything(found) == before


def test_a_value_that_is_deleted_stays_deleted(store):
    append(store, 2, k=None)
    assert store.get_meta("k") is None
    before = everything(store)
    with after_a_crash(store) as found:
        assert everything(found) == before
        found._fold()
        assert everything(found) == before


def test_an_append_that_does_not_rise_is_refused_before_it_is_written(store):
    append(store, 5)
    before = everything(store)
    for wrong in ([5], [4], [7, 7], [8, 6]):
        with after_a_crash(store) as found:
            with pytest.raises(StoreFailed, match="domain 1 would not leave"):
                append(found, *wrong)
            with pytest.raises(StoreFailed):
                append(found, 9)
            assert everything(found) == before
    store.commit(WriteBatch(cut={1: 1}))
    append(store, 2)
    store.commit(WriteBatch(drops={1: [2]}))
    append(store, 2)
    assert pending(store) == [2]


def test_usage_counts_what_is_pending(store):
    before = store.usage()
    append(store, 2, size=50_000)
    after = store.usage()
    assert after.used_bytes >= before.used_bytes + 50_000
    assert after.file_bytes >= after.used_bytes


def test_the_log_is_passed_round_and_nothing_is_lost(store):
    """What finds no room at its end goes to the database, with all that was pending; then it begins anew."""
    size, directly = 60_000, []
    for index in range(2, 3 * LOG_BYTES // size):
        append(store, index, size=size, k=b"%d" % index)
        if not store._published.now:
            directly.append(index)
        if index % 17 == 0:
            expected = [(1, b"first"), *((each, value(each, size)) for each in range(2, index + 1))]
            with after_a_crash(store) as found:
                assert found.scan(1, 0, limit_records=10**6, limit_bytes=1 << 30) == expected
                assert found.get_meta("k") == b"%d" % index
    assert len(directly) >= 2
    assert directly[0] > 3 * LOG_BYTES / 4 / size


def test_entries_of_the_pass_before_are_not_taken_up(store):
    for index in range(2, 12):
        append(store, index, k=b"%d" % index)
    store._fold()
    append(store, 12)  # over the first of them: the others still follow it
    assert store._log.end == 2 * BLOCK_BYTES
    before = everything(store)
    assert pending(store) == [12]
    with after_a_crash(store) as found:
        assert pending(found) == [12]
        assert everything(found) == before


def test_what_is_pending_outlives_any_number_of_crashes(store):
    last = 1
    for _ in range(3):
        for _ in range(3):
            last += 1
            append(store, last, k=b"%d" % last)
        before = everything(store)
        store = open_here(crashed(store))
        assert everything(store) == before
        assert pending(store) == list(range(2, last + 1))
    store._fold()
    assert everything(store) == before
    with after_a_crash(store) as found:
        assert not found._published.now
        assert everything(found) == before
    store.close()


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 4, 20, 28, 32, 36, 1000, 5000, 9000])
def test_a_torn_last_entry_never_was(store, at):
    append(store, 2, k=b"2")
    whole, start = everything(store), store._log.end
    append(store, 3, size=9000, k=b"3")
    directory = crashed(store)
    damage(directory, start + at)
    with closing(open_here(directory)) as found:
        assert everything(found) == whole
        append(found, 3, size=10, k=b"4")  # shorter than what was torn there
        again = everything(found)
        with after_a_crash(found) as later:
            assert everything(later) == again


@pytest.mark.parametrize("first", [2, 5])
def test_an_entry_that_is_damaged_before_another_is_reported(store, first):
    """It was acknowledged: the one after it was written later."""
    starts = {}
    for index in range(2, 9):
        starts[index] = store._log.end
        append(store, index)
    directory = crashed(store)
    damage(directory, starts[first] + 40)
    with pytest.raises(CorruptRecord, match=f"entry {first} where {first - 1} must come"):
        open_here(directory)
    with pytest.raises(CorruptRecord, match="empty one and let the member rejoin"):
        open_to_read(directory)


def test_damage_in_what_was_folded_does_not_matter(store):
    append(store, 2)
    append(store, 3)
    store._fold()
    append(store, 4)  # over the second; the third still lies behind it
    directory = crashed(store)
    before = everything(store)
    damage(directory, 2 * BLOCK_BYTES + 40)
    with closing(open_here(directory)) as found:
        assert everything(found) == before


def test_a_log_that_is_gone_or_anothers_is_refused(store, tmp_path):
    append(store, 2)
    with closing(open_here(tmp_path / "other")) as other:
        begin(other)
        append(other, 2)
        theirs = log_of(other)
    for content in (theirs, bytes(LOG_BYTES), b"", None):
        directory = crashed(store)
        if content is None:
            (directory / LOG_NAME).unlink()
        else:
            (directory / LOG_NAME).write_bytes(content)
        with pytest.raises(CorruptRecord, match=r"commit\.log"):
            open_here(directory)
        with pytest.raises(CorruptRecord, match=r"commit\.log"):
            open_to_read(directory)


def test_a_log_that_no_database_knows_is_made_anew(store):
    """The process died after it had made it."""
    directory = crashed(store)
    put_meta(directory, META_LOG.encode(), None)
    (directory / LOG_NAME).write_bytes(b"a part of it")
    with closing(open_here(directory)) as found:
        append(found, 2)
        append(found, 3)
        assert pending(found) == [3]
        with after_a_crash(found) as later:
            assert pending(later) == [3]


def test_looking_changes_nothing(store):
    append(store, 2)
    directory = crashed(store)
    before = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "LOCK"}
    open_to_read(directory).close()
    assert {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "LOCK"} == before


# -- formats ---------------------------------------------------------------------------------------------------------


def test_a_directory_of_the_format_before_is_raised_and_goes_on(tmp_path):
    with closing(open_here(tmp_path, commit_log=False)) as old:
        old.commit(WriteBatch(appends=[Append(1, 1, b"old")], meta={"k": b"old"}))
    put_meta(tmp_path, b"format", b"1")
    with closing(open_to_read(tmp_path)) as found:
        assert (found.get_meta("format"), found.read(1, 1)) == (b"1", b"old")
    with closing(open_here(tmp_path)) as store:
        assert (store.get_meta("format"), store.read(1, 1), store.get_meta("k")) == (b"2", b"old", b"old")
        append(store, 2)
        append(store, 3)
        assert pending(store) == [3]


def test_whoever_does_not_know_of_logs_refuses_the_directory(store):
    """As any version does with a format above its own: it would not see what is pending."""
    append(store, 2)
    directory = crashed(store)
    put_meta(directory, b"format", b"3")
    with pytest.raises(NewerFormat, match="format 3, this version reads up to 2"):
        open_here(directory)


def test_after_a_clean_stop_the_database_has_everything(tmp_path):
    with closing(open_here(tmp_path)) as store:
        begin(store)
        append(store, 2, 3)
    assert database_alone(tmp_path) == [1, 2, 3]


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


@pytest.mark.slow
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
            for life in range(60):
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

"""What a store notices of a disk that lost its last writes, and that it notices nothing where all are there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chaos.lying import pages
from storage.commit_log import LOG_BYTES, LOG_NAME
from storage.disk import SMALL_BYTES_MAX, DiskStore, open_to_read
from storage.doubt import Doubt, DoubtKind, Reported, said
from storage.environment import DATA_FILE
from storage.errors import CorruptRecord
from storage.mark import MARK_FILE, Mark
from storage.store import Append, WriteBatch
from tests.support.commit_logs import append, begin, everything, killed, open_here, pending

DATABASE, LOG, META = DoubtKind.DATABASE_BEHIND, DoubtKind.LOG_BEHIND, DoubtKind.META_PAGE
SHORT, TORN = DoubtKind.LOG_SHORT, DoubtKind.LAST_ENTRY


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    """With domains 1 and 2, and a log."""
    store = open_here(tmp_path / "a")
    begin(store)
    yield store
    store.close()


def large(store: DiskStore, log_index: int) -> None:
    store.commit(WriteBatch(appends=[Append(1, log_index, b"." * (SMALL_BYTES_MAX + 1))]))


def doubts_in(directory: Path) -> tuple[Doubt, ...]:
    """As one sees them who reads it; that changes nothing."""
    with closing(open_to_read(directory)) as store:
        return tuple(store.doubts)


def kinds_in(directory: Path) -> set[DoubtKind]:
    return {doubt.kind for doubt in doubts_in(directory)}


# -- nothing is lost -------------------------------------------------------------------------------------------------


def test_what_is_all_there_is_never_in_doubt(store: DiskStore) -> None:
    for log_index in range(2, 12, 2):
        append(store, log_index, k=b"small")
        assert doubts_in(killed(store)) == ()
        store = open_here(store._directory)
        large(store, log_index + 1)
        assert doubts_in(killed(store)) == ()
        store = open_here(store._directory)
    store._fold()
    assert doubts_in(killed(store)) == ()


def test_a_new_directory_is_not_in_doubt(tmp_path: Path) -> None:
    with closing(open_here(tmp_path / "new")) as store:
        assert store.doubts == ()
    assert doubts_in(tmp_path / "new") == ()


def test_a_fold_that_went_is_made_again_and_is_no_doubt(store: DiskStore) -> None:
    """The log still has what was in it."""
    large(store, 2)
    append(store, 3)
    append(store, 4)
    before = everything(store)
    store._fold()
    directory = killed(store)
    pages.take_meta_back(directory / DATA_FILE)
    assert doubts_in(directory) == ()
    with closing(open_here(directory)) as found:
        assert everything(found) == before


def test_a_mark_that_is_older_says_nothing(store: DiskStore) -> None:
    append(store, 2)
    old = (store._directory / MARK_FILE).read_bytes()
    append(store, 3)
    large(store, 4)
    directory = killed(store)
    (directory / MARK_FILE).write_bytes(old)
    assert doubts_in(directory) == ()


# -- something is lost -----------------------------------------------------------------------------------------------


def test_a_transaction_that_never_reached_the_disk_is_noticed(store: DiskStore) -> None:
    large(store, 2)
    large(store, 3)
    directory = killed(store)
    pages.take_meta_back(directory / DATA_FILE)
    (doubt,) = doubts_in(directory)
    assert doubt.kind is DATABASE
    assert doubt.is_proven
    assert doubt.where == str(directory / DATA_FILE)
    assert "was reported durable" in said([doubt])
    with closing(open_here(directory)) as found:
        assert found.doubts == (doubt,)
        assert found.bounds(1) == (1, 2), "the store goes on from what it has"


def test_a_database_of_before_is_noticed(store: DiskStore, tmp_path: Path) -> None:
    large(store, 2)
    shutil.copyfile(store._directory / DATA_FILE, tmp_path / "copy")
    for log_index in (3, 4, 5):
        large(store, log_index)
    directory = killed(store)
    shutil.copyfile(tmp_path / "copy", directory / DATA_FILE)
    assert kinds_in(directory) == {DATABASE}


def test_a_bit_in_the_number_of_a_meta_page_is_noticed_without_a_mark(store: DiskStore) -> None:
    """Every bit but one: that makes it what it was two transactions before."""
    for log_index in range(2, 7):
        large(store, log_index)
    directory = killed(store)
    (directory / MARK_FILE).unlink()
    whole = (directory / DATA_FILE).read_bytes()
    last = pages.transaction(directory / DATA_FILE)
    at = 144 if last % 2 == 0 else 4096 + 144
    assert int.from_bytes(whole[at : at + 8], "little") == last
    unseen = []
    for bit in range(64):
        hurt = bytearray(whole)
        hurt[at + bit // 8] ^= 1 << bit % 8
        (directory / DATA_FILE).write_bytes(hurt)
        with closing(open_to_read(directory)) as found:
            if not found.doubts:
                unseen.append(bit)
            else:
                assert [doubt.kind for doubt in found.doubts] == [META]
                assert not found.doubts[0].is_proven
    assert [last ^ 1 << bit for bit in unseen] in ([], [last - 2])


@pytest.mark.parametrize(
    ("hurt", "kinds"),
    [
        (pages.zero_log, {LOG}),
        (pages.cut_log, {LOG, SHORT}),
        (pages.flip_log, {LOG, TORN}),
    ],
)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_entries_of_the_log_that_went_are_noticed(
    store: DiskStore, hurt: Callable[[Path, int], None], kinds: set[DoubtKind], count: int
) -> None:
    for log_index in range(2, 7):
        append(store, log_index)
    directory = killed(store)
    hurt(directory / LOG_NAME, count)
    assert kinds_in(directory) == kinds
    (directory / MARK_FILE).unlink()
    assert kinds_in(directory) == kinds - {LOG}, "without the second place only what is left of them tells"
    with closing(open_here(directory)) as found:
        assert {doubt.kind for doubt in found.doubts} == kinds - {LOG}
        assert pending(found) == list(range(2, 7 - count))


def test_doubt_stays_over_restarts_until_something_is_committed(store: DiskStore) -> None:
    append(store, 2)
    append(store, 3)
    directory = killed(store)
    pages.zero_log(directory / LOG_NAME, 1)
    for _ in range(2):
        with closing(open_here(directory)) as store:
            assert {doubt.kind for doubt in store.doubts} == {LOG}
    with closing(open_here(directory)) as store:
        append(store, 3)
    assert doubts_in(directory) == ()


# -- the second place ------------------------------------------------------------------------------------------------


def test_a_mark_of_another_file_is_not_believed(store: DiskStore, tmp_path: Path) -> None:
    """A database that was copied, compacted or restored has another inode, and its transactions count anew."""
    append(store, 2)
    large(store, 3)
    directory = killed(store)
    pages.take_meta_back(directory / DATA_FILE)
    assert kinds_in(directory) == {DATABASE}
    shutil.copyfile(directory / DATA_FILE, tmp_path / "copy")
    (tmp_path / "copy").rename(directory / DATA_FILE)
    assert doubts_in(directory) == ()


@pytest.mark.parametrize("mark", [b"", b"x" * 51, b"TQMARK\x01", None])
def test_a_mark_that_is_damaged_or_gone_is_no_reason_not_to_open(store: DiskStore, mark: bytes | None) -> None:
    append(store, 2)
    directory = killed(store)
    path = directory / MARK_FILE
    path.unlink()
    if mark is not None:
        path.write_bytes(mark)
    assert doubts_in(directory) == ()
    store = open_here(directory)
    append(store, 3)
    pages.zero_log(killed(store) / LOG_NAME, 1)
    assert kinds_in(directory) == {LOG}, "from then on it is kept again"


def test_a_mark_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / MARK_FILE).mkdir()
    with closing(open_here(tmp_path / "a")) as store:
        begin(store)
        append(store, 2)
        assert store.doubts == ()
    with closing(open_here(tmp_path / "a")) as store:
        assert store.bounds(1) == (1, 2)
        assert store.doubts == ()


def test_a_log_of_four_mebibytes_is_whole(store: DiskStore) -> None:
    directory = killed(store)
    assert (directory / LOG_NAME).stat().st_size == LOG_BYTES
    (directory / LOG_NAME).write_bytes((directory / LOG_NAME).read_bytes()[:4096])
    assert kinds_in(directory) == {SHORT}
    (directory / LOG_NAME).write_bytes(b"")
    with pytest.raises(CorruptRecord):
        open_here(directory)


def test_a_commit_of_one_kind_leaves_what_was_reported_of_the_other(store: DiskStore) -> None:
    def reported() -> Reported:
        instance = store.get_meta("instance")
        assert instance is not None
        return Mark(store._directory, DATA_FILE, instance).read()

    large(store, 2)
    transaction = reported().transaction
    append(store, 3)
    append(store, 4)
    entry = reported().entry
    assert reported() == Reported(entry, transaction)
    assert transaction > 1 < entry
    large(store, 5)
    assert reported() == Reported(entry, transaction + 1)
    store.commit(WriteBatch(wipe={2}))
    assert reported() == Reported(entry, transaction + 2)
    store.commit(WriteBatch(wipe={3}))
    assert reported() == Reported(entry, transaction + 2), "nothing was changed"

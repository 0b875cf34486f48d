"""What only a store with a log before its database can get wrong: what is in one and not in the other."""

from __future__ import annotations

from contextlib import closing

import pytest

from storage.commit_log import LOG_BYTES, LOG_NAME
from storage.disk import SMALL_BYTES_MAX, open_to_read
from storage.errors import CorruptRecord, NewerFormat, StoreFailed
from storage.log_format import BLOCK_BYTES
from storage.store import META_LOG, Append, WriteBatch
from tests.contract.test_disk import put_meta
from tests.support.commit_logs import (
    after_a_crash,
    append,
    begin,
    crashed,
    damage,
    database_alone,
    everything,
    log_of,
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


def test_a_closed_store_does_not_even_say_what_was_pending(tmp_path):
    store = open_here(tmp_path)
    begin(store)
    append(store, 2)
    store.commit(WriteBatch(meta={"k": b"2"}))
    recent = store._published
    store.close()
    store._published = recent  # as if the last fold had failed
    for read in (lambda: store.read(1, 2), lambda: store.get_meta("k"), lambda: store.scan(1, 2)):
        with pytest.raises(StoreFailed, match="closed"):
            read()


def test_a_store_that_is_closed_ends_its_views_and_waits_for_the_calls_in_them(store):
    """LMDB would read from a map that is gone."""
    view, other = store.view(), store.view()
    other.close()
    store.close()
    for each in (view, other):
        assert each._txn is None
        with pytest.raises(StoreFailed, match="view is closed"):
            each.domains()


def test_what_became_pending_meanwhile_is_read(store):
    """A read looks at what is pending first, and once more at the moment that it reads from the database."""
    append(store, 2, 3)
    with store._moment(1) as (moment, db):
        assert [moment.read(db, 1, index) for index in (1, 2, 3, 4)] == [b"first", value(2), value(3), None]
        assert moment.read(None, 1, 2) == value(2)
        assert moment.read(db, 2, 1) == b"first"

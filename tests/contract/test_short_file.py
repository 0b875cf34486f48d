"""A file that ends before the pages that its last transaction used is refused: LMDB would end the process (SIGBUS)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failover.register import Register, claim
from failover.wire import to_message
from failover.witness_store import StoreDamagedError, WitnessStore
from storage import environment
from storage.compaction import compact
from storage.disk import SMALL_BYTES_MAX, open_to_read
from storage.environment import DATA_FILE, check_pages, read_meta_pages
from storage.errors import CorruptRecord, StorageError
from storage.meta_pages import META_BYTES, meta_pages
from storage.store import Append, WriteBatch
from tandemq.witness.v1 import witness_service_pb2 as pb
from tests.support.commit_logs import begin, killed, open_here
from tests.support.until import OUTER_S

PAGE = 4096
READ_ALL = """
import sys
from pathlib import Path
from storage.errors import StorageError
from tests.support.commit_logs import everything, open_here
try:
    store = open_here(Path(sys.argv[1]))
except StorageError as error:
    sys.exit(f"{type(error).__name__}: {error}")
everything(store)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = open_here(tmp_path / "a")
    begin(store)
    for log_index in range(2, 30):
        store.commit(WriteBatch(appends=[Append(1, log_index, b"." * (SMALL_BYTES_MAX + 1))]))
    return killed(store)


def used(directory: Path) -> int:
    pages = read_meta_pages(directory)
    assert pages is not None
    return pages.used_bytes


def test_the_length_that_lmdb_needs_is_what_it_wrote(directory: Path) -> None:
    assert used(directory) == (directory / DATA_FILE).stat().st_size


def test_of_two_meta_pages_the_newer_one_says_how_long_it_must_be(directory: Path) -> None:
    head = bytearray((directory / DATA_FILE).read_bytes()[:META_BYTES])
    pages = meta_pages(head)
    assert pages is not None
    newer = 0 if pages.first > pages.second else PAGE
    head[newer + 144 : newer + 152] = bytes(8)
    older = meta_pages(head)
    assert older is not None
    assert older.used_bytes < pages.used_bytes


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("left", [0.9, 0.5, 0.01])
def test_a_member_says_what_is_the_matter_instead_of_dying_of_a_signal(directory: Path, left: float) -> None:
    """In a process of its own: without the rule it ends by SIGBUS, and whoever looks on with it."""
    needed = used(directory)
    length = int(needed * left) // 512 * 512
    os.truncate(directory / DATA_FILE, length)
    ended = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(directory)], capture_output=True, text=True, check=False, timeout=OUTER_S
    )
    assert ended.returncode == 1, ended
    assert ended.stderr.startswith("CorruptRecord: The file has"), ended.stderr
    assert f"{length} bytes, and its last transaction used {needed}" in ended.stderr
    assert str(directory / DATA_FILE) in ended.stderr


@pytest.mark.parametrize("count", [1, 2, 5, 17])
def test_the_end_of_the_last_value_is_in_use_too(directory: Path, count: int) -> None:
    """A long value has pages of its own, of which only the first one says what it is."""
    os.truncate(directory / DATA_FILE, used(directory) - count * PAGE)
    with pytest.raises(CorruptRecord, match="its last transaction used"):
        check_pages(directory)


@pytest.mark.parametrize("length", [0, 100, PAGE - 1, PAGE, PAGE + 100, 2 * PAGE, 3 * PAGE])
def test_a_file_of_a_few_bytes_is_refused_too(directory: Path, length: int) -> None:
    os.truncate(directory / DATA_FILE, length)
    with pytest.raises(StorageError):
        open_to_read(directory)
    with pytest.raises(StorageError):
        compact(directory)


def test_who_reads_or_compacts_a_directory_is_refused_as_a_member_is(directory: Path) -> None:
    os.truncate(directory / DATA_FILE, used(directory) // 2)
    with pytest.raises(CorruptRecord, match="its last transaction used"):
        open_to_read(directory)
    with pytest.raises(CorruptRecord, match="its last transaction used"):
        compact(directory)


TREE_PAGES = (1, 2)  # flags of a branch, of a leaf


def test_a_page_that_would_lead_elsewhere_is_refused_before_lmdb_follows_it(directory: Path) -> None:
    """Turned bits in heads of pages, and in what says where the nodes of a page lie: LMDB ended the process by SIGBUS
    or by an assertion, or did not end.
    """
    file = directory / DATA_FILE
    whole = file.read_bytes()
    pages = [
        at
        for at in range(2 * PAGE, used(directory), PAGE)
        if int.from_bytes(whole[at + 10 : at + 12], "little") in TREE_PAGES
    ]

    def is_refused(at: int, bit: int) -> bool:
        data = bytearray(whole)
        data[at] ^= 1 << bit
        file.write_bytes(data)
        try:
            check_pages(directory)
        except CorruptRecord:
            return True
        return False

    in_use = [page for page in pages if is_refused(page, 0)]  # the number that it bears; of others nobody reads
    assert len(in_use) > 3
    for page in in_use:
        for at, bit in ((10, 1), (12, 3), (13, 2), (15, 4), (17, 3)):
            assert is_refused(page + at, bit), (page, at)
    file.write_bytes(whole)
    check_pages(directory)


def test_a_short_value_in_the_place_of_a_long_one_is_no_damage(tmp_path: Path) -> None:
    """LMDB keeps the pages of what is replaced within one transaction; its verifier says three things of that, and
    stops at 200.
    """
    store = open_here(tmp_path / "a")
    begin(store)
    for log_index in range(2, 252):
        store.commit(WriteBatch(inserts=[Append(1, log_index, bytes(3 * PAGE)), Append(1, log_index, b"short")]))
    directory = killed(store)
    check_pages(directory)
    with closing(open_here(directory)) as store:
        assert store.read_many(1, range(2, 252)) == [b"short"] * 250


def test_a_long_value_of_fewer_pages_than_it_needs_is_damage(directory: Path) -> None:
    file = directory / DATA_FILE
    data = bytearray(file.read_bytes())
    of_values = [at for at in range(2 * PAGE, len(data), PAGE) if data[at + 10 : at + 12] == b"\x04\0"]
    assert of_values
    for at in of_values:
        data[at + 12] -= 1
    file.write_bytes(data)
    with pytest.raises(CorruptRecord, match=r"The database is damaged: .*mp_pages"):
        check_pages(directory)


Steps = list[list[tuple[int, int | None]]]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 30), st.none() | st.integers(0, 200) | st.integers(2_000, 5 * PAGE)), max_size=60
        ),
        max_size=12,
    )
)
def test_nothing_that_lmdb_writes_is_damage(transactions: Steps) -> None:
    """A key and the length of its value, None: it is deleted. A refusal of what is whole would lose all of it."""
    with tempfile.TemporaryDirectory() as name, lmdb.open(name, lib_version=0, map_size=1 << 28, max_dbs=1) as env:
        log = env.open_db(b"log")
        for steps in transactions:
            with env.begin(write=True, db=log) as txn:
                for key, length in steps:
                    if length is None:
                        txn.delete(b"%d" % key)
                    else:
                        txn.put(b"%d" % key, bytes(length))
            check_pages(Path(name))


def test_a_large_database_is_not_read_at_each_start(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "CHECKED_BYTES_MAX", used(directory) - 1)
    data = bytearray((directory / DATA_FILE).read_bytes())
    for page in range(2 * PAGE, len(data), PAGE):
        data[page + 12] ^= 8
    (directory / DATA_FILE).write_bytes(data)
    check_pages(directory)
    monkeypatch.setattr(environment, "CHECKED_BYTES_MAX", used(directory))
    with pytest.raises(CorruptRecord, match="The database is damaged"):
        check_pages(directory)


def test_free_pages_at_the_end_need_not_be_there(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), lib_version=0, map_size=1 << 24) as env:
        # Which pages are free is written too: above them at first, and in their place once they may be used again.
        for value in (b"x" * 10 * PAGE, b"small", b"small", b"small", b"smaller"):
            with env.begin(write=True) as txn:
                txn.put(b"k", value)
    length, path = used(tmp_path), tmp_path / DATA_FILE
    os.truncate(path, length - PAGE)
    check_pages(tmp_path)
    with lmdb.open(str(tmp_path), lib_version=0, map_size=1 << 24) as env, env.begin() as txn:
        assert txn.get(b"k") == b"smaller"


def test_a_witness_refuses_its_registers_too(tmp_path: Path) -> None:
    with closing(WitnessStore(tmp_path)) as store:
        desired = claim(Register(), member="a", epoch=1, members=frozenset("a"), nonce=b"n")
        store.compare_and_set(
            pb.CompareAndSetRequest(
                pair="p", domain="main", expected=to_message(Register()), desired=to_message(desired), member="a"
            )
        )
    registers = tmp_path / "registers"
    os.truncate(registers / DATA_FILE, used(registers) - PAGE)
    with pytest.raises(StoreDamagedError, match=r"its last transaction used .*data\.mdb"):
        WitnessStore(tmp_path)

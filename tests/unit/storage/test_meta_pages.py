"""Which numbers two meta pages may have, and what is no LMDB file."""

from __future__ import annotations

import struct
from pathlib import Path

import lmdb
import pytest

from storage.meta_pages import META_BYTES, MetaPages, meta_pages


@pytest.mark.parametrize("numbers", [(0, 0), (0, 1), (2, 1), (2, 3), (1 << 40, (1 << 40) + 1)])
def test_numbers_that_transactions_leave(numbers: tuple[int, int]) -> None:
    assert MetaPages(*numbers).fits
    assert MetaPages(*numbers).last == max(numbers)


@pytest.mark.parametrize("numbers", [(1, 0), (7, 6), (2, 2), (4, 1), (0, 3), (1, 1), (6, 9)])
def test_numbers_that_they_do_not(numbers: tuple[int, int]) -> None:
    assert not MetaPages(*numbers).fits


def test_lmdb_writes_them_in_turn(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), lib_version=0) as env:
        for number in range(6):
            with env.begin(write=True) as txn:
                txn.put(b"k", b"%d" % number)
            pages = meta_pages((tmp_path / "data.mdb").read_bytes()[:META_BYTES])
            assert pages is not None
            assert pages.fits
            assert pages.last == env.info()["last_txnid"] == number + 1


@pytest.mark.parametrize("head", [b"", b"x" * 100, bytes(9000), b"\xff" * 9000])
def test_what_is_no_such_file_is_left_to_lmdb(head: bytes) -> None:
    assert meta_pages(head) is None


@pytest.mark.parametrize("page_bytes", [512, 4096, 65536])
@pytest.mark.parametrize(("first", "second", "last_page"), [(4, 5, 7), (6, 5, 3), (0, 0, 3)])
def test_the_newer_page_says_how_long_the_file_must_be(
    page_bytes: int, first: int, second: int, last_page: int
) -> None:
    head = bytearray(2 * page_bytes)
    for number, (at, last) in enumerate(((first, 3), (second, 7))):
        struct.pack_into("=I", head, 40, page_bytes)
        struct.pack_into("=QQ", head, number * page_bytes + 136, last, at)
    assert meta_pages(bytes(head)) == (first, second, (last_page + 1) * page_bytes)
    assert meta_pages(bytes(head[: page_bytes + 152])) is not None
    assert meta_pages(bytes(head[: page_bytes + 151])) is None, "cut within the second page"
    assert meta_pages(bytes(head[:151])) is None


@pytest.mark.parametrize("page_bytes", [0, 256, 511, 513, 4097, 4096 + 512])
def test_a_page_is_no_other_size(page_bytes: int) -> None:
    head = bytearray(20_000)
    struct.pack_into("=I", head, 40, page_bytes)
    assert meta_pages(bytes(head)) is None

"""Hurts the last writes in a stopped process's files: LMDB's newer meta page, the last entries of a commit log.

Nothing here asks LMDB: it is what a disk does to a file, not what a program does. Offsets are those of LMDB 0.9.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from storage.log_format import BLOCK_BYTES

DATA_FILE, LOG_FILE, MARK_FILE = "data.mdb", "commit.log", "last.mark"
_TXN_AT = 144  # of a meta page
_SIZE_AT = 40  # the page size is kept in the first database's first field
_U64 = Struct("<Q")
_U32 = Struct("<I")
_ENTRY = Struct(">4s16sQII")  # magic, log, number, length of the body, CRC


class NothingToHurtError(RuntimeError):
    """The file holds nothing of this kind now."""


def _page_bytes(data: bytes) -> int:
    (size,) = _U32.unpack_from(data, _SIZE_AT)
    return int(size)


def _metas(path: Path) -> tuple[int, bytes, bytes]:
    """Page size and both meta pages."""
    with path.open("rb") as file:
        head = file.read(1 << 16)
    size = _page_bytes(head)
    return size, head[:size], head[size : 2 * size]


def _transaction_of(page: bytes) -> int:
    (number,) = _U64.unpack_from(page, _TXN_AT)
    return int(number)


def transaction(path: Path) -> int:
    """Number of the last transaction in the file."""
    _, first, second = _metas(path)
    return max(_transaction_of(first), _transaction_of(second))


def _write(path: Path, at: int, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(descriptor, data, at)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _newer(path: Path) -> tuple[int, bytes, int, int]:
    """Where the newer meta page is, the page, its transaction, and that of the older one."""
    size, first, second = _metas(path)
    one, two = _transaction_of(first), _transaction_of(second)
    return (0, first, one, two) if one > two else (size, second, two, one)


def flip_meta(path: Path) -> None:
    """One bit of the newer meta page, so that its transaction counts as older than the other's."""
    at, page, newer, older = _newer(path)
    for bit in range(64):
        turned = newer ^ (1 << bit)
        if turned < older:
            _write(path, at, page[:_TXN_AT] + _U64.pack(turned) + page[_TXN_AT + 8 :])
            return
    raise NothingToHurtError(f"no bit of transaction {newer} makes it older than {older}")


def take_meta_back(path: Path) -> None:
    """The newer meta page is what it was before: its write never reached the disk."""
    at, page, newer, older = _newer(path)
    if older < 1:
        raise NothingToHurtError("there was no transaction before")
    del newer
    _write(path, at, page[:_TXN_AT] + _U64.pack(older - 1) + page[_TXN_AT + 8 :])


def zero_meta(path: Path) -> None:
    """The newer meta page is gone as a whole."""
    at, page, _, _ = _newer(path)
    _write(path, at, bytes(len(page)))


def entries(path: Path) -> list[tuple[int, int, int]]:
    """(number, where it begins, where it ends) of each entry whose head is there, by rising number."""
    data = path.read_bytes() if path.exists() else b""
    log_id = data[6:22]
    found = []
    for at in range(BLOCK_BYTES, len(data) - _ENTRY.size, BLOCK_BYTES):
        magic, its_id, number, size, _ = _ENTRY.unpack_from(data, at)
        if magic == b"TQEN" and its_id == log_id:
            found.append((number, at, at + -(-(_ENTRY.size + size) // BLOCK_BYTES) * BLOCK_BYTES))
    return sorted(found)


def _last_entries(path: Path, count: int) -> Iterator[tuple[int, int]]:
    found = entries(path)
    if not found:
        raise NothingToHurtError("the commit log has no entry")
    for _, begin, end in found[-count:]:
        yield begin, end


def cut_log(path: Path, count: int) -> None:
    """The file ends before its last entries."""
    os.truncate(path, min(begin for begin, _ in _last_entries(path, count)))


def zero_log(path: Path, count: int) -> None:
    """The last entries are zeros."""
    for begin, end in list(_last_entries(path, count)):
        _write(path, begin, bytes(end - begin))


def flip_log(path: Path, count: int) -> None:
    """One bit in the body of each of the last entries."""
    for begin, _ in list(_last_entries(path, count)):
        at = begin + _ENTRY.size + 3
        with path.open("rb") as file:
            file.seek(at)
            (byte,) = file.read(1)
        _write(path, at, bytes([byte ^ 4]))

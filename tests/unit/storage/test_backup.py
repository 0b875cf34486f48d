"""A backup's bytes: what goes in comes out, and every other byte, length, order or version is told apart from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.backup import MAGIC, VERSION, BackupFile, BackupHead, DamagedBackup, DomainHead, Packer, open_backup
from storage.errors import NewerFormat, StoreFailed
from storage.store import WriteBatch

ROWS = {1: [(index, b"r%d" % index * 5) for index in (3, 4, 7, 8, 9)], 2: [(1, b"one")]}
META = [("domain/00000001/state", b"state"), ("k", b""), ("l", b"x" * 300)]
HEAD = BackupHead(
    pair="p",
    member="b",
    peer="a",
    instance=b"i" * 16,
    incarnation=3,
    product="1",
    store_format=1,
    record_format=1,
    time_ms=5,
    whole=True,
    domains=(DomainHead(1, "main", 2, 9, b"d" * 16, "IN_SYNC", 5),),
    bytes_estimate=100,
)


def packed(change: Callable[[Packer], bytes] | None = None) -> bytes:
    packer = Packer()
    parts = [packer.begin(HEAD), packer.meta(META[:2]), packer.meta(META[2:])]
    parts += [packer.records(1, ROWS[1][:2]), packer.records(1, ROWS[1][2:]), packer.records(2, ROWS[2])]
    if change is not None:
        parts.append(change(packer))
    return b"".join([*parts, packer.end()])


def opened(tmp_path: Path, data: bytes) -> BackupFile:
    path = tmp_path / "b.tqb"
    path.write_bytes(data)
    return open_backup(path)


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    backup = opened(tmp_path, packed())
    assert backup.head == HEAD
    assert backup.meta_items("") == META
    assert backup.get_meta("k") == b""
    assert backup.domains() == [1, 2]
    assert {number: backup.scan(number, 0) for number in (1, 2, 3)} == {**ROWS, 3: []}
    assert (backup.bounds(1), backup.bounds(3)) == ((3, 9), None)
    assert backup.read_many(1, [3, 5, 9, 10]) == [b"r3" * 5, None, b"r9" * 5, None]
    assert backup.foot.records == 6
    backup.close()


@pytest.mark.parametrize("first", range(11))
def test_a_scan_begins_anywhere_and_ends_within_its_limits(tmp_path: Path, first: int) -> None:
    backup = opened(tmp_path, packed())
    left = [row for row in ROWS[1] if row[0] >= first]
    assert backup.scan(1, first) == left
    assert backup.scan(1, first, limit_records=2) == left[:2]
    assert backup.scan(1, first, limit_bytes=1) == left[:1]
    backup.close()


def test_a_file_that_was_cut_anywhere_is_not_whole(tmp_path: Path) -> None:
    data = packed()
    for size in range(len(data)):
        with pytest.raises(DamagedBackup, match=r"not finished|no backup|cannot be read|has CRC32C"):
            opened(tmp_path, data[:size])


def test_a_flipped_bit_anywhere_is_found(tmp_path: Path) -> None:
    data = packed()
    for at in range(len(data)):
        for bit in (0, 7):
            bad = bytearray(data)
            bad[at] ^= 1 << bit
            with pytest.raises((DamagedBackup, NewerFormat)):
                opened(tmp_path, bytes(bad))


def test_frames_that_are_whole_but_moved_or_added_are_found(tmp_path: Path) -> None:
    data = packed()
    first, second = Packer().meta(META[:2]), Packer().meta(META[2:])
    assert first + second in data
    with pytest.raises(DamagedBackup, match="other bytes"):
        opened(tmp_path, data.replace(first + second, second + first))
    with pytest.raises(DamagedBackup, match="other bytes"):
        opened(tmp_path, data.replace(first, b""))
    with pytest.raises(DamagedBackup, match="follow its end"):
        opened(tmp_path, data + b"\0")


@pytest.mark.parametrize("rows", [[(9, b"again")], [(2, b"below")], [(12, b""), (11, b"")], []])
def test_records_that_do_not_rise_are_refused(tmp_path: Path, rows: list[tuple[int, bytes]]) -> None:
    with pytest.raises(DamagedBackup, match=r"follows|holds no record"):
        opened(tmp_path, packed(lambda packer: packer.records(1, rows)))


def test_another_version_is_said_as_such(tmp_path: Path) -> None:
    data = bytearray(packed())
    data[len(MAGIC)] = VERSION + 1
    with pytest.raises(NewerFormat, match=f"has format {VERSION + 1}, this version reads {VERSION}"):
        opened(tmp_path, bytes(data))


@pytest.mark.parametrize("data", [b"{}", b"\x00" * 100, b"TQSALV\x00\x01 salvage"])
def test_what_is_no_backup_is_said_as_such(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DamagedBackup, match="no backup"):
        opened(tmp_path, data)


def test_nothing_is_written_to_a_backup(tmp_path: Path) -> None:
    backup = opened(tmp_path, packed())
    with pytest.raises(StoreFailed):
        backup.commit(WriteBatch())
    backup.close()

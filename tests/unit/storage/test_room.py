"""What a disk has left, and the file that is given up when it has nothing: by sizes that the system is made to tell."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.room import DirectoryRoom, Load, load_of
from storage.store import Append, WriteBatch

BALLAST = 1_000
PAGE = 4_096
SLACK = 1 << 20


class Free:
    """Bytes that the disk has left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 1 << 30
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=self.bytes, f_frsize=1))


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Free:
    return Free(monkeypatch)


def test_room_is_counted_in_what_is_free_for_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=3, f_bfree=9, f_frsize=512, f_bsize=4096))
    assert DirectoryRoom(tmp_path, 0).available_bytes() == 3 * 512


def test_a_ballast_is_made_where_the_disk_can_afford_it(tmp_path: Path, free: Free) -> None:
    free.bytes = 8 * BALLAST - 1
    room = DirectoryRoom(tmp_path, BALLAST)
    assert list(tmp_path.iterdir()) == []
    assert room.available_bytes() == free.bytes
    free.bytes += 1
    room.restore_ballast()
    ballast = tmp_path / "ballast"
    assert (ballast.stat().st_size, ballast.stat().st_mode & 0o777) == (BALLAST, 0o600)
    assert room.available_bytes() == free.bytes


def test_the_room_of_a_ballast_that_was_given_away_is_nobodys(tmp_path: Path, free: Free) -> None:
    room = DirectoryRoom(tmp_path, BALLAST)
    assert room.give_way()
    assert not room.give_way()
    free.bytes = 5 * BALLAST
    assert room.available_bytes() == 4 * BALLAST
    free.bytes = BALLAST // 2
    assert room.available_bytes() == 0
    room.restore_ballast()
    assert not (tmp_path / "ballast").exists()
    free.bytes = 8 * BALLAST
    room.restore_ballast()
    assert room.available_bytes() == 8 * BALLAST


def test_a_ballast_of_an_earlier_start_is_kept_and_given_away(tmp_path: Path, free: Free) -> None:
    DirectoryRoom(tmp_path, BALLAST)
    (tmp_path / "ballast").write_bytes(b"as it is")
    room = DirectoryRoom(tmp_path, BALLAST)
    assert (tmp_path / "ballast").read_bytes() == b"as it is"
    assert room.give_way()
    assert room.available_bytes() == free.bytes - BALLAST


def test_who_wants_none_has_none(tmp_path: Path, free: Free) -> None:
    room = DirectoryRoom(tmp_path, 0)
    room.restore_ballast()
    assert (list(tmp_path.iterdir()), room.give_way(), room.available_bytes()) == ([], False, free.bytes)


def test_a_ballast_that_cannot_be_filled_is_none_and_stops_nothing(
    tmp_path: Path, free: Free, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "somebody else was faster")

    monkeypatch.setattr(os, "posix_fallocate", full)
    room = DirectoryRoom(tmp_path, BALLAST)
    assert list(tmp_path.iterdir()) == []
    assert room.available_bytes() == free.bytes


def test_a_file_beside_the_data_is_affordable_when_the_disk_has_eight_times_as_much(tmp_path: Path, free: Free) -> None:
    room = DirectoryRoom(tmp_path, 0)
    free.bytes = 800
    assert room.affords(100)
    assert not room.affords(101)


def test_a_failed_write_is_explained_by_a_disk_that_could_not_take_it(tmp_path: Path, free: Free) -> None:
    room, load = DirectoryRoom(tmp_path, 0), Load(500, 2)
    free.bytes = load.bytes_at_most
    assert not room.cannot_take(load)
    free.bytes -= 1
    assert room.cannot_take(load)


def test_a_load_is_all_that_a_batch_does() -> None:
    assert load_of(WriteBatch()) == Load(0, 0)
    batch = WriteBatch(
        wipe={1, 2},
        cut={3: 5},
        drops={1: [1, 2, 3], 2: [4]},
        inserts=[Append(1, 1, b"1")],
        appends=[Append(1, 2, b"22"), Append(1, 3, b"22")],
        bodies=[Append(1, 4, b"4444")],
        meta={"k": b"88888888", "gone": None},
    )
    assert load_of(batch) == Load(1 + 4 + 4 + 8, 1 + 2 + 1 + 2 + 1 + 2 + 4)
    assert Load(1, 2).plus(Load(10, 20)) == Load(11, 22)
    assert Load(100, 3).bytes_at_most == 100 + 3 * 7 * PAGE + SLACK

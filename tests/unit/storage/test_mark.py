"""What a mark says of the writes that were reported, and that it says nothing where it cannot be believed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from storage.doubt import Reported
from storage.mark import MARK_FILE, Mark, inode_of

INSTANCE = b"i" * 16


def mark_in(directory: Path, instance: bytes = INSTANCE) -> Mark:
    (directory / "data").touch()
    return Mark(directory, "data", instance)


def reported(directory: Path, *pairs: tuple[int, int]) -> None:
    mark = mark_in(directory)
    mark.read()
    mark.begin()
    for entry, transaction in pairs:
        mark.report(entry, transaction)
    mark.close()


def test_without_a_mark_nothing_was_reported(tmp_path: Path) -> None:
    assert mark_in(tmp_path).read() == Reported(0, 0)
    reported(tmp_path)
    assert mark_in(tmp_path).read() == Reported(0, 0), "an empty file"


def test_it_says_the_last_of_each_also_over_a_restart(tmp_path: Path) -> None:
    reported(tmp_path, (5, 0), (6, 0), (0, 9))
    assert mark_in(tmp_path).read() == Reported(6, 9)
    reported(tmp_path, (0, 10))
    assert mark_in(tmp_path).read() == Reported(6, 10)
    reported(tmp_path, (7, 0))
    assert mark_in(tmp_path).read() == Reported(7, 10)
    assert (tmp_path / MARK_FILE).stat().st_mode & 0o777 == 0o600


def test_of_another_file_or_directory_it_says_nothing(tmp_path: Path) -> None:
    reported(tmp_path, (5, 6))
    assert mark_in(tmp_path, b"j" * 16).read() == Reported(0, 0)
    (tmp_path / "other").touch()
    (tmp_path / "other").replace(tmp_path / "data")
    assert mark_in(tmp_path).read() == Reported(0, 0)


def test_every_flipped_bit_and_every_other_length_is_nothing(tmp_path: Path) -> None:
    reported(tmp_path, (5, 6))
    whole = (tmp_path / MARK_FILE).read_bytes()
    for at in range(len(whole)):
        bad = bytearray(whole)
        bad[at] ^= 1
        (tmp_path / MARK_FILE).write_bytes(bad)
        assert mark_in(tmp_path).read() == Reported(0, 0)
    for other in (whole[:-1], whole + b"\0"):
        (tmp_path / MARK_FILE).write_bytes(other)
        assert mark_in(tmp_path).read() == Reported(0, 0)


def test_what_was_read_and_not_believed_is_not_written_again(tmp_path: Path) -> None:
    (tmp_path / MARK_FILE).write_bytes(b"x" * 60)
    reported(tmp_path, (0, 3))
    assert (tmp_path / MARK_FILE).stat().st_size == 60, "its own length is shorter"
    assert mark_in(tmp_path).read() == Reported(0, 0)


def test_before_it_begins_and_after_it_failed_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = mark_in(tmp_path)
    mark.report(1, 1)
    assert not (tmp_path / MARK_FILE).exists()
    mark.begin()
    mark.report(2, 2)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "planted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        mark.report(3, 3)
    mark.report(4, 4)
    mark.close()
    mark.close()
    assert mark_in(tmp_path).read() == Reported(2, 2), "what follows could not be told in order"


def test_where_no_file_can_be_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / MARK_FILE).mkdir()
    mark = mark_in(tmp_path)
    assert mark.read() == Reported(0, 0)
    mark.begin()
    mark.report(1, 1)
    mark.close()
    assert inode_of(tmp_path / "data") == (tmp_path / "data").stat().st_ino

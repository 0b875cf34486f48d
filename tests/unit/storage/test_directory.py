"""A file that is made whole: there with all it must hold, or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storage.directory import (
    begin_restoring,
    check_restored,
    end_restoring,
    lock_directory,
    make_directory,
    make_whole,
)
from storage.errors import DirectoryInUse, DirectoryNotEmpty, RestoreUnfinished


def fill(directory: Path) -> None:
    (directory / "lock").write_text("")
    (directory / "file").write_text("whole")


def test_it_appears_once_it_is_filled(tmp_path: Path) -> None:
    def look(directory: Path) -> None:
        fill(directory)
        assert not (tmp_path / "file").exists()
        assert directory.stat().st_mode & 0o777 == 0o700

    make_whole(tmp_path, "file", look)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "whole"}


def test_one_that_is_there_stays_and_what_a_crash_left_beside_it_goes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("older")
    (tmp_path / "file.making").mkdir()
    fill(tmp_path / "file.making")
    make_whole(tmp_path, "file", fill)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "older"}


def test_a_crash_while_it_is_made_leaves_nothing_that_a_next_start_minds(tmp_path: Path) -> None:
    def die(directory: Path) -> None:
        fill(directory)
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        make_whole(tmp_path, "file", die)
    assert not (tmp_path / "file").exists()
    make_whole(tmp_path, "file", fill)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "whole"}


def test_a_directory_of_somebody_else_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mounted volume; the files in it are private in any case."""
    tmp_path.chmod(0o755)
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    make_directory(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    make_directory(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_file_that_is_there_is_not_filled_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("older")
    make_whole(tmp_path, "file", lambda _: pytest.fail("it is whole"))


@pytest.mark.parametrize("found", ["data.mdb", "a b"])
def test_nothing_is_restored_over_what_is_there(tmp_path: Path, found: str) -> None:
    (tmp_path / found).touch()
    with pytest.raises(DirectoryNotEmpty, match=f"holds {found}"):
        begin_restoring(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [found]


def test_of_much_that_is_there_some_is_named(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"f{number}").touch()
    with pytest.raises(DirectoryNotEmpty, match=r"holds f0, f1, f2, f3, f4 \.\.\. "):
        begin_restoring(tmp_path)
    (tmp_path / "f5").unlink()
    with pytest.raises(DirectoryNotEmpty, match=r"holds f0, f1, f2, f3, f4 \("):
        begin_restoring(tmp_path)


def test_a_restore_that_was_broken_off_is_found_and_may_be_repeated(tmp_path: Path) -> None:
    """What a file system makes by itself is nobody's data."""
    (tmp_path / "lost+found").mkdir()
    os.close(lock_directory(tmp_path))
    check_restored(tmp_path, "file")
    making = begin_restoring(tmp_path)
    assert making.stat().st_mode & 0o777 == 0o700
    (making / "half").touch()
    with pytest.raises(RestoreUnfinished):
        check_restored(tmp_path, "file")
    making = begin_restoring(tmp_path)
    assert list(making.iterdir()) == []
    fill(making)
    end_restoring(tmp_path, "file")
    assert ((tmp_path / "file").read_text(), making.exists()) == ("whole", False)
    check_restored(tmp_path, "file")


def test_a_restore_that_died_behind_its_last_step_is_tidied(tmp_path: Path) -> None:
    making = begin_restoring(tmp_path)
    fill(making)
    (making / "file").rename(tmp_path / "file")
    check_restored(tmp_path, "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "LOCK").write_text("9999999 and more\n")
    descriptor = lock_directory(tmp_path)
    assert (tmp_path / "LOCK").read_text() == f"{os.getpid()}\n"
    assert (tmp_path / "LOCK").stat().st_mode & 0o777 in (0o600, 0o644), "as whoever made it"
    with pytest.raises(DirectoryInUse, match=f"in use by process {os.getpid()}"):
        lock_directory(tmp_path)
    os.close(descriptor)
    os.close(lock_directory(tmp_path))


def test_a_lock_that_says_nothing_is_held_by_nobody_known(tmp_path: Path) -> None:
    descriptor = lock_directory(tmp_path)
    os.ftruncate(descriptor, 0)
    with pytest.raises(DirectoryInUse, match="in use by process unknown"):
        lock_directory(tmp_path)
    os.close(descriptor)

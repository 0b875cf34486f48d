"""A file that is made whole: there with all it must hold, or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.directory import make_whole


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

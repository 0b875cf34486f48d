"""What files beside a store promise: a directory's and the simulated disk's, by the same tests."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from chaos.sim.kernel.files import SimFiles
from storage.files import DirectoryFiles, Files


@pytest.fixture(params=["directory", "simulated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "simulated":
        return SimFiles("simulated", lambda: True)
    return DirectoryFiles(tmp_path / "there" / "files")


def put(files: Files, name: str, *parts: bytes) -> None:
    with files.create(name) as file:
        for part in parts:
            file.write(part)
        files.sync(file)


def get(files: Files, name: str) -> bytes:
    with files.read(name) as file:
        return file.read()


def test_a_directory_that_was_never_made_holds_nothing(files: Files) -> None:
    assert files.names() == []
    files.remove("x")
    with pytest.raises(FileNotFoundError):
        files.read("x")


def test_what_was_written_is_read(files: Files) -> None:
    put(files, "b", b"one", b"two")
    put(files, "a")
    assert (files.names(), get(files, "b"), get(files, "a")) == (["a", "b"], b"onetwo", b"")
    put(files, "b", b"3")
    assert get(files, "b") == b"3"


def test_a_file_knows_its_name_and_where_one_writes(files: Files) -> None:
    with files.create("a") as file:
        file.write(b"12345")
        assert (file.tell(), Path(file.name).name) == (5, "a")
        files.sync(file)
    with files.read("a") as file:
        assert file.seek(0, 2) == 5
        assert (file.seek(2), file.read(2), file.tell(), Path(file.name).name) == (2, b"34", 4, "a")


def test_a_name_takes_the_place_of_another(files: Files) -> None:
    put(files, "partial", b"new")
    put(files, "file", b"old")
    files.rename("partial", "file")
    assert (files.names(), get(files, "file")) == (["file"], b"new")
    with pytest.raises(FileNotFoundError):
        files.rename("partial", "file")


def test_what_is_removed_is_gone(files: Files) -> None:
    put(files, "a", b"1")
    files.remove("a")
    assert files.names() == []


def test_others_cannot_read_what_a_directory_holds(tmp_path: Path) -> None:
    files = DirectoryFiles(tmp_path / "files")
    put(files, "a", b"1")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (files.directory, files.directory / "a")]
    assert modes == [0o700, 0o600]

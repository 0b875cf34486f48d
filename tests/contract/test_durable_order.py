"""What is durable before what: each sync, in its place between the writes, names and answers that it is there for.

A killed process shows nothing of power. So the calls of this process to the system are written down, with the files
that they are about; crash images (`chaos/sim/images`) judge by the same calls what may be left.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from storage.commit_log import LOG_NAME, LogFullError, make_log
from storage.compaction import CompactionStep, compact
from storage.directory import (
    begin_restoring,
    end_restoring,
    lock_directory,
    make_directory,
    make_whole,
    sync_directory,
)
from storage.disk import open_disk, open_to_read
from storage.errors import DirectoryInUse, StoreFailed, WrongPair
from storage.files import DirectoryFiles
from storage.log_format import Content
from storage.store import Append, WriteBatch
from tests.support.commit_logs import append, begin, crashed, open_here, pending


class Calls(list[str]):
    """`sync a/b`, `write a/b`, `rename a/b`, `remove a/b`, `make a/b`, by path below a directory."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._root = root
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._noted("sync", getattr(os, name), self._of_descriptor))
        monkeypatch.setattr(os, "pwrite", self._noted("write", os.pwrite, self._of_descriptor))
        for name, what in (("rename", "rename"), ("replace", "rename")):
            monkeypatch.setattr(Path, name, self._noted(what, getattr(Path, name), self._of_target))
        for name, what in (("unlink", "remove"), ("mkdir", "make")):
            monkeypatch.setattr(Path, name, self._noted(what, getattr(Path, name), self._of_path))

    def _noted(self, what: str, call: Callable[..., Any], place: Callable[..., Path]) -> Callable[..., Any]:
        def noted(*arguments: Any, **more: Any) -> Any:
            where = place(*arguments)
            result = call(*arguments, **more)
            if where.is_relative_to(self._root):
                self.append(f"{what} {where.relative_to(self._root)}")
            return result

        return noted

    def _of_descriptor(self, descriptor: int, *_: object) -> Path:
        return Path(f"/proc/self/fd/{descriptor}").readlink()

    def _of_target(self, _path: Path, target: Path) -> Path:
        return Path(target)

    def _of_path(self, path: Path, *_: object, **__: object) -> Path:
        return path


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(tmp_path, monkeypatch)


def without_marks(calls: Calls) -> list[str]:
    """The mark is never synced: it proves something only where it is ahead."""
    return [each for each in calls if "last.mark" not in each]


def test_a_directory_is_made_with_its_parents_each_in_its_own_parent(tmp_path: Path, calls: Calls) -> None:
    make_directory(tmp_path / "a" / "b" / "c")
    assert calls == ["make a", "sync .", "make a/b", "sync a", "make a/b/c", "sync a/b"]
    del calls[:]
    make_directory(tmp_path / "a" / "b" / "c")
    assert calls == []


def test_a_file_that_is_made_whole_has_its_name_last(tmp_path: Path, calls: Calls) -> None:
    make_whole(tmp_path, "file", lambda making: (making / "file").touch())
    assert calls == ["make file.making", "rename file", "sync ."]


def test_a_restore_has_its_name_last(tmp_path: Path, calls: Calls) -> None:
    making = begin_restoring(tmp_path)
    assert calls == ["make restore.making", "sync ."]
    (making / "file").touch()
    del calls[:]
    end_restoring(tmp_path, "file")
    assert calls == ["rename file", "sync ."]


def test_files_beside_the_store(tmp_path: Path, calls: Calls) -> None:
    files = DirectoryFiles(tmp_path / "files")
    with files.create("a") as file:
        file.write(b"1")
        del calls[:]
        files.sync(file)
        assert calls == ["sync files/a"]
        assert (tmp_path / "files" / "a").read_bytes() == b"1", "what was buffered is written first"
    files.rename("a", "b")
    assert calls[1:] == ["rename files/b", "sync files"]
    files.remove("b")
    files.remove("b")
    assert files.names() == []


def test_a_new_log_is_durable_with_its_name_before_anything_counts_on_it(tmp_path: Path, calls: Calls) -> None:
    (tmp_path / LOG_NAME).write_bytes(b"an older one")
    make_log(tmp_path).close()
    assert calls == [f"remove {LOG_NAME}", f"sync {LOG_NAME}", "sync ."]
    assert (tmp_path / LOG_NAME).stat().st_mode & 0o777 == 0o600


def test_a_commit_is_synced_before_it_is_reported(tmp_path: Path, calls: Calls) -> None:
    with closing(open_here(tmp_path)) as store:
        begin(store)
        del calls[:]
        append(store, 2)
        assert calls == [f"write {LOG_NAME}", f"sync {LOG_NAME}", "write last.mark"]
        del calls[:]
        store.commit(WriteBatch(wipe={2}))
        assert calls == ["write last.mark"], "LMDB syncs by itself"


def test_a_new_database_is_made_whole_and_known_by_its_name(tmp_path: Path, calls: Calls) -> None:
    """A process may die at any moment of it; the directory is synced at each start, for the one that died before."""
    directory = tmp_path / "new"
    open_here(directory).close()
    made = [each for each in without_marks(calls) if "LOCK" not in each]
    assert made[:5] == ["make new", "sync .", "make new/data.mdb.making", "rename new/data.mdb", "sync new"]
    del calls[:]
    open_here(directory).close()
    assert [each for each in without_marks(calls) if "LOCK" not in each] == ["sync new"]


def test_what_was_found_in_a_log_is_synced_before_it_is_taken_up(tmp_path: Path, calls: Calls) -> None:
    """A killed process may have written what is not on the disk yet; from then on it counts as reported."""
    with closing(open_here(tmp_path / "a")) as store:
        begin(store)
        append(store, 2)
        directory = crashed(store)
    del calls[:]
    with closing(open_here(directory)) as found:
        assert pending(found) == [2]
        name = directory.name
        assert calls[0] == f"write {name}/LOCK"
        assert without_marks(calls)[1:] == [f"sync {name}", f"sync {name}/{LOG_NAME}"]


def test_a_log_that_cannot_be_synced_is_not_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_here(tmp_path / "a")) as store:
        begin(store)
        append(store, 2)
        directory = crashed(store)
    sync = os.fsync

    def broken(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == LOG_NAME:
            raise OSError(errno.EIO, "broken")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(StoreFailed, match="cannot be synced"):
            open_here(directory)
    with closing(open_here(directory)) as found:
        assert pending(found) == [2], "the directory was free again, and nothing was changed"


@pytest.mark.parametrize("how", ["write", "sync", "short"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_log_says_whether_it_had_no_room_or_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, code: int
) -> None:
    log = make_log(tmp_path)
    data = log.prepare(Content([Append(1, 1, b"x")], {}), empty=True)
    assert data is not None
    end, write = log.end, os.pwrite

    def broken(*_: object) -> int:
        raise OSError(code, "planted")

    if how == "short":
        monkeypatch.setattr(os, "pwrite", lambda to, data, at: write(to, data[:-1], at))
    else:
        monkeypatch.setattr(os, "pwrite" if how == "write" else "fdatasync", broken)
    with pytest.raises(OSError if code == errno.EIO and how != "short" else LogFullError):
        log.append(data)
    assert (log.last, log.end) == (1, end), "the number is given up, its place is not"
    monkeypatch.undo()
    again = log.prepare(Content([Append(1, 1, b"x")], {}), empty=False)
    assert again is not None
    assert log.append(again) == 2
    assert log.end == end + len(again)
    log.close()


def test_a_compacted_database_is_durable_before_it_takes_the_place(tmp_path: Path, calls: Calls) -> None:
    with closing(open_here(tmp_path, commit_log=False)) as store:
        store.commit(WriteBatch(appends=[Append(1, 1, b"x")]))
    del calls[:]
    steps: dict[CompactionStep, int] = {}
    compact(tmp_path, on_step=lambda step: steps.setdefault(step, len(calls)))
    made, synced = calls[: steps[CompactionStep.COPIED]], calls[: steps[CompactionStep.SYNCED]]
    assert "make data.mdb.making" in made
    assert synced[len(made) :] == ["sync data.mdb.making/data.mdb", "sync data.mdb.making"]
    placed = calls[steps[CompactionStep.COMPARED] : steps[CompactionStep.REPLACED]]
    assert placed == ["remove last.mark", "rename data.mdb", "sync ."]
    assert list(steps) == list(CompactionStep)
    assert (tmp_path / "data.mdb").stat().st_mode & 0o777 == 0o600


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    def opened() -> list[str]:
        places = []
        for each in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # of this very look
                places.append(str(each.readlink()))
        return sorted(places)

    def use() -> None:
        sync_directory(tmp_path)
        make_directory(tmp_path / "a" / "b")
        with closing(open_here(tmp_path / "a")) as store:
            begin(store)
            append(store, 2)
            for opens in (open_here, open_to_read, compact, lock_directory):
                with pytest.raises(DirectoryInUse):
                    opens(tmp_path / "a")
        open_to_read(tmp_path / "a").close()
        with pytest.raises(WrongPair):
            open_disk(tmp_path / "a", pair="other", member="a")
        with pytest.raises(StoreFailed, match="There is no"):
            compact(tmp_path / "b")
        compact(tmp_path / "a")

    before = opened()
    use()
    assert opened() == before

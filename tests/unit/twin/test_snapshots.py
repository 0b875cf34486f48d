"""Snapshots of a twin: whole or not at all, and what is damaged is never taken for a state."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tandemq.twin.faults import DirectoryFault, StateInUse
from tandemq.twin.snapshots import SnapshotCutError, Snapshots, TwinSnapshot, snapshot_from


def snapshot(index: int, state: bytes = b"a\nb") -> TwinSnapshot:
    return TwinSnapshot("board", "1", "flights of then", index, 7, index, state)


def test_it_comes_back_as_it_was() -> None:
    assert snapshot_from(snapshot(5).to_bytes()) == snapshot(5)


def test_k10_what_is_cut_or_changed_is_refused_wherever_it_is() -> None:
    data = snapshot(5).to_bytes()
    for end in range(len(data)):
        with pytest.raises(SnapshotCutError):
            snapshot_from(data[:end])
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(SnapshotCutError):
            snapshot_from(bytes(changed))


def test_k10_the_one_before_a_damaged_one_is_used(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    assert snapshots.newest() is None
    for index in (10, 20, 30):
        snapshots.write(snapshot(index))
    assert [path.name.lstrip("0") for path in snapshots.paths()] == ["30.snapshot", "20.snapshot"]
    newest = snapshots.paths()[0]
    newest.write_bytes(newest.read_bytes()[:-1])
    assert snapshots.newest() == snapshot(20)
    (tmp_path / f"{40:020d}.new").write_bytes(b"a crash while it was written")
    assert snapshots.newest() == snapshot(20)


def test_k10_all_of_it_is_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, list[str]]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append((os.fstat(descriptor).st_size, names())))

    def names() -> list[str]:
        return sorted(path.suffix for path in tmp_path.iterdir())

    Snapshots(tmp_path).write(snapshot(10))
    (whole, before), (_, after) = synced
    assert (whole, before, after) == (len(snapshot(10).to_bytes()), [".new"], [".snapshot"])


def test_two_processes_do_not_share_a_directory(tmp_path: Path) -> None:
    with Snapshots(tmp_path).locked(), pytest.raises(StateInUse, match="TWIN_TAKEN"), Snapshots(tmp_path).locked():
        pass
    with Snapshots(tmp_path).locked():
        pass


def test_k10_one_that_is_refused_does_not_count_among_those_that_are_kept(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    for index in (10, 30):
        snapshots.write(snapshot(index))
    newest = snapshots.paths()[0]
    newest.write_bytes(newest.read_bytes()[:-1])
    assert snapshots.newest() == snapshot(10)
    for index in (15, 20):
        snapshots.write(snapshot(index))
    assert [path.name.lstrip("0") for path in snapshots.paths()] == ["20.snapshot", "15.snapshot"]


def test_what_a_kill_left_in_the_middle_goes(tmp_path: Path) -> None:
    (tmp_path / f"{40:020d}.new").write_bytes(b"a crash while it was written")
    with Snapshots(tmp_path).locked():
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(DirectoryFault, match=r"TWIN_DIRECTORY: .*/file cannot be used: File exists"):
        Snapshots(file).locked().__enter__()

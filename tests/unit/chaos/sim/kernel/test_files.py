"""Files on a simulated disk: what a kill, a power loss, a full disk, a lost one and an old image leave of them."""

from __future__ import annotations

import errno
import random

import pytest

from chaos.sim.kernel.disk import Disk
from storage.store import WriteBatch


def disk(seed: int = 1) -> Disk:
    each = Disk("a", random.Random(seed), lambda: 0.0)
    each.open("p", "a").commit(WriteBatch())
    return each


def put(each: Disk, name: str, synced: bytes, unsynced: bytes = b"") -> None:
    with each.files.create(name) as file:
        file.write(synced)
        if synced:
            each.files.sync(file)
        file.write(unsynced)


def get(each: Disk, name: str) -> bytes:
    with each.files.read(name) as file:
        return file.read()


def test_a_kill_leaves_everything_that_was_written() -> None:
    each = disk()
    put(each, "a", b"synced", b"not")
    each.crash()
    assert get(each, "a") == b"syncednot"


def test_a_power_loss_takes_from_the_end_what_was_not_synced() -> None:
    left, gone = set(), 0
    for seed in range(60):
        each = disk(seed)
        put(each, "a", b"synced", b"not")
        put(each, "b", b"", b"xy")
        put(each, "c", b"synced")
        each.crash(power=True)
        left.add(get(each, "a"))
        gone += "b" not in each.files.names()
        assert get(each, "c") == b"synced"
    assert left == {b"synced", b"syncedn", b"syncedno", b"syncednot"}
    assert 0 < gone < 60


def test_a_full_disk_takes_no_file() -> None:
    each = disk()
    with each.files.create("a") as file:
        each.strike("enospc")
        with pytest.raises(OSError, match="No space") as caught:
            file.write(b"1")
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(OSError, match="No space"):
            each.files.sync(file)
        each.heal()
        file.write(b"1")
    assert get(each, "a") == b"1"


def test_a_lost_disk_loses_its_files_and_an_image_brings_them_back() -> None:
    each = disk()
    put(each, "a", b"old")
    each.strike("snapshot", "image")
    put(each, "a", b"new")
    put(each, "b", b"new")
    each.strike("restore", "image")
    assert (each.files.names(), get(each, "a")) == (["a"], b"old")
    put(each, "a", b"newer")
    each.strike("restore", "image")
    assert get(each, "a") == b"old"
    each.strike("lost")
    assert each.files.names() == []

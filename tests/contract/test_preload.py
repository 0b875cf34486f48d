"""A process that is started with the preload library has the disk and the clock that it is told to have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaos.preload import Preload, PreloadError
from tests.support.until import until_sync

pytestmark = [pytest.mark.process, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")]

CLOCK_S = 0.01
CHILD = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for line in sys.stdin:
    began = time.monotonic()
    try:
        os.pwrite(file, b"x", 0)
        os.fsync(file)
        said = "ok"
    except OSError as error:
        said = error.strerror
    print(f"{said}|{time.monotonic() - began}|{time.time()}", flush=True)
"""


class Child:
    """Writes and syncs when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def write(self) -> tuple[str, float, tuple[float, float]]:
        """What came of it, how long it took, and between what its clock is ahead."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked_s = time.time()
        self.process.stdin.write("now\n")
        self.process.stdin.flush()
        said, took_s, clock_s = self.process.stdout.readline().split("|")
        return said, float(took_s), (float(clock_s) - time.time(), float(clock_s) - asked_s)


def is_ahead(between: tuple[float, float], ahead_s: float) -> bool:
    """However long the answer was on its way. The two clocks are read a moment apart."""
    least_s, most_s = between
    return least_s - CLOCK_S <= ahead_s <= most_s + CLOCK_S


@pytest.fixture
def preload(tmp_path: Path) -> Preload:
    made = Preload(tmp_path / "preload", ("a", "b"))
    made.prepare()
    return made


@pytest.fixture
def child(preload: Preload, tmp_path: Path) -> Iterator[Child]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "file")],
        env={**os.environ, **preload.environment("a")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield Child(process)
    process.communicate()


def test_disk_and_clock_are_as_they_are_told_to_be(preload: Preload, child: Child) -> None:
    said, _, ahead = child.write()
    assert (said, preload.felt("a")) == ("ok", 0)
    assert is_ahead(ahead, 0)
    preload.hurt("a", fsync_s=0.4)
    said, took_s, _ = child.write()
    assert said == "ok"
    assert took_s >= 0.4
    felt = preload.felt("a")
    assert felt > 0
    preload.hurt("a", full=True)
    assert child.write()[0] == "No space left on device"
    for ahead_s in (3600.5, -3600.5):
        preload.hurt("a", ahead_s=ahead_s)
        assert is_ahead(child.write()[2], ahead_s)
    assert preload.felt("a") > felt
    preload.hurt("b", full=True)  # of another member
    preload.calm("a")
    felt = preload.felt("a")
    said, _, ahead = child.write()
    assert (said, preload.felt("a")) == ("ok", felt)  # a slow sync now would be the disk's own
    assert is_ahead(ahead, 0)


def test_one_sync_of_some_is_slow(preload: Preload, child: Child) -> None:
    preload.hurt("a", fsync_s=0.2, fsync_every=3)
    felt = []
    for _ in range(7):
        _, took_s, _ = child.write()
        felt.append(preload.felt("a"))
        assert took_s >= 0.2 or len(felt) % 3
    assert felt == [0, 0, 1, 1, 1, 2, 2]


def test_a_hung_disk_ends_no_sync_until_it_is_taken_back(preload: Preload, child: Child) -> None:
    preload.hurt("a", hung=True)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(child.write)
        until_sync(lambda: preload.felt("a"), "a sync hangs")
        assert not written.done()
        preload.hurt("b")  # of another member
        assert not written.done()
        preload.calm("a")
        assert written.result()[0] == "ok"
    assert preload.felt("a") == 1


def test_a_machine_without_a_compiler_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PreloadError, match="C compiler"):
        Preload(tmp_path, ("a",)).prepare()

"""A disk that stands still is no fault of whoever waits for it, and is seen by somebody who asks for a page."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from chaos.hostile.disk import LONG_S, Disk
from tests.support.until import until_sync


def test_how_long_the_disk_stood_is_what_falls_into_the_time_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, reached = threading.Event(), threading.Event()

    def fsync(_file: int) -> None:
        reached.set()
        held.wait()

    monkeypatch.setattr(os, "fsync", fsync)
    disk = Disk(tmp_path)
    disk.start()
    until_sync(reached.is_set, "it syncs")
    began_s = time.monotonic()
    until_sync(lambda: time.monotonic() - began_s > 2 * LONG_S, "it has stood for a while")
    now_s = time.monotonic()
    assert disk.stood_s(began_s, now_s) == pytest.approx(now_s - began_s)  # it still does
    held.set()
    disk.stop()
    assert disk.stood_s(began_s, now_s) == pytest.approx(now_s - began_s)
    assert disk.stood_s(began_s, began_s + LONG_S) == pytest.approx(LONG_S)
    assert disk.stood_s(now_s + 3_600, now_s + 3_601) == 0.0
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_probe_that_cannot_write_excuses_nobody(tmp_path: Path) -> None:
    (tmp_path / "disk-probe").symlink_to("/dev/full")
    disk = Disk(tmp_path)
    disk.start()
    disk._thread.join()
    now_s = time.monotonic()
    assert disk.stood_s(now_s, now_s + 60) == 0.0
    disk.stop()


def test_a_disk_that_answers_takes_no_time_from_anybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _file: None)
    disk = Disk(tmp_path)
    began_s = time.monotonic()
    disk.start()
    until_sync((tmp_path / "disk-probe").exists, "it writes")
    disk.stop()
    assert disk.stood_s(began_s, time.monotonic()) == 0.0

"""What a percentile of others' sends is, and who has written so little that a disk that stood still excuses a send."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.hostile.account import SAMPLES_MIN
from chaos.hostile.watching import WRITTEN_MAX, percentile, written_bytes, wrote_little

LARGE = 16 << 20


@pytest.mark.parametrize(
    ("values", "share", "wanted"),
    [
        ([], 0.99, 0.0),
        ([7.0], 0.5, 7.0),
        ([2.0, 1.0], 0.5, 1.0),
        ([1.0] * (SAMPLES_MIN - 1) + [300.0], 0.99, 1.0),  # the worst one alone is no p99 of so many
        ([1.0] * (SAMPLES_MIN - 2) + [300.0] * 2, 0.99, 300.0),
        ([1.0] * (SAMPLES_MIN - 2) + [300.0], 0.99, 300.0),  # of fewer it is
        ([1.0, 2.0, 3.0], 1.0, 3.0),
    ],
)
def test_a_percentile_is_the_least_that_its_share_does_not_exceed(
    values: list[float], share: float, wanted: float
) -> None:
    assert percentile(values, share) == wanted


def test_who_wrote_what_nobody_counted_did_not_write_little() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert written_bytes([os.getpid()]) is not None
    assert written_bytes([os.getpid(), ended.pid]) is None
    assert wrote_little(1, 1 + WRITTEN_MAX)
    assert not wrote_little(1, 2 + WRITTEN_MAX)
    assert not wrote_little(None, 1)
    assert not wrote_little(1, None)


def test_what_was_written_is_counted_and_not_the_pages_around_it(tmp_path: Path) -> None:
    """A kernel with large pages in its cache counts 2 MiB for a page that changes in a file that is there already."""
    page = bytes(4_096)
    with (tmp_path / "log").open("wb") as file:
        file.write(b"x" * LARGE)
        file.flush()
        os.fsync(file.fileno())
        before = written_bytes([os.getpid()])
        os.pwrite(file.fileno(), page, LARGE // 2)
        os.fsync(file.fileno())
        after = written_bytes([os.getpid()])
    assert before is not None
    assert after is not None
    assert len(page) <= after - before < 4 * len(page)

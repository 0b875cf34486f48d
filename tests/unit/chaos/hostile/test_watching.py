"""What a percentile of others' sends is, and who has written so little that a disk that stood still excuses a send."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from chaos.hostile.account import SAMPLES_MIN
from chaos.hostile.watching import WRITTEN_MAX, percentile, written_bytes, wrote_little


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

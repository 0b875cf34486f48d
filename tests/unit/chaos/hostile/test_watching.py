"""What a percentile of others' sends is."""

from __future__ import annotations

import pytest

from chaos.hostile.account import SAMPLES_MIN
from chaos.hostile.watching import percentile


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

"""Random walks of a whole pair. A failing seed is one line to repeat: `python -m tests.support.walk SEED`."""

from __future__ import annotations

import pytest

from tests.support.walk import Walk

SEEDS = 300
CHUNK = 50


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_r112_r122_no_walk_loses_repeats_or_reorders_what_was_acknowledged(first: int) -> None:
    acks = 0
    for seed in range(first, first + CHUNK):
        try:
            acks += Walk(seed).run().pair.checks.acks
        except BaseException as error:
            error.add_note(f"seed {seed}; repeat it with: python -m tests.support.walk {seed}")
            raise
    assert acks > 5 * CHUNK, "walks that acknowledge nothing show nothing"

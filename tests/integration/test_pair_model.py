"""Random operations at either member of a pair of real processes, with failovers, against the list model.

As `tests/sim/test_pair_model.py`, which does the same to simulated pairs. Long: `make pair-model` runs it. The
steps come from a seed (SEED=7: others); the timing of processes is the machine's.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.listed import admin, doing, steps
from tests.support.listed.processes import processes
from tests.support.listed.run import Run

SEED = int(os.environ.get("SEED", "1"))
STEPS = int(os.environ.get("STEPS", "10000"))
EACH = 500
"""Of a run at one pair: a failure is told as a story that can be read."""
FAULT_SHARE = 60


@pytest.mark.process
@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("number", range(-(-STEPS // EACH)))
def test_a_pair_of_processes_and_the_model_agree(tmp_path: Path, number: int) -> None:
    stream = random.Random(f"{SEED}/{number}")
    kinds = stream.randrange(len(admin.CONFIGS)), stream.randrange(len(admin.CONFIGS))
    with processes(tmp_path) as driver:
        run = Run(driver, kinds)
        doing.carry_out(run, (steps.drawn(stream, FAULT_SHARE) for _ in range(min(EACH, STEPS))))
    assert any(run.asked.get(f"struck {kind}") for kind in steps.FAULTS)

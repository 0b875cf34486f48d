"""A plan is all that a run hangs on: equal plans give equal traces, in any process, whatever its hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from chaos.sim.draw.profiles import PROFILES, draw
from chaos.sim.tools.product import run, traced

SEEDS = range(1, 3)
SCRIPT = """
import json, sys
from chaos.sim.tools.product import run
from chaos.sim.draw.profiles import PROFILES, draw
seeds = range(int(sys.argv[1]), int(sys.argv[2]))
print(json.dumps([[run(draw(name, seed)).trace_hash for name in PROFILES] for seed in seeds]))
"""


def begun(hash_seed: str) -> subprocess.Popen[str]:
    """The same runs in a new process."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(SEEDS.start), str(SEEDS.stop)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


def hashes(process: subprocess.Popen[str]) -> list[list[str]]:
    said, _ = process.communicate()
    assert process.returncode == 0
    found: list[list[str]] = json.loads(said)
    return found


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(1800)  # twenty seconds on two idle cores; much more when others want them too
def test_the_hash_seed_of_a_process_changes_no_trace() -> None:
    with begun("1") as one, begun("31337") as other:
        first, second = hashes(one), hashes(other)
    assert first == second
    assert [run(draw(name, SEEDS.start)).trace_hash for name in PROFILES] == first[0], "here as in any process"
    assert len({each for row in first for each in row}) == len(SEEDS) * len(PROFILES), "equal for all is equal for none"


@pytest.mark.slow
def test_runs_do_not_feel_what_ran_before_nor_that_somebody_looks() -> None:
    first, second = draw("swarm", 3), draw("fence", 4)
    alone = run(first).trace_hash
    run(second)
    assert run(first).trace_hash == alone
    assert traced(first).trace_hash == alone

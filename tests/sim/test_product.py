"""The product under the simulator, as much of it as a change can wait for: no violation, enough of everything.

`make sim SEEDS=100000` runs more of the same. A failure names the command that repeats it.
"""

from __future__ import annotations

import pytest

from chaos.sim.tools.campaign import Campaign, results
from chaos.sim.tools.product import of_product
from chaos.sim.tools.report import facts, lines
from chaos.sim.tools.tally import floors

SEEDS = 3_000
JOBS = 2


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(1800)  # about two minutes on two idle cores; much more when others want them too
def test_three_thousand_runs_show_no_violation_and_meet_everything() -> None:
    kernel = of_product()
    *_, result = results(kernel.works, Campaign(kernel.profiles, SEEDS), JOBS)
    asked = floors(kernel.kinds)
    told = facts(result, list(kernel.points), asked)
    table = "\n".join(f"{name}: {value}" for name, value in lines(told))
    print(table)  # noqa: T201  # shown with a failure
    assert told["violations"] == []
    assert told["shortfalls"] == []
    assert result.tally.seeds == SEEDS

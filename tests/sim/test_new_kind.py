"""A newcomer adds a kind of fault as one class and a line in the table: nothing else has to know of it.

In a process of its own, since the profiles read the table once.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from dataclasses import replace

from chaos.sim.faults import table
from chaos.sim.faults.kinds import MEMBERS


class Hiccup:
    @staticmethod
    def draw(stream):
        return stream.choice(MEMBERS), {"for_ms": stream.choice((30, 60))}

    @staticmethod
    def strike(pair, fault):
        member = pair.members[fault.target]
        member.pause()
        pair.run.loop.at(pair.run.loop.now + fault.args["for_ms"] / 1000, None, member.resume)
        return True


table.KINDS = {**table.KINDS, "hiccup": table.Entry(Hiccup)}

from chaos.sim.tools.product import of_product
from chaos.sim.tools.tally import Tally, floors

kernel = of_product()
plan = next(
    plan
    for plan in (kernel.draw("swarm", seed) for seed in range(1, 200))
    if any(fault.kind == "hiccup" for fault in plan.faults)
)
struck = tuple(fault for fault in plan.faults if fault.kind == "hiccup")
outcome = kernel.run(replace(plan, faults=struck))
assert outcome.violations == [], outcome.violations
assert outcome.counters["fault.hiccup"] == len(struck)
tally = Tally(seeds=3_000)
assert any("fault hiccup" in line for line in tally.shortfalls((), floors(kernel.kinds))), "nobody misses it"
try:
    kernel.check(replace(plan, faults=(replace(struck[0], target="nobody"),)))
except ValueError as refused:
    assert "nobody" in str(refused)
else:
    raise AssertionError("a plan that cannot be carried out was taken")
"""


@pytest.mark.slow
@pytest.mark.process
def test_a_new_kind_is_drawn_struck_counted_missed_and_checked() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

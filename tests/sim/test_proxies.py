"""Two simulated pairs, both struck: clients of one use queues of the other by the names of proxies, and by a macro
queue that has them as members (M7, M11).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.sim.bugs import BUGS
from chaos.sim.draw.profiles import draw
from chaos.sim.judges.dealt import NAME as DEALT_ONCE
from chaos.sim.judges.proxies import DEMOTED, HELD_UP, LENGTHENED, ONE
from chaos.sim.judges.proxy_points import FOUND_AGAIN, GAVE, RETURNED, SETTLED
from chaos.sim.tools.product import run


def test_what_goes_through_a_proxy_is_done_once_whatever_strikes_either_pair() -> None:
    """The books are those of the pair that has the queue, and no judge finds anything."""
    met: set[str] = set()
    for seed in (1, 2, 3, 11):  # in the last one a link has another manager at its target's address
        outcome = run(draw("proxies", seed))
        assert outcome.violations == []
        met.update(outcome.coverage)
    assert met >= {FOUND_AGAIN, GAVE, SETTLED, RETURNED}


@pytest.mark.parametrize(
    ("name", "seed", "rule"),
    [
        ("far-lease-of-two", 2, ONE),
        ("far-head-not-lengthened", 4, LENGTHENED),
        ("hung-member-blocks", 1, HELD_UP),
        ("proxy-at-demoted-master", 1, DEMOTED),
        ("dealt-to-another-manager", 13, DEALT_ONCE),
    ],
)
def test_each_rule_over_both_pairs_is_missed_when_it_is_gone(name: str, seed: int, rule: str) -> None:
    """The others are missed by the books of the pair that has the queue."""
    outcome = run(replace(draw(BUGS[name].profile, seed), bug=name))
    assert rule in [violation.partition(":")[0] for violation in outcome.violations]

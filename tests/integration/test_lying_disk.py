"""A disk that lies about its last writes, in real processes: a few rounds of `make lying-disk`, doubt that is shown."""

from __future__ import annotations

import pytest

from chaos.lying.kinds import HOLDER, HURT_FIRST, OTHER_FIRST, REPLICA, WITNESS, Plan
from chaos.lying.rounds import Outcome, play

pytestmark = pytest.mark.process

ROUNDS_MAX = 3
"""A write of the log is in the database as well 0.1 s later: damage to the log takes nothing away then, and shows
nothing. One round of thirty is such a one.
"""


async def played(plan: Plan) -> Outcome:
    """Rounds until one has hurt something; none of them may be bad."""
    for _ in range(ROUNDS_MAX):
        outcome = await play(plan)
        assert not outcome.bad, outcome
        if outcome.hurt:
            break
    assert outcome.hurt, outcome
    return outcome


@pytest.mark.promise
@pytest.mark.parametrize(
    "plan",
    [
        Plan(1, HOLDER, "meta-back", 1, HURT_FIRST, busy=False),
        Plan(2, REPLICA, "log-zero", 2, OTHER_FIRST, busy=False),
        Plan(3, WITNESS, "data-back", 2, HURT_FIRST, busy=False),
    ],
    ids=lambda plan: plan.victim,
)
async def test_with_both_members_present_nothing_acknowledged_is_lost(plan: Plan) -> None:
    outcome = await played(plan)
    assert outcome.acknowledged > 0


async def test_a_member_that_starts_alone_says_what_it_cannot_prove() -> None:
    for _ in range(ROUNDS_MAX):
        outcome = await play(Plan(1, HOLDER, "log-zero", 1, HURT_FIRST, busy=False, alone=True))
        if outcome.hurt:
            break
    assert outcome.hurt, outcome
    assert outcome.lost > 0
    assert outcome.noticed, outcome

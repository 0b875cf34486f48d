"""Every step of a promotion is interrupted in every way, then everything works again: one master, nothing lost.

The rows are those of `failover/steps.py`; the handoff's are in test_interrupted_handoff.py. The checks of
`tests/support/checks.py` run after each event: one owner an epoch, nobody serves without what was acknowledged, and an
answer with copies is true when it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from failover.classifier import Evidence, Verdict
from failover.marks import Role
from failover.steps import TABLE, Step
from tests.support.clients import Producer, check_contents, create
from tests.support.pair import Member, Pair

# -- how it comes to a claim ---------------------------------------------------------------------------------------


def master_is_killed(pair: Pair) -> Member:
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    return pair.b


def replica_is_killed(pair: Pair) -> Member:
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    return pair.a


def link_is_cut_and_replica_asks(pair: Pair) -> Member:
    pair.disconnect()
    pair.b.lost()
    return pair.b


def both_restart(pair: Pair) -> Member:
    pair.crash(pair.a)
    pair.crash(pair.b)
    pair.a.start()
    pair.b.start()
    pair.connect()
    return pair.a


def operator_decides_without_a_register(pair: Pair) -> Member:
    """The other one stays down until the register is back: that is what the operator was asked to make sure of."""
    pair.settle(1_500)
    pair.witness_away = True
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.quiesce()
    pair.b.verdict(Verdict.ASSUME_MASTERSHIP, evidence=Evidence.OPERATOR)
    return pair.b


CAUSES = (
    master_is_killed,
    replica_is_killed,
    link_is_cut_and_replica_asks,
    both_restart,
    operator_decides_without_a_register,
)

# -- how it is interrupted -----------------------------------------------------------------------------------------


def nothing(pair: Pair, claimant: Member) -> None:
    """The step just ends."""


def claimant_is_killed(pair: Pair, claimant: Member) -> None:
    pair.crash(claimant)


def claimant_is_killed_after_its_write(pair: Pair, claimant: Member) -> None:
    claimant.write()
    pair.crash(claimant, written=True)


def answer_never_comes(pair: Pair, claimant: Member) -> None:
    """And the call lands all the same."""
    for call in [each for each in pair.calls if each.member == claimant.name]:
        pair.land(call)
        pair.lose(call)


def answer_never_comes_and_the_call_lands_late(pair: Pair, claimant: Member) -> None:
    for call in [each for each in pair.calls if each.member == claimant.name]:
        pair.lose(call)
    pair.settle(400)
    pair.land_late()


def other_comes_back(pair: Pair, claimant: Member) -> None:
    if not claimant.peer.up:
        claimant.peer.start()
    if not pair.linked:
        pair.disconnect()
        pair.connect()


def everybody_is_killed(pair: Pair, claimant: Member) -> None:
    for member in pair.up:
        pair.crash(member)


FAULTS = (
    nothing,
    claimant_is_killed,
    claimant_is_killed_after_its_write,
    answer_never_comes,
    answer_never_comes_and_the_call_lands_late,
    other_comes_back,
    everybody_is_killed,
)

# -- stopping at a step --------------------------------------------------------------------------------------------

STEPS = (Step.CLAIMING, Step.STORING, Step.COMMITTING, Step.SERVING)
HELD: dict[Step, dict[str, tuple[str, ...]]] = {
    Step.CLAIMING: {"keep": ("claim",)},
    Step.STORING: {},
    Step.COMMITTING: {"keep": ("commit",)},
    Step.SERVING: {},
}


def stop_at(pair: Pair, claimant: Member, step: Step) -> bool:
    """Go on until the claim is at this step; False when this way to mastership does not pass it."""
    disks = claimant.peer_name if step is Step.STORING else "ab"
    for _ in range(60):
        pair.quiesce(disks=disks, **HELD[step])
        if step_of(claimant) is step:
            return True
        pair.tick()
    return False


def step_of(member: Member) -> Step:
    mastership = member.core.mastership
    if mastership.role.claim is not None:
        return mastership.role.claim.step
    return Step.SERVING if mastership.shared.serving and member.role is Role.MASTER else Step.PROBE


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
@pytest.mark.parametrize(
    ("step", "fault"), list(product(STEPS, FAULTS)), ids=lambda each: getattr(each, "__name__", each)
)
def test_a_promotion_that_is_interrupted(
    cause: Callable[[Pair], Member], step: Step, fault: Callable[[Pair, Member], None]
) -> None:
    pair = Pair().start()
    create(pair)
    x = Producer(pair, "x")
    x.send(pair.a)
    pair.settle(100)
    pair.cut()
    x.send(pair.a)  # ordered, and perhaps never acknowledged
    claimant = cause(pair)
    if not stop_at(pair, claimant, step):
        unrecorded = cause is operator_decides_without_a_register and step in (Step.CLAIMING, Step.COMMITTING)
        assert unrecorded, "every other way to mastership passes every step"
        return
    x.send(claimant)
    fault(pair, claimant)
    pair.witness_away = False
    if cause is operator_decides_without_a_register and claimant.up:
        pair.settle(2_000)
        assert not claimant.core.mastership.role.unrecorded, "recorded before the other one may come back"
    pair.heal()
    assert pair.master is not None
    x.retry(pair.master)
    pair.settle(500)
    check_contents(pair, [x])
    assert len(x.acked) == 3


def test_no_step_of_the_table_is_left_out() -> None:
    """READING belongs to a handoff, whose rows are interrupted in a test of their own."""
    assert {step for step, _ in TABLE} - {Step.READING, Step.PROBE} == set(STEPS)

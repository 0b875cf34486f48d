"""Every row of the protocol's tables is taken by some script, so that each has an example that anybody can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

import failover.promotion
import replica.core.mastership.claims
import replica.core.mastership.verdicts
from failover.classifier import Answer
from failover.gate import Consequence, Ruling, Situation, rule
from failover.handoff import TABLE as HANDOFF
from failover.marks import Role
from failover.promotion import TABLE as PROMOTION
from failover.promotion import Why
from failover.steps import TABLE as STEPS
from failover.steps import Found, Step
from replica.core.mastership.claims import Claims
from replica.core.mastership.following import Following
from replica.core.mastership.mastership import Mastership
from replica.core.mastership.role import MOVES, MemberRole
from tests.support import script
from tests.support.asking import Story
from tests.support.pair import drive

pytestmark = pytest.mark.slow  # every script, watched

# Rows that no script takes, and why not.
UNTOLD_PROMOTION = {
    Why.ENDS_DIFFER.value: "one number has one record as long as the register keeps its own (P4, P11)",
    "connected, but the peer has not said yet what it holds": "a session of the harness begins with its HELLO",
}
UNTOLD_STEPS = {
    (step, found): "no order of frames of two members gets there; the table is total all the same"
    for step in (Step.READING, Step.STORING, Step.COMMITTING)
    for found in (Found.SYNC, Found.HIGHER_EPOCH)
}
STEPS_DOWN = "it steps down by another way; tests/support/handing.py does so in each state"
NO_PEER_ASKS = "a peer of ours asks no member that is not master; tests/support/handing.py sends the frame"
NO_PEER_OFFERS = "a peer of ours takes its offer back before it makes another one; tests/support/handing.py sends it"
NOT_WHOLE = "a copy that was whole a moment ago is not; tests/support/handing.py marks it"
VERDICT = "a verdict may come in any role; one script has it, at a suspended master"
UNTOLD_MOVES = {
    **{(role, Role.FAILED): VERDICT for role in Role if role not in (Role.INIT, Role.FAILED, Role.MASTER_SUSPENDED)},
    **{(Role.FAILED, to): "no script goes on with a process that ends" for to in (Role.PROBE, Role.REPLICA)},
    (Role.INIT, Role.MASTER): "of a manager without a peer",
    (Role.PROBE, Role.MAINTENANCE): "an order to the shell; tests/integration/test_operator.py gives it",
    (Role.MAINTENANCE, Role.PROBE): "as above",
    (Role.MAINTENANCE, Role.MASTER): "force while in maintenance",
    (Role.CEDING, Role.MASTER): "force in the middle of a handoff",
    (Role.REPLICA, Role.MASTER): "force in the middle of a handoff",
    (Role.MASTER_SUSPENDED, Role.CEDING): "the peer is lost between the last commit and the row that cedes",
    (Role.MASTER_SUSPENDED, Role.REPLICA): "as the rows (CLAIMING, SYNC) of a claim that a suspended master made",
}
UNTOLD_HANDOFF = {
    **{(state, "ROLE_LOST"): STEPS_DOWN for state in ("PROPOSED", "DRAINING", "CEDING", "REQUESTED", "READY")},
    **{
        (state, "REQUEST_BARRED"): NO_PEER_ASKS
        for state in ("DRAINING", "CEDING", "REPLICA", "REQUESTED", "READY", "TAKING")
    },
    ("READY", "CROSSING"): NO_PEER_OFFERS,
    ("READY", "ACK_MISFIT"): NOT_WHOLE,
}


class Taken:
    """The rows that were taken."""

    def __init__(self) -> None:
        self.promotion: set[str] = set()
        self.steps: set[tuple[Step, Found]] = set()
        self.handoff: set[tuple[str, str]] = set()
        self.moves: set[tuple[Role, Role]] = set()
        self.rulings: set[tuple[str, Consequence]] = set()
        """Verdict, and what it may do."""


@contextmanager
def watched(taken: Taken) -> Iterator[None]:
    row_of, follow = failover.promotion.row_of, replica.core.mastership.claims.follow
    claim_ceded, may_follow, on_hello = Claims.on_ceded_read, Following.may_follow, Mastership.on_hello

    def watch_row(facts: Any) -> Any:
        row = row_of(facts)
        taken.promotion.add(row.why.value)
        return row

    def watch_step(step: Step, found: Found) -> Step:
        taken.steps.add((step, found))
        return follow(step, found)

    def watch_read(claims: Claims, register: Any) -> None:
        claim_ceded(claims, register)
        now = claims.role.claim.step if claims.role.claim is not None else Step.PROBE
        found = {Step.CLAIMING: Found.DONE, Step.STORING: Found.UNKNOWN_CEDED}.get(now, Found.REFUSED)
        taken.steps.add((Step.READING, found))

    def watch_rule(answer: Answer, situation: Situation) -> Ruling:
        ruling = rule(answer, situation)
        if answer.verdict is not None:
            taken.rulings.add((answer.verdict.name, ruling.effect))
        return ruling

    def watch_end(original: Callable[..., Any], found: Found) -> Callable[..., Any]:
        def end(self: Following | Mastership, *words: Any) -> Any:
            claim = self.role.claim
            answer = original(self, *words)
            if claim is not None and self.role.claim is not claim:
                taken.steps.add((claim.step, found))
            return answer

        return end

    move = MemberRole._move

    def watch_move(self: MemberRole, role: Role, reason: str) -> None:
        before = self.shared.role
        move(self, role, reason)
        if role is not before:
            taken.moves.add((before, role))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemberRole, "_move", watch_move)
        patch.setattr(failover.promotion, "row_of", watch_row)
        patch.setattr(replica.core.mastership.claims, "follow", watch_step)
        patch.setattr(Claims, "on_ceded_read", watch_read)
        patch.setattr(replica.core.mastership.verdicts, "rule", watch_rule)
        patch.setattr(Following, "may_follow", watch_end(may_follow, Found.SYNC))
        patch.setattr(Mastership, "on_hello", watch_end(on_hello, Found.HIGHER_EPOCH))
        yield


@cache
def taken_by_the_scripts(*folders: str) -> Taken:
    taken = Taken()
    with watched(taken):
        for path in script.scripts(*(folders or ("stories", "protocol", "handoff"))):
            story = Story()
            drive(script.play(script.load(path), story))
            taken.handoff |= {(state, event) for _, state, event in story.pair.handoff_rows}
    return taken


def test_every_row_of_the_promotion_table_is_told() -> None:
    told = taken_by_the_scripts().promotion
    assert {row.why.value for row in PROMOTION} - told == set(UNTOLD_PROMOTION)


def test_every_row_of_the_steps_of_a_claim_is_told() -> None:
    told = taken_by_the_scripts().steps
    assert {row for row in STEPS if not row[0].is_steady} - told == set(UNTOLD_STEPS)


def test_every_move_of_a_role_is_told() -> None:
    told = taken_by_the_scripts().moves
    assert {(role, to) for role, leads in MOVES.items() for to in leads} - told == set(UNTOLD_MOVES)


def test_every_row_of_the_handoff_table_is_told() -> None:
    told = taken_by_the_scripts().handoff
    assert {(state.name, event.name) for state, event in HANDOFF} - told == set(UNTOLD_HANDOFF)


def test_what_each_verdict_may_do_is_told() -> None:
    told = taken_by_the_scripts().rulings
    goes_on = {Consequence.CLAIM, Consequence.WAIT, Consequence.REFUSE, Consequence.DROP}
    assert {effect for verdict, effect in told if verdict == "ASSUME_MASTERSHIP"} == {
        *goes_on,
        Consequence.CLAIM_UNRECORDED,
    }
    assert {effect for verdict, effect in told if verdict == "CONTINUE_AS_MASTER"} >= {
        Consequence.CLAIM,
        Consequence.REFUSE,
    }
    assert {effect for verdict, effect in told if verdict == "PEER_ALIVE"} >= {Consequence.CLAIM, Consequence.WAIT}
    assert {("FAILED_INSTANCE", Consequence.FAIL), ("WAIT", Consequence.WAIT)} <= told


def test_a_row_that_no_script_takes_is_seen() -> None:
    few = taken_by_the_scripts("handoff")
    assert Why.FORMATION.value in few.promotion
    assert Why.BLANK_UNCLEAR.value not in few.promotion
    assert (Step.COMMITTING, Found.DONE) in few.steps
    assert (Step.COMMITTING, Found.REFUSED) not in few.steps
    assert few.rulings == set()
    assert ("CEDING", "SYNC") in few.handoff
    assert ("DRAINING", "LINK_LOST") not in few.handoff

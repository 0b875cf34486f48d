"""Each row of the gate by itself, and its nearest neighbour in every fact that it looks at, with the words of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from failover.classifier import Answer, EventKind, Evidence, SafetyClass, Verdict
from failover.gate import BOTH_AWAY, UNMET, UNPROVEN, Consequence, Ruling, Situation, rule
from failover.marks import DataMark, Role

C, V, E = Consequence, Verdict, Evidence
LOST = Situation(
    EventKind.PEER_LOST,
    3,
    Role.PROBE,
    DataMark.IN_SYNC,
    connected=False,
    has_authority=True,
    authority_readable=True,
    safety=SafetyClass.A,
)
"""A replica whose peer is lost, behind an authority that answers."""
ALONE = replace(LOST, has_authority=False, authority_readable=False)
AWAY = replace(LOST, authority_readable=False)

RECORDED = "answers to this event are recorded, never acted upon"
PAUSED = "automatic changes of role are paused here (tandemq pair resume)"
FLAPS = "too many changes of role in a short time without an authority: an operator must decide"
STALE = "ordered to assume the mastership, but its copy is STALE: it may lack acknowledged operations"


def ruled(now: Situation, verdict: Verdict | None = V.ASSUME_MASTERSHIP, reason: str = "r", **more: Any) -> Ruling:
    return rule(Answer("e", 3, verdict, reason, by="c", **more), now)


def test_who_answered_and_when_to_ask_again_is_passed_on() -> None:
    assert ruled(LOST, V.WAIT, retry_ms=70) == Ruling(C.WAIT, "r", "c", 70)


@pytest.mark.parametrize(
    ("verdict", "now", "effect", "why"),
    [
        (None, LOST, C.WAIT, "no answer: r"),
        (V.ASSUME_MASTERSHIP, replace(LOST, kind=EventKind.DIVERGENCE), C.WAIT, RECORDED),
        (V.FAILED_INSTANCE, replace(LOST, kind=EventKind.PREFLIGHT), C.WAIT, RECORDED),
        (V.FAILED_INSTANCE, replace(LOST, connected=True, paused=True), C.FAIL, "r"),
        (V.ASSUME_MASTERSHIP, replace(LOST, connected=True), C.DROP, "the peer is back"),
        (V.WAIT, replace(LOST, connected=True), C.DROP, "the peer is back"),
        (V.WAIT, LOST, C.WAIT, "r"),
        (V.ASSUME_MASTERSHIP, LOST, C.CLAIM, "r"),
        (V.CONTINUE_AS_MASTER, replace(LOST, kind=EventKind.PEER_SLOW, connected=True, role=Role.MASTER), C.CLAIM, "r"),
        (V.ASSUME_MASTERSHIP, replace(LOST, paused=True), C.WAIT, PAUSED),
        (V.CONTINUE_AS_MASTER, LOST, C.REFUSE, "ordered to continue as master, but it was PROBE"),
        (
            V.ASSUME_MASTERSHIP,
            replace(LOST, role=Role.MASTER),
            C.REFUSE,
            "ordered to assume the mastership, but it was MASTER",
        ),
        (V.ASSUME_MASTERSHIP, replace(LOST, role=Role.REPLICA), C.CLAIM, "r"),
        (V.ASSUME_MASTERSHIP, replace(LOST, data=DataMark.STALE), C.REFUSE, STALE),
        (V.PEER_ALIVE, replace(LOST, role=Role.MASTER), C.WAIT, "r"),
        (V.ASSUME_MASTERSHIP, AWAY, C.WAIT, BOTH_AWAY),
        (V.ASSUME_MASTERSHIP, ALONE, C.WAIT, f"the classifier is of class A; {UNPROVEN}"),
        (
            V.ASSUME_MASTERSHIP,
            replace(ALONE, safety=SafetyClass.B),
            C.WAIT,
            f"the classifier is of class B; {UNPROVEN}",
        ),
        (V.ASSUME_MASTERSHIP, replace(ALONE, accept_unproven=True), C.CLAIM, "r"),
        (V.ASSUME_MASTERSHIP, replace(ALONE, accept_unproven=True, flapping=True), C.WAIT, FLAPS),
    ],
)
def test_without_evidence(verdict: Verdict | None, now: Situation, effect: Consequence, why: str) -> None:
    found = ruled(now, verdict)
    assert (found.effect, found.why) == (effect, why)


@pytest.mark.parametrize(
    ("verdict", "now", "why"),
    [
        (V.FAILED_INSTANCE, LOST, "this member is the failed instance"),
        (V.WAIT, LOST, "the classifier says wait"),
        (V.PEER_ALIVE, LOST, "the peer is alive behind a broken link: mend the link"),
        (V.ASSUME_MASTERSHIP, LOST, "the register decides"),
        (V.ASSUME_MASTERSHIP, replace(ALONE, accept_unproven=True), "accepted, class A"),
    ],
)
def test_who_gives_no_reason_gets_the_gates(verdict: Verdict, now: Situation, why: str) -> None:
    assert ruled(now, verdict, reason="").why == why


@pytest.mark.parametrize(
    ("evidence", "now", "effect", "why"),
    [
        (E.PEER_OUTDATED, ALONE, C.CLAIM, "proven"),
        (E.PEER_POWERED_OFF, ALONE, C.CLAIM, "proven"),
        (E.OPERATOR, ALONE, C.CLAIM, "proven"),
        (E.LEASE, ALONE, C.CLAIM, "proven"),
        (E.LEASE, replace(ALONE, safety=SafetyClass.B), C.WAIT, f"the classifier is of class B; {UNPROVEN}"),
        (E.LEASE, AWAY, C.WAIT, BOTH_AWAY),
        (E.OPERATOR, replace(LOST, paused=True), C.CLAIM, "the register decides"),
        (E.PEER_OUTDATED, AWAY, C.CLAIM_UNRECORDED, "the authority is away; peer_outdated: "),
        (E.PEER_POWERED_OFF, AWAY, C.CLAIM_UNRECORDED, "the authority is away; peer_powered_off: "),
        (E.PEER_POWERED_OFF, replace(AWAY, met=False), C.REFUSE, UNMET),
        (
            E.PEER_POWERED_OFF,
            replace(AWAY, met=False, data=DataMark.SOLE),
            C.CLAIM_UNRECORDED,
            "the authority is away; peer_powered_off: ",
        ),
        (E.OPERATOR, replace(AWAY, met=False), C.CLAIM_UNRECORDED, "the authority is away; operator: "),
        (E.PEER_POWERED_OFF, replace(LOST, met=False), C.CLAIM, "the register decides"),
        (E.PEER_POWERED_OFF, replace(ALONE, met=False), C.CLAIM, "proven"),
    ],
)
def test_with_evidence(evidence: Evidence, now: Situation, effect: Consequence, why: str) -> None:
    found = ruled(now, reason="", evidence=evidence)
    assert (found.effect, found.why) == (effect, why)


COLD = "started alone with a copy that may be outdated, and no authority to ask: an operator must say so"


@pytest.mark.parametrize(
    ("now", "evidence", "effect"),
    [
        (replace(ALONE, kind=EventKind.COLD_START_ALONE), E.PEER_OUTDATED, C.REFUSE),
        (replace(ALONE, kind=EventKind.COLD_START_ALONE, data=DataMark.SOLE), E.PEER_OUTDATED, C.CLAIM),
        (replace(ALONE, kind=EventKind.COLD_START_ALONE), E.OPERATOR, C.CLAIM),
        (replace(LOST, kind=EventKind.COLD_START_ALONE), E.NONE, C.CLAIM),
        (replace(ALONE, kind=EventKind.PEER_LOST), E.PEER_OUTDATED, C.CLAIM),
    ],
)
def test_a_start_alone(now: Situation, evidence: Evidence, effect: Consequence) -> None:
    found = ruled(now, evidence=evidence)
    assert (found.effect, found.why == COLD) == (effect, effect is C.REFUSE)


def test_that_the_peer_lives_and_is_outdated_lets_a_master_go_on_and_nobody_else() -> None:
    for role in (Role.MASTER, Role.MASTER_SUSPENDED, Role.CEDING):
        assert ruled(replace(ALONE, role=role), V.PEER_ALIVE, evidence=E.PEER_OUTDATED).effect is C.CLAIM
    assert ruled(ALONE, V.PEER_ALIVE, evidence=E.PEER_OUTDATED).effect is C.WAIT
    assert ruled(replace(ALONE, role=Role.MASTER), V.PEER_ALIVE, evidence=E.OPERATOR).effect is C.WAIT


@pytest.mark.parametrize("kind", EventKind)
def test_while_the_peer_is_connected_only_what_is_about_that_is_acted_upon(kind: EventKind) -> None:
    found = ruled(replace(LOST, kind=kind, connected=True, role=Role.MASTER), V.CONTINUE_AS_MASTER)
    expected = {
        EventKind.PEER_SLOW: C.CLAIM,
        EventKind.LOCAL_FAULT: C.CLAIM,
        EventKind.DIVERGENCE: C.WAIT,
        EventKind.PREFLIGHT: C.WAIT,
    }
    assert found.effect is expected.get(kind, C.DROP)

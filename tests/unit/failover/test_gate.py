"""R127-R130: what a verdict may do, over every combination of answer and situation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest

from failover.classifier import Answer, EventKind, Evidence, SafetyClass, Verdict
from failover.gate import MASTERS, PROOF, Consequence, Ruling, Situation, rule
from failover.marks import DataMark, Role


def answers() -> Iterator[Answer]:
    for verdict, evidence in product((None, *Verdict), Evidence):
        yield Answer("e", 3, verdict, "r", evidence)


def situations() -> Iterator[Situation]:
    flags = product((False, True), repeat=6)
    roles = (Role.MASTER, Role.MASTER_SUSPENDED, Role.CEDING, Role.REPLICA, Role.PROBE, Role.DIVERGED)
    marks = (DataMark.IN_SYNC, DataMark.SOLE, DataMark.STALE, DataMark.SYNCING)
    for connected, authority, readable, accept, paused, flapping in flags:
        for kind, role, data, safety in product(EventKind, roles, marks, SafetyClass):
            yield Situation(kind, 3, role, data, connected, authority, readable, safety, accept, paused, flapping)


class Ruled(NamedTuple):
    """Of all answers in all situations, which are too many to keep."""

    claims: list[tuple[Answer, Situation, Ruling]]
    misjudged_failures: list[tuple[Answer, Situation]]
    without_words: list[tuple[Answer, Situation]]


@pytest.fixture(scope="module")
def ruled() -> Ruled:
    found = Ruled([], [], [])
    given = list(answers())
    for now in situations():
        acts = now.kind not in (EventKind.DIVERGENCE, EventKind.PREFLIGHT)
        for answer in given:
            ruling = rule(answer, now)
            if ruling.lets_claim:
                found.claims.append((answer, now, ruling))
            if (ruling.effect is Consequence.FAIL) != (answer.verdict is Verdict.FAILED_INSTANCE and acts):
                found.misjudged_failures.append((answer, now))
            if not ruling.why:
                found.without_words.append((answer, now))
    return found


@pytest.mark.slow
def test_what_lets_a_member_claim(ruled: Ruled) -> None:
    assert ruled.claims
    for answer, now, ruling in ruled.claims:
        assert answer.verdict in (Verdict.CONTINUE_AS_MASTER, Verdict.ASSUME_MASTERSHIP, Verdict.PEER_ALIVE)
        if answer.verdict is Verdict.ASSUME_MASTERSHIP:
            assert now.role in (Role.REPLICA, Role.PROBE), now
            assert now.data.is_good, now
        else:
            assert now.role in MASTERS, now
        if answer.verdict is Verdict.PEER_ALIVE:
            assert answer.evidence is Evidence.PEER_OUTDATED
        assert not now.connected or now.kind in (EventKind.PEER_SLOW, EventKind.LOCAL_FAULT)
        assert not now.paused or answer.evidence is Evidence.OPERATOR
        assert now.kind not in (EventKind.DIVERGENCE, EventKind.PREFLIGHT)
        second = (now.has_authority and now.authority_readable) or answer.evidence in PROOF
        leased = answer.evidence is Evidence.LEASE and now.safety is SafetyClass.A
        second |= not now.has_authority and (leased or (now.accept_unproven and not now.flapping))
        assert second, (answer, now, "one signature is not enough")
        assert (ruling.effect is Consequence.CLAIM_UNRECORDED) == (now.has_authority and not now.authority_readable)


def test_the_failed_instance_is_always_believed(ruled: Ruled) -> None:
    assert ruled.misjudged_failures == []


def test_every_refusal_says_why(ruled: Ruled) -> None:
    assert ruled.without_words == []


def test_an_answer_about_another_link_generation_has_no_effect() -> None:
    for now in situations():
        late = Answer("e", 2, Verdict.FAILED_INSTANCE, evidence=Evidence.OPERATOR)
        assert rule(late, now).effect is Consequence.DROP


@pytest.mark.parametrize("kind", [EventKind.COLD_START_ALONE, EventKind.PEER_LOST, EventKind.AUTHORITY_LOST])
@pytest.mark.parametrize("data", [DataMark.IN_SYNC, DataMark.SOLE])
@pytest.mark.parametrize("evidence", PROOF)
def test_that_the_peer_is_off_now_says_nothing_of_what_it_did_alone(
    kind: EventKind, data: DataMark, evidence: Evidence
) -> None:
    """1. A member is off, its peer goes on alone, and is switched off. 2. The authority is away. 3. The member starts,
    believes IN_SYNC, and is told that its peer has no power. What the peer acknowledged alone was gone.

    The question is asked anew once the authority counts as lost, and after each connection, however short: what counts
    is that this copy was in step when the last one ended. A peer that calls itself outdated was not ahead.
    """
    now = Situation(kind, 0, Role.PROBE, data, False, True, False, SafetyClass.A, met=False)
    ruling = rule(Answer("e", 0, Verdict.ASSUME_MASTERSHIP, "r", evidence), now)
    lets = data is DataMark.SOLE or evidence is not Evidence.PEER_POWERED_OFF
    assert ruling.effect is (Consequence.CLAIM_UNRECORDED if lets else Consequence.REFUSE)
    met = replace(now, met=True)
    assert rule(Answer("e", 0, Verdict.ASSUME_MASTERSHIP, "r", evidence), met).effect is Consequence.CLAIM_UNRECORDED

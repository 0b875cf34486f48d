"""What several answers come to: every combination for two members, tables for three; blind is unknown, not no."""

from __future__ import annotations

from itertools import product

import pytest

from failover.classifier import Answer, Evidence, SafetyClass, Verdict
from failover.tally import Vote, safety_of, tally

A, B, C = SafetyClass.A, SafetyClass.B, SafetyClass.C
GO, ASSUME, FAILED, WAIT, ALIVE = 20, 21, 22, 23, 24
BLIND = None


def votes(*verdicts: int | None) -> list[Vote]:
    answers = [
        Answer("e", 1, None if verdict is None else Verdict(verdict), f"reason{number}")
        for number, verdict in enumerate(verdicts)
    ]
    return [Vote(f"m{number}", answer) for number, answer in enumerate(answers)]


def outcome(rule: str, *verdicts: int | None) -> int | None:
    verdict = tally(rule, votes(*verdicts)).verdict
    return None if verdict is None else verdict.value


@pytest.mark.parametrize(
    ("rule", "verdicts", "expected"),
    [
        # all: everybody, and a member that saw nothing leaves it open
        ("all", (GO, GO), GO),
        ("all", (GO, BLIND), BLIND),
        ("all", (BLIND, BLIND), BLIND),
        ("all", (GO, WAIT), WAIT),
        ("all", (GO, ALIVE), WAIT),
        ("all", (GO, FAILED), WAIT),
        ("all", (WAIT, BLIND), WAIT),
        ("all", (ALIVE, ALIVE), ALIVE),
        # any: one is enough, whoever sees nothing or waits does not stop it
        ("any", (ASSUME, BLIND), ASSUME),
        ("any", (ASSUME, WAIT), ASSUME),
        ("any", (ASSUME, ALIVE), WAIT),
        ("any", (WAIT, BLIND), WAIT),
        ("any", (BLIND, BLIND), BLIND),
        ("any", (FAILED, BLIND), FAILED),
        # veto: one is enough, and whoever sees may object; a blind member does not
        ("veto", (ASSUME, BLIND), ASSUME),
        ("veto", (ASSUME, WAIT), WAIT),
        ("veto", (ASSUME, ALIVE), WAIT),
        ("veto", (WAIT, BLIND), WAIT),
        ("veto", (BLIND, BLIND), BLIND),
        # k of n
        ("2", (GO, GO, BLIND), GO),
        ("2", (GO, GO, WAIT), GO),
        ("2", (GO, GO, ALIVE), GO),
        ("2", (GO, BLIND, WAIT), BLIND),
        ("2", (GO, BLIND, BLIND), BLIND),
        ("2", (GO, ALIVE, WAIT), WAIT),
        ("2", (WAIT, WAIT, BLIND), WAIT),
        ("2", (BLIND, BLIND, WAIT), BLIND),
        ("2", (GO, GO, ALIVE, ALIVE), WAIT),
        ("1", (GO, ALIVE), WAIT),
    ],
)
def test_the_table(rule: str, verdicts: tuple[int | None, ...], expected: int | None) -> None:
    assert outcome(rule, *verdicts) == expected
    assert outcome(rule, *reversed(verdicts)) == expected


SEEN = (GO, ASSUME, FAILED, WAIT, ALIVE, BLIND)


@pytest.mark.parametrize("rule", ["all", "any", "veto", "1", "2", "3"])
def test_a_member_that_sees_nothing_neither_promotes_nor_forbids(rule: str) -> None:
    """Over all answers of three members: what stands with a blind one was given by another and stands with its consent;
    where there is no answer, its vote could have made one.
    """
    for seen in product(SEEN, repeat=2):
        with_blind = outcome(rule, *seen, BLIND)
        if with_blind not in (None, WAIT):
            assert with_blind in seen
            assert outcome(rule, *seen, with_blind) == with_blind
        if with_blind is None:
            # open, not refused: some vote of the blind member would have decided it
            assert any(outcome(rule, *seen, vote) not in (None, WAIT) for vote in SEEN if vote) or BLIND in seen


@pytest.mark.parametrize("rule", ["all", "any", "veto", "1", "2"])
def test_two_verdicts_that_both_stand_make_everybody_wait_with_the_reasons_of_each(rule: str) -> None:
    result = tally(rule, votes(ASSUME, ALIVE))
    assert result.verdict is Verdict.WAIT
    for words in ("m0: ASSUME_MASTERSHIP (reason0)", "m1: PEER_ALIVE (reason1)"):
        assert words in result.reason


def vote(name: str, verdict: int | None, evidence: Evidence, token: str = "", valid_for_ms: int = 0) -> Vote:
    value = None if verdict is None else Verdict(verdict)
    return Vote(name, Answer("e", 1, value, "r", evidence, token, valid_for_ms))


@pytest.mark.parametrize(
    ("rule", "given", "evidence", "token", "valid_for_ms"),
    [
        ("all", [(GO, Evidence.NONE, "", 0), (GO, Evidence.PEER_OUTDATED, "t", 500)], Evidence.PEER_OUTDATED, "t", 500),
        (
            "any",
            [(GO, Evidence.LEASE, "l", 900), (GO, Evidence.PEER_POWERED_OFF, "p", 0)],
            "peer_powered_off",
            "p",
            900,
        ),
        # evidence of a member that does not carry the verdict proves nothing for it
        ("any", [(GO, Evidence.NONE, "", 0), (WAIT, Evidence.PEER_OUTDATED, "t", 5)], Evidence.NONE, "", 0),
        ("any", [(GO, Evidence.NONE, "", 0), (None, Evidence.PEER_POWERED_OFF, "t", 5)], Evidence.NONE, "", 0),
        ("all", [(GO, Evidence.OPERATOR, "o", 0), (GO, Evidence.LEASE, "l", 0)], Evidence.LEASE, "l", 0),
    ],
)
def test_evidence_comes_from_those_who_carry_the_verdict(
    rule: str, given: list[tuple[int | None, Evidence, str, int]], evidence: str, token: str, valid_for_ms: int
) -> None:
    result = tally(rule, [vote(f"m{number}", *each) for number, each in enumerate(given)])
    assert result.verdict is Verdict.CONTINUE_AS_MASTER
    assert (result.evidence, result.token, result.valid_for_ms) == (evidence, token, valid_for_ms)


@pytest.mark.parametrize("rule", ["all", "any", "veto", "1", "2"])
@pytest.mark.parametrize("promotion", [GO, ASSUME])
def test_a_peer_that_lives_and_is_outdated_is_no_contradiction(rule: str, promotion: int) -> None:
    alive = vote("alt-path", ALIVE, Evidence.NONE)
    for evidence in Evidence:
        result = tally(rule, [alive, vote("other", promotion, evidence)])
        if evidence is Evidence.PEER_OUTDATED:
            assert (result.verdict, result.evidence) == (Verdict(promotion), evidence)
            assert "PEER_ALIVE" in result.reason
        else:  # even one that was powered off cannot be seen alive
            assert result.verdict is Verdict.WAIT
            assert result.evidence is Evidence.NONE


def test_waiting_carries_no_evidence_and_asks_again_as_soon_as_the_first_wants() -> None:
    answers = [Answer("e", 1, Verdict.WAIT, evidence=Evidence.OPERATOR, retry_ms=ms) for ms in (0, 900, 400)]
    result = tally("all", [Vote("m", answer) for answer in answers])
    assert (result.evidence, result.retry_ms) == (Evidence.NONE, 400)


@pytest.mark.parametrize(
    ("rule", "classes", "expected"),
    [
        ("all", (A, C), A),  # nothing without the member of class A
        ("all", (B, C), B),
        ("any", (A, C), C),
        ("veto", (A, B), B),
        ("1", (A, B), B),
        ("2", (A, B, C), B),  # B and C may be the two
        ("2", (A, A, C), A),  # any two have one of class A
        ("3", (A, B, C), A),
    ],
)
def test_the_class_is_that_of_the_members_it_needs_in_the_worst_case(
    rule: str, classes: tuple[SafetyClass, ...], expected: SafetyClass
) -> None:
    assert safety_of(rule, classes) is expected


@pytest.mark.parametrize(
    ("rule", "verdicts", "why"),
    [
        ("all", (GO, ALIVE), "the answers contradict each other"),
        ("any", (ASSUME, ALIVE), "the answers contradict each other"),
        ("2", (GO, GO, ALIVE, ALIVE), "the answers contradict each other"),
        ("veto", (ASSUME, WAIT), "a member objects"),
        ("2", (GO, BLIND, WAIT), "not enough members could see"),
        ("2", (GO, ALIVE, WAIT), "not enough members agree"),
        ("any", (WAIT, WAIT), "nobody decides"),
    ],
)
def test_who_waits_says_why(rule: str, verdicts: tuple[int | None, ...], why: str) -> None:
    assert why in tally(rule, votes(*verdicts)).reason

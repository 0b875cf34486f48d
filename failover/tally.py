"""Decides what several classifiers' answers come to together; it never asks one.

A member without a verdict is unknown. It is not a "no", and it is not a "yes": it is left out, and where its vote could
still change the outcome there is no answer either (pair-protocol.md 4.4). Verdicts other than WAIT are sightings; two
different ones contradict each other, and then everybody waits, with the reasons of each.

    rule    a verdict stands when                                     otherwise
    ------  --------------------------------------------------------  -------------------------------------------
    all     every member gives it                                     a member differs: WAIT; one is unknown: none
    any     a member gives it and no other verdict but WAIT is given  contradiction or WAIT: WAIT; none known: none
    veto    as any, and nobody says WAIT                              as any
    k       k members give it and no other verdict has k              could still be k with the unknown: none; else WAIT

That the peer lives (24) does not contradict a 20 or 21 whose evidence is that the peer has outdated itself: it counts
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from failover.classifier import Answer, Evidence, SafetyClass, Verdict

RULES = ("all", "any", "veto")
# Weakest first. What switches the peer off or marks its copy excludes it; the others are somebody's word.
STRENGTH = (Evidence.NONE, Evidence.OPERATOR, Evidence.LEASE, Evidence.PEER_OUTDATED, Evidence.PEER_POWERED_OFF)
PROMOTIONS = (Verdict.CONTINUE_AS_MASTER, Verdict.ASSUME_MASTERSHIP)
REASON_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Vote:
    """What one member said; `answer.verdict` None = unknown."""

    member: str
    answer: Answer

    @property
    def is_sighting(self) -> bool:
        """It says something about who lives."""
        return self.answer.verdict not in (None, Verdict.WAIT)


@dataclass(frozen=True, slots=True)
class Tally:
    """The outcome, and on whose word it rests."""

    verdict: Verdict | None
    reason: str
    evidence: Evidence = Evidence.NONE
    token: str = ""
    valid_for_ms: int = 0
    retry_ms: int = 0


def safety_of(rule: str, classes: Sequence[SafetyClass]) -> SafetyClass:
    """What a promotion under this rule rests on at least: the safest of the members that it needs, at worst."""
    worst_first = sorted(classes, key=lambda each: each.value, reverse=True)
    return worst_first[_needed(rule, len(classes)) - 1]


def tally(rule: str, votes: Sequence[Vote]) -> Tally:
    """One outcome for all answers. `votes` has one entry for each member."""
    votes = _reconciled(votes)
    sightings = {vote.answer.verdict for vote in votes if vote.is_sighting}
    unknown = [vote for vote in votes if vote.answer.verdict is None]
    needed = _needed(rule, len(votes))
    by_verdict = {
        verdict: [vote for vote in votes if vote.answer.verdict is verdict]
        for verdict in Verdict
        if verdict in sightings
    }
    standing = [verdict for verdict, carriers in by_verdict.items() if len(carriers) >= needed]
    if len(standing) > 1 or (not rule.isdecimal() and len(sightings) > 1):
        return _wait(votes, "the answers contradict each other")
    objecting = rule == "veto" and any(vote.answer.verdict is Verdict.WAIT for vote in votes)
    if standing and not objecting:
        return _carried(standing[0], by_verdict[standing[0]], votes)
    if objecting:
        return _wait(votes, "a member objects")
    most = max((len(carriers) for carriers in by_verdict.values()), default=0)
    could_stand = most + len(unknown) >= needed if needed > 1 else len(unknown) == len(votes)
    if could_stand:
        return Tally(None, _said(votes, "not enough members could see"))
    return _wait(votes, "not enough members agree" if sightings else "nobody decides")


def _reconciled(votes: Sequence[Vote]) -> Sequence[Vote]:
    """A peer that lives and is outdated is harmless: the votes that saw it alive go to the verdict with that proof."""
    proven = {
        vote.answer.verdict
        for vote in votes
        if vote.answer.verdict in PROMOTIONS and vote.answer.evidence is Evidence.PEER_OUTDATED
    }
    if len(proven) != 1:
        return votes
    (verdict,) = proven
    return [
        Vote(vote.member, replace(vote.answer, verdict=verdict, reason=f"PEER_ALIVE: {vote.answer.reason}"))
        if vote.answer.verdict is Verdict.PEER_ALIVE
        else vote
        for vote in votes
    ]


def _needed(rule: str, count: int) -> int:
    if rule == "all":
        return count
    return min(max(int(rule), 1), count) if rule.isdecimal() else 1


def _carried(verdict: Verdict, carriers: Sequence[Vote], votes: Sequence[Vote]) -> Tally:
    """Evidence counts only from a member that gives this verdict; of those, the strongest is a fact by itself."""
    best = max(carriers, key=lambda vote: STRENGTH.index(vote.answer.evidence)).answer
    limits = [vote.answer.valid_for_ms for vote in carriers if vote.answer.valid_for_ms]
    return Tally(verdict, _said(votes), best.evidence, best.token, min(limits, default=0))


def _wait(votes: Sequence[Vote], why: str) -> Tally:
    retries = [vote.answer.retry_ms for vote in votes if vote.answer.retry_ms]
    return Tally(Verdict.WAIT, _said(votes, why), retry_ms=min(retries, default=0))


def _said(votes: Sequence[Vote], why: str = "") -> str:
    words = [
        f"{vote.member}: {vote.answer.verdict.name if vote.answer.verdict else 'unknown'}"
        + (f" ({vote.answer.reason})" if vote.answer.reason else "")
        for vote in votes
    ]
    return (f"{why}: " if why else "")[:REASON_CHARS_MAX] + "; ".join(words)[:REASON_CHARS_MAX]

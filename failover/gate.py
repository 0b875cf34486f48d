"""Decides what a verdict may do, given what this member knows by itself; it never asks for one and never claims.

A classifier is somebody else's code. Whatever it says, an effect needs two signatures: this member's own, and the
register's, or proof that the peer cannot promote, or an operator's word (pair-protocol.md 4.3 and 4.4). Rules in the
order in which they are tried; the first that fits decides:

    answer                          situation                                     ruling
    ------------------------------  --------------------------------------------  ----------------------------
    any                             another link generation                       DROP
    none                            any                                           WAIT
    any                             event DIVERGENCE or PREFLIGHT                 WAIT
    22                              any                                           FAIL
    any but 22                      the peer is connected, and the event is of    DROP
                                    its loss
    not an operator's               automation is paused                          WAIT
    23                              any                                           WAIT
    24                              master with proof that the peer is outdated   as 20
    24                              anything else                                 WAIT
    20                              was not master                                REFUSE
    21                              was not replica, or its copy is not good      REFUSE
    21                              cold start with a copy IN_SYNC, no authority  REFUSE unless an operator's
    20, 21                          authority answers                             CLAIM
    20, 21                          authority is away; the peer has no power,     REFUSE
                                    a copy IN_SYNC not in step at the loss
    20, 21                          authority is away; operator or proof          CLAIM_UNRECORDED
    20, 21                          authority is away; neither                    WAIT
    20, 21                          no authority; operator or proof, or class A   CLAIM
                                    with a lease
    20, 21                          no authority; no proof, not accepted          WAIT
    20, 21                          no authority; no proof, too many changes      WAIT
    20, 21                          no authority; no proof, accepted              CLAIM
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from failover.classifier import CONNECTED_KINDS, Answer, EventKind, Evidence, SafetyClass, Verdict
from failover.marks import DataMark, Role

PROOF = (Evidence.PEER_OUTDATED, Evidence.PEER_POWERED_OFF, Evidence.OPERATOR)
MASTERS = (Role.MASTER, Role.MASTER_SUSPENDED, Role.CEDING)

BOTH_AWAY = (
    "the peer is lost and the authority cannot be asked: nobody may go on alone without it. Bring one of them back, or "
    "make sure that the peer is down and has not served alone since the link broke, and say so: tandemq pair decide"
)
UNMET = (
    "not in step with the peer when it was lost: this copy may be outdated, and the authority is away. Bring it back, "
    "or make sure that the peer has not served alone, and say so: tandemq pair decide"
)
UNPROVEN = (
    "there is no authority, and without failover.accept_unproven an operator must confirm it: tandemq pair decide"
)


class Consequence(StrEnum):
    """What an answer may do."""

    CLAIM = "claim"  # ask the register for a solo epoch; its compare-and-set decides
    CLAIM_UNRECORDED = "claim unrecorded"  # serve alone now, record it when the authority is back
    FAIL = "fail"  # end this process
    WAIT = "wait"
    REFUSE = "refuse"  # the verdict does not fit what this member is: wait, and say so
    DROP = "drop"  # the answer is about another moment


@dataclass(frozen=True, slots=True)
class Ruling:
    """What an answer does, and why, as the operator reads it."""

    effect: Consequence
    why: str
    by: str = ""
    retry_ms: int = 0

    @property
    def lets_claim(self) -> bool:
        """Whether this member may go on alone."""
        return self.effect in (Consequence.CLAIM, Consequence.CLAIM_UNRECORDED)


@dataclass(frozen=True, slots=True)
class Situation:
    """What this member knows of itself when the answer arrives."""

    kind: EventKind
    link_generation: int
    role: Role  # held when the link was lost
    data: DataMark
    connected: bool
    has_authority: bool
    authority_readable: bool
    safety: SafetyClass  # of the classifier that answered
    accept_unproven: bool = False
    paused: bool = False
    flapping: bool = False  # too many changes of role without an authority
    met: bool = True  # was master, or a replica in step, when the connection ended


def rule(answer: Answer, situation: Situation) -> Ruling:
    """What this answer may do in this situation."""
    effect, why = _rule(answer, situation)
    return Ruling(effect, why, answer.by, answer.retry_ms)


def _rule(answer: Answer, now: Situation) -> tuple[Consequence, str]:
    verdict, by_operator = answer.verdict, answer.evidence is Evidence.OPERATOR
    if answer.link_generation != now.link_generation:
        return Consequence.DROP, "the answer is about an earlier loss of the peer"
    if verdict is None:
        return Consequence.WAIT, f"no answer: {answer.reason}"
    if now.kind in (EventKind.DIVERGENCE, EventKind.PREFLIGHT):
        return Consequence.WAIT, "answers to this event are recorded, never acted upon"
    if verdict is Verdict.FAILED_INSTANCE:
        return Consequence.FAIL, answer.reason or "this member is the failed instance"
    if now.connected and now.kind not in CONNECTED_KINDS:
        return Consequence.DROP, "the peer is back"
    if now.paused and not by_operator:
        return Consequence.WAIT, "automatic changes of role are paused here (tandemq pair resume)"
    if verdict is Verdict.WAIT:
        return Consequence.WAIT, answer.reason or "the classifier says wait"
    if verdict is Verdict.PEER_ALIVE:
        if now.role not in MASTERS or answer.evidence is not Evidence.PEER_OUTDATED:
            return Consequence.WAIT, answer.reason or "the peer is alive behind a broken link: mend the link"
        verdict = Verdict.CONTINUE_AS_MASTER
    misfit = _misfit(verdict, now, by_operator=by_operator)
    if misfit:
        return Consequence.REFUSE, misfit
    return _second_signature(answer, now)


def _misfit(verdict: Verdict, now: Situation, *, by_operator: bool) -> str:
    """Why the verdict cannot be meant for this member; empty when it can."""
    if verdict is Verdict.CONTINUE_AS_MASTER:
        return "" if now.role in MASTERS else f"ordered to continue as master, but it was {now.role.name}"
    if now.role not in (Role.REPLICA, Role.PROBE):
        return f"ordered to assume the mastership, but it was {now.role.name}"
    if not now.data.is_good:
        return f"ordered to assume the mastership, but its copy is {now.data.name}: it may lack acknowledged operations"
    cold = now.kind is EventKind.COLD_START_ALONE and now.data is not DataMark.SOLE
    if cold and not now.has_authority and not by_operator:
        # A member that was switched off comes back believing IN_SYNC, whatever the other did since.
        return "started alone with a copy that may be outdated, and no authority to ask: an operator must say so"
    return ""


def _second_signature(answer: Answer, now: Situation) -> tuple[Consequence, str]:
    proven = answer.evidence in PROOF
    if now.has_authority:
        if now.authority_readable:
            return Consequence.CLAIM, answer.reason or "the register decides"
        if answer.evidence is Evidence.PEER_POWERED_OFF and not now.met and now.data is not DataMark.SOLE:
            # That the peer is off now says nothing of what it acknowledged alone before.
            return Consequence.REFUSE, UNMET
        if proven:
            return Consequence.CLAIM_UNRECORDED, f"the authority is away; {answer.evidence.value}: {answer.reason}"
        return Consequence.WAIT, BOTH_AWAY
    # A class is what a classifier says of itself; without an authority only evidence makes an answer of class A one.
    leased = answer.evidence is Evidence.LEASE and now.safety is SafetyClass.A
    if proven or leased:
        return Consequence.CLAIM, answer.reason or "proven"
    if not now.accept_unproven:
        return Consequence.WAIT, f"the classifier is of class {now.safety.value}; {UNPROVEN}"
    if now.flapping:
        return (
            Consequence.WAIT,
            "too many changes of role in a short time without an authority: an operator must decide",
        )
    return Consequence.CLAIM, answer.reason or f"accepted, class {now.safety.value}"

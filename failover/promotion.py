"""Decides whether a member without a role in a domain waits, follows or claims; it never asks the register itself.

For a member in PROBE, and for a master that lost its peer. The register's compare-and-set lets at most one claim
through whatever is decided here; this table sees to it that a member which lacks acknowledged data never asks, and that
of two connected members one asks and the other does not (P8). Rules in the order in which they are tried:

    register     connected  further facts                           who                            decision
    -----------  ---------  --------------------------------------  -----------------------------  ------------
    any          yes        the peer says MASTER                    this one                       FOLLOW
    unreadable   any        -                                       both                           WAIT
    any          yes        the peer's HELLO is not here yet        this one                       WAIT
    blank        no         -                                       both                           WAIT, operator
    blank        yes        both EMPTY                              lower name / the other         CLAIM {self} / WAIT
    blank        yes        one or both good, best copy is known    the best copy / the other      CLAIM {self} / WAIT
    blank        yes        anything else                           both                           WAIT, operator
    known        yes        both eligible                           the holder named / the other   CLAIM {both} / WAIT
    known        yes        one eligible                            it / the other                 CLAIM {self} / WAIT
    known        yes        none eligible                           both                           WAIT
    known        no         not lost yet; or a young claim          this one                       WAIT
    known        no         lost and eligible / not eligible        this one                       CLAIM {self} / WAIT

blank: the register vouches for nobody. eligible: a good data mark and member of the committed set (P5). Best copy: the
highest epoch; in the same epoch SOLE before IN_SYNC, then the lower name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from failover.marks import DataMark
from failover.register import Register

REPLICA_BIAS_MS = 300  # the old master's head start (ruling 9); above one register call on a healthy network
YOUNG_CLAIM_MS = 1_000  # P8: a claim of the other member is left alone for as long as a claimant needs to commit it
RETRY_MS, RETRY_MS_MAX = 200, 3_200
assert REPLICA_BIAS_MS < YOUNG_CLAIM_MS


class Why(StrEnum):
    """Reason of a decision, as the operator reads it."""

    PEER_IS_MASTER = "the peer is master: wait for its SYNC"
    REGISTER_UNREADABLE = "the register cannot be read: nobody may become master without it"
    PEER_UNKNOWN = "connected, but the peer has not said yet what it holds"
    BLANK_ALONE = (
        "the register is empty (new or wiped) and the peer is not connected: connect both members, "
        "or let an operator force this one, stating the epoch"
    )
    FORMATION = "both members are empty: the lower name initialises the domain"
    FORMATION_OTHER = "both members are empty: the peer has the lower name and initialises the domain"
    BLANK_BEST_COPY = "the register is empty, both members are connected and this one has the best copy"
    BLANK_OTHER_COPY = "the register is empty, both members are connected and the peer has the best copy"
    BLANK_UNCLEAR = (
        "the register is empty and the two copies do not show which is current: an operator must compare them "
        "and force one, stating the epoch"
    )
    NAMED_HOLDER = "the register names this member and it may be master"
    NAMED_OTHER = "the register names the peer and it may be master"
    OTHER_NOT_ELIGIBLE = "only this member holds everything that was acknowledged"
    ONLY_PEER_ELIGIBLE = "only the peer holds everything that was acknowledged"
    NONE_ELIGIBLE = "no connected member is known to hold everything that was acknowledged: an operator must choose"
    NOT_LOST_YET = "the peer is silent but not lost"
    YOUNG_CLAIM = "the peer has just claimed: leave it the time to commit"
    PEER_LOST = "the peer is lost and this member holds everything that was acknowledged"
    NOT_ELIGIBLE = "this member may lack acknowledged operations: wait for the peer or an operator"


@dataclass(frozen=True, slots=True)
class Facts:
    """What one member knows of one domain at one moment; of the peer, what its newest HELLO here said (P12)."""

    member: str
    peer: str
    data: DataMark
    peer_connected: bool
    peer_role_master: bool  # meaningless unless connected
    peer_data: DataMark | None  # None = no HELLO yet
    register: Register | None  # None = unreadable
    peer_lost: bool  # a verdict is allowed: the lost timer has passed, or the link was reset and the reconnect refused
    epoch: int = 0  # own durable one; with peer_epoch it tells two good copies apart when the register is blank
    peer_epoch: int = 0
    young_claim: bool = False  # the register is a claim of the peer that was first seen less than YOUNG_CLAIM_MS ago

    def __post_init__(self) -> None:
        assert self.member != self.peer


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until a fact changes."""

    reason: Why


@dataclass(frozen=True, slots=True)
class Follow:
    """The peer is master; its SYNC comes."""

    reason: Why


@dataclass(frozen=True, slots=True)
class Claim:
    """Ask the register for a new epoch (next_epoch) with exactly this in-sync set."""

    members: frozenset[str]
    reason: Why


Decision: TypeAlias = Wait | Follow | Claim


def decide(facts: Facts) -> Decision:
    """The table of this module. Total: every combination of facts has exactly one answer."""
    if facts.peer_connected and facts.peer_role_master:
        return Follow(Why.PEER_IS_MASTER)
    if facts.register is None:
        return Wait(Why.REGISTER_UNREADABLE)
    if facts.peer_connected:
        if facts.peer_data is None:
            return Wait(Why.PEER_UNKNOWN)
        if facts.register.vouches_for_nobody:
            return _decide_blank(facts, facts.peer_data)
        return _decide_together(facts, facts.register, facts.peer_data)
    if facts.register.vouches_for_nobody:
        return Wait(Why.BLANK_ALONE)
    return _decide_alone(facts, facts.register)


def next_epoch(register: Register | None, own_epoch: int, promised_epoch: int, peer_epoch: int) -> int:
    """P4: above everything that anyone may have used, never own + 1. The register is None only in a handoff (P18)."""
    return 1 + max(register.epoch if register else 0, own_epoch, promised_epoch, peer_epoch)


def claim_delay_ms(role_is_master: bool, link_reset_and_refused: bool, bias_ms: int = REPLICA_BIAS_MS) -> int:
    """How long after "lost" the claim may leave (ruling 9): the loaded side goes first unless it is plainly gone."""
    return 0 if role_is_master or link_reset_and_refused else bias_ms


def retry_delay_ms(attempt: int, jitter: float, *, role_was_master: bool, bias_ms: int = REPLICA_BIAS_MS) -> int:
    """How long a member waits after a claim that failed (P8): doubled, jittered by 0 <= jitter < 1, biased.

    Two claimants that cannot see each other would else replace each other's claims in step, for ever.
    """
    assert attempt >= 1
    assert 0 <= jitter < 1
    step_ms = min(RETRY_MS << min(attempt - 1, 16), RETRY_MS_MAX)
    return step_ms + int(step_ms * jitter) + (0 if role_was_master else bias_ms)


def _is_eligible(member: str, data: DataMark, register: Register) -> bool:
    # P5: both halves. A mark alone is what a member believed when it last ran; the set alone says nothing of its disk.
    return data.is_good and member in register.eligible_set


def _decide_blank(facts: Facts, peer_data: DataMark) -> Decision:
    alone = frozenset({facts.member})
    if facts.data is DataMark.EMPTY and peer_data is DataMark.EMPTY:  # ruling 4
        if facts.member < facts.peer:
            return Claim(alone, Why.FORMATION)
        return Wait(Why.FORMATION_OTHER)
    if DataMark.DAMAGED in (facts.data, peer_data):
        return Wait(Why.BLANK_UNCLEAR)  # what is damaged may be the only copy of something, and can be salvaged
    # A member that served alone left the other behind with a mark IN_SYNC that is out of date, and only the register
    # knew. Its epoch is higher then: a removal takes a new one.
    own = (facts.epoch, facts.data is DataMark.SOLE)
    other = (facts.peer_epoch, peer_data is DataMark.SOLE)
    if facts.data.is_good and peer_data.is_good:
        if own == other and facts.data is DataMark.SOLE:
            return Wait(Why.BLANK_UNCLEAR)  # two owners of one epoch
        own_is_best = own > other or (own == other and facts.member < facts.peer)
    elif facts.data.is_good and facts.epoch >= facts.peer_epoch:
        own_is_best = True
    elif peer_data.is_good and facts.peer_epoch >= facts.epoch:
        own_is_best = False
    else:
        return Wait(Why.BLANK_UNCLEAR)
    return Claim(alone, Why.BLANK_BEST_COPY) if own_is_best else Wait(Why.BLANK_OTHER_COPY)


def _decide_together(facts: Facts, register: Register, peer_data: DataMark) -> Decision:
    own = _is_eligible(facts.member, facts.data, register)
    other = _is_eligible(facts.peer, peer_data, register)
    if own and other:
        # P8: one rule read from one place; "longer log" ran epochs up, "newer HELLO" left both waiting. Should the
        # register name a stranger, the lower name goes first.
        named = register.holder if register.holder in (facts.member, facts.peer) else min(facts.member, facts.peer)
        if named == facts.member:
            return Claim(frozenset({facts.member, facts.peer}), Why.NAMED_HOLDER)  # P9: the set is kept
        return Wait(Why.NAMED_OTHER)
    if own:
        return Claim(frozenset({facts.member}), Why.OTHER_NOT_ELIGIBLE)  # P9: itself; the peer is added once it has all
    return Wait(Why.ONLY_PEER_ELIGIBLE if other else Why.NONE_ELIGIBLE)


def _decide_alone(facts: Facts, register: Register) -> Decision:
    if not _is_eligible(facts.member, facts.data, register):
        return Wait(Why.NOT_ELIGIBLE)
    if not facts.peer_lost:
        return Wait(Why.NOT_LOST_YET)
    if facts.young_claim and register.holder == facts.peer:
        return Wait(Why.YOUNG_CLAIM)
    return Claim(frozenset({facts.member}), Why.PEER_LOST)

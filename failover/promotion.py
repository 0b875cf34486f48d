"""Decides whether a member without a role in a domain waits, follows or claims; it never asks the register itself.

For a member in PROBE, and for a master that lost its peer. The register's compare-and-set lets at most one claim
through whatever is decided here; the table sees to it that a member which lacks acknowledged data never asks, and that
of two connected members one asks and the other does not (P8).

`TABLE` is the rule itself: facts become a few words (`words_of`), and the first row whose words all fit decides. The
table in docs/PROTOCOL.md is rendered from it. Eligible: a good data mark and member of the committed set (P5). Ends:
whose log holds more (`failover.log_end`, P20). Best copy: the highest epoch; in the same epoch SOLE before IN_SYNC; of
two that are IN_SYNC the longer log; then the lower name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from failover.log_end import UNKNOWN_END, Ends, LogEnd, compare
from failover.marks import DataMark
from failover.register import EPOCH_LAST, Register

REPLICA_BIAS_MS = 300  # the old master's head start (ruling 9); above one register call on a healthy network
YOUNG_CLAIM_MS = 1_000  # P8: a claim of the other member is left alone for as long as a claimant needs to commit it
RETRY_MS, RETRY_MS_MAX = 200, 3_200
UNRECORDED_STEP = 1_024
"""Epochs fit 23 bits of a lease id: thousands of unrecorded ones, each followed by a thousand ordinary ones."""
EPOCHS_FEW = 1 << 17
"""With fewer left each new epoch is an event of its own: months to move to a new pair in."""
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
    OWN_LONGER = "both copies may serve, and the one here holds more: it goes first"
    PEER_LONGER = "both copies may serve, and the peer's holds more: the peer goes first"
    ENDS_DIFFER = (
        "the two copies hold different operations under one number: an operator must compare them and force one"
    )
    OTHER_NOT_ELIGIBLE = "only this member holds everything that was acknowledged"
    ONLY_PEER_ELIGIBLE = "only the peer holds everything that was acknowledged"
    NONE_ELIGIBLE = "no connected member is known to hold everything that was acknowledged: an operator must choose"
    NOT_MET_YET = "this member has just started and the peer holds everything too: it is given time to start as well"
    NOT_LOST_YET = "the peer is silent but not lost"
    YOUNG_CLAIM = "the peer has just claimed: leave it the time to commit"
    NO_VERDICT = "the peer is lost; nobody has said yet which member lives"
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
    peer_lost: bool  # the lost timer has passed, or the link was reset and the reconnect refused
    epoch: int = 0  # own durable one; with peer_epoch it orders two good copies when the register is blank
    peer_epoch: int = 0
    not_met: bool = False  # this process started lately, has not met the peer, and the committed set has both
    verdict_lets: bool = True  # the ruling on this loss lets this member go on alone (failover.gate)
    end: LogEnd = UNKNOWN_END  # of the own log
    peer_end: LogEnd = UNKNOWN_END  # of the peer's, as its newest HELLO says
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


class Then(StrEnum):
    """What a row says."""

    WAIT = "WAIT"
    FOLLOW = "FOLLOW"
    CLAIM_SELF = "CLAIM {self}"
    CLAIM_BOTH = "CLAIM {both}"


class PromotionRow(NamedTuple):
    """One rule: fits when each of its words is the one that the facts give; a word not named may be any."""

    when: dict[str, str]
    then: Then
    why: Why


TABLE: tuple[PromotionRow, ...] = (
    PromotionRow({"peer": "master"}, Then.FOLLOW, Why.PEER_IS_MASTER),
    PromotionRow({"register": "unreadable"}, Then.WAIT, Why.REGISTER_UNREADABLE),
    PromotionRow({"peer": "no HELLO yet"}, Then.WAIT, Why.PEER_UNKNOWN),
    # The register vouches for nobody: new, wiped, or a first claim that was never committed (ruling 4).
    PromotionRow({"register": "blank", "peer": "away"}, Then.WAIT, Why.BLANK_ALONE),
    PromotionRow({"register": "blank", "copies": "both empty", "lower name": "self"}, Then.CLAIM_SELF, Why.FORMATION),
    PromotionRow({"register": "blank", "copies": "both empty", "lower name": "peer"}, Then.WAIT, Why.FORMATION_OTHER),
    PromotionRow({"register": "blank", "copies": "own is best"}, Then.CLAIM_SELF, Why.BLANK_BEST_COPY),
    PromotionRow({"register": "blank", "copies": "peer's is best"}, Then.WAIT, Why.BLANK_OTHER_COPY),
    PromotionRow({"register": "blank"}, Then.WAIT, Why.BLANK_UNCLEAR),
    # Both are connected. P20: what only one copy holds may be acknowledged, for a disk may have lost its last writes.
    PromotionRow({"peer": "here", "eligible": "both", "ends": "different"}, Then.WAIT, Why.ENDS_DIFFER),
    PromotionRow({"peer": "here", "eligible": "both", "ends": "own is longer"}, Then.CLAIM_BOTH, Why.OWN_LONGER),
    PromotionRow({"peer": "here", "eligible": "both", "ends": "peer's is longer"}, Then.WAIT, Why.PEER_LONGER),
    # P8: one rule read from one place; a log made longer by claims ran epochs up, "newer HELLO" left both waiting.
    PromotionRow(
        {"peer": "here", "eligible": "both", "named": "self"}, Then.CLAIM_BOTH, Why.NAMED_HOLDER
    ),  # P9: the set is kept
    PromotionRow({"peer": "here", "eligible": "both", "named": "peer"}, Then.WAIT, Why.NAMED_OTHER),
    PromotionRow(
        {"peer": "here", "eligible": "self"}, Then.CLAIM_SELF, Why.OTHER_NOT_ELIGIBLE
    ),  # P9: the peer is added later
    PromotionRow({"peer": "here", "eligible": "peer"}, Then.WAIT, Why.ONLY_PEER_ELIGIBLE),
    PromotionRow({"peer": "here", "eligible": "none"}, Then.WAIT, Why.NONE_ELIGIBLE),
    # Alone.
    PromotionRow({"eligible": "none"}, Then.WAIT, Why.NOT_ELIGIBLE),
    # P20: after a fault that stopped both, the copy that starts first may be the one that lost its last writes.
    PromotionRow({"lost": "not met"}, Then.WAIT, Why.NOT_MET_YET),
    PromotionRow({"lost": "no"}, Then.WAIT, Why.NOT_LOST_YET),
    PromotionRow({"verdict": "wait"}, Then.WAIT, Why.NO_VERDICT),
    PromotionRow({"young claim": "yes"}, Then.WAIT, Why.YOUNG_CLAIM),
    PromotionRow({}, Then.CLAIM_SELF, Why.PEER_LOST),
)


def words_of(facts: Facts) -> dict[str, str]:
    """The facts as the table reads them."""
    register = facts.register
    return {
        "peer": _peer_word(facts),
        "register": "unreadable" if register is None else "blank" if register.vouches_for_nobody else "known",
        "copies": _copies_word(facts),
        "lower name": "self" if facts.member < facts.peer else "peer",
        "eligible": _eligible_word(facts),
        "ends": compare(facts.end, facts.peer_end).value,
        "named": named_word(facts),
        "lost": "not met" if facts.not_met else "yes" if facts.peer_lost else "no",
        "verdict": "claim" if facts.verdict_lets else "wait",
        "young claim": "yes" if register and facts.young_claim and register.holder == facts.peer else "no",
    }


def row_of(facts: Facts) -> PromotionRow:
    """The first row that fits. Total: the last one always does."""
    words = words_of(facts).items()
    return next(row for row in TABLE if row.when.items() <= words)


def decide(facts: Facts) -> Decision:
    """What the table says."""
    row = row_of(facts)
    if row.then is Then.FOLLOW:
        return Follow(row.why)
    if row.then is Then.WAIT:
        return Wait(row.why)
    members = {facts.member} if row.then is Then.CLAIM_SELF else {facts.member, facts.peer}
    return Claim(frozenset(members), row.why)


def next_epoch(register: Register | None, own_epoch: int, promised_epoch: int, peer_epoch: int) -> int:
    """P4: above everything that anyone may have used, never own + 1. The register is None only in a handoff (P18)."""
    return 1 + max(register.epoch if register else 0, own_epoch, promised_epoch, peer_epoch)


def unrecorded_epoch(above: int, member: str, peer: str) -> int:
    """A number for an epoch that one member starts alone without the register, or in one that has lost its records;
    `above` being next_epoch.

    The other member may be starting one too, or have started some in the register since they last met: the number is
    far ahead, and differs by member, so that two histories never give one name to two operations.
    """
    return (above // UNRECORDED_STEP + 1) * UNRECORDED_STEP + (1 if member < peer else 2)


def no_epoch_left(epoch: int) -> str:
    """Why that epoch cannot be, in an operator's words; empty: it can. Wrapped round it would be an old one (P4)."""
    if epoch <= EPOCH_LAST:
        return ""
    return (
        f"no epoch is left: {epoch} would be next, and {EPOCH_LAST} is the last one. Nothing is lost, but the master "
        "changes no more: move the queues to a new pair (docs/OPERATIONS.md, The last epoch)"
    )


def few_epochs_left(epoch: int) -> str:
    """That the end comes near, once it does; else empty."""
    left = EPOCH_LAST - epoch
    if left >= EPOCHS_FEW:
        return ""
    return f"{left} epochs are left: move the queues to a new pair in time (docs/OPERATIONS.md, The last epoch)"


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


def _peer_word(facts: Facts) -> str:
    if not facts.peer_connected:
        return "away"
    if facts.peer_role_master:
        return "master"
    return "no HELLO yet" if facts.peer_data is None else "here"


def _eligible_word(facts: Facts) -> str:
    own = is_eligible(facts.member, facts.data, facts.register)
    other = facts.peer_connected and is_eligible(facts.peer, facts.peer_data, facts.register)
    if own and other and facts.register is not None:
        # An epoch above the register's is unrecorded: started by a handoff or an operator's word without the authority.
        # Of two that may claim, the one that does not know it may lack what was acknowledged in it.
        known = facts.register.epoch
        own, other = (
            not facts.peer_epoch > max(known, facts.epoch),
            not facts.epoch > max(known, facts.peer_epoch),
        )
    return {(True, True): "both", (True, False): "self", (False, True): "peer"}.get((own, other), "none")


def is_eligible(member: str, data: DataMark | None, register: Register | None) -> bool:
    # P5: both halves. A mark alone is what a member believed when it last ran; the set alone says nothing of its disk.
    return register is not None and data is not None and data.is_good and member in register.eligible_set


def named_word(facts: Facts) -> str:
    # Should the register name a stranger, the lower name goes first.
    known = (facts.member, facts.peer)
    holder = facts.register.holder if facts.register else ""
    return "self" if (holder if holder in known else min(known)) == facts.member else "peer"


def _copies_word(facts: Facts) -> str:
    """Which copy is best, where nothing but the copies can decide it."""
    if facts.peer_data is None:
        return "unclear"
    if facts.data is DataMark.EMPTY and facts.peer_data is DataMark.EMPTY:
        return "both empty"
    if DataMark.DAMAGED in (facts.data, facts.peer_data):
        return "unclear"  # what is damaged may be the only copy of something, and can be salvaged
    # A member that served alone left the other behind with a mark IN_SYNC that is out of date, and only the register
    # knew. Its epoch is higher then: a removal takes a new one.
    own = (facts.epoch, facts.data is DataMark.SOLE)
    other = (facts.peer_epoch, facts.peer_data is DataMark.SOLE)
    if facts.data.is_good and facts.peer_data.is_good:
        if own == other and facts.data is DataMark.SOLE:
            return "unclear"  # two owners of one epoch
        if facts.data is facts.peer_data is DataMark.IN_SYNC:
            ends = compare(facts.end, facts.peer_end)
            if ends is not Ends.EQUAL:
                return {Ends.OWN_LONGER: "own is best", Ends.PEER_LONGER: "peer's is best"}.get(ends, "unclear")
        return "own is best" if own > other or (own == other and facts.member < facts.peer) else "peer's is best"
    if facts.data.is_good and facts.epoch >= facts.peer_epoch:
        return "own is best"
    if facts.peer_data.is_good and facts.peer_epoch >= facts.epoch:
        return "peer's is best"
    return "unclear"


def render() -> str:
    """The table for docs/PROTOCOL.md."""
    names = list(dict.fromkeys(name for row in TABLE for name in row.when))
    lines = ["| " + " | ".join([*names, "then", "as the operator reads it"]) + " |", "|---" * (len(names) + 2) + "|"]
    for row in TABLE:
        words = [row.when.get(name, "") for name in names]
        lines.append("| " + " | ".join([*words, row.then.value, row.why.value]) + " |")
    return "\n".join(lines) + "\n"

"""Decides which register may follow which; it never stores one, sends one, or judges who ought to ask.

A register says, for one domain of one pair, who may be master and which members hold everything that was
acknowledged. Members build the next record with `claim`, `commit` and `add_member`; the witness lets it in only if
`check_set` has no objection. There is no fourth step: a member leaves the set by a claim without it, in a new epoch
(pair-protocol.md 4.2). An operator's word is the one exception: `forced`, let in by `check_force`.

    COMMITTED --claim--> CLAIMED --commit--> COMMITTED --add_member--> COMMITTED
                          |   ^
                          +---+ claim: replaces an abandoned one, the committed set goes through unchanged (P5)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum

EPOCH_MAX = 2**63 - 1  # leaves room in every signed 64-bit language that reads it
EPOCH_LAST = 2**23 - 1
"""Beyond it nobody claims: a lease id is the epoch above 40 bits of log index, and must fit a signed 64-bit number."""
NONCE_BYTES_MAX = 64
STARTS = "start/"  # + member: the domain whose epoch counts the starts of that member
MEMBER_COUNT_MAX = 2  # a pair; more members would be another protocol (DESIGN.md decision 11)


class Change(StrEnum):
    """The three steps: what a compare-and-set is to do to the register. The values name its calls in logs."""

    CLAIM = "claim"
    COMMIT = "commit"
    ADD = "add"


class SetOutcome(StrEnum):
    """What became of a compare-and-set (P1). The values are those of events and logs."""

    DONE = "done"  # the register says so
    REFUSED = "refused"  # it says that the call was not made and never will be
    UNKNOWN = "unknown"  # no answer: the call may still land, at any time


class RegisterState(Enum):
    """How far a change of mastership has come. The numbers are those of `tandemq.witness.v1`."""

    CLAIMED = 1  # announced; its holder serves nobody
    COMMITTED = 2  # in force


@dataclass(frozen=True, slots=True)
class Register:
    """One record. Compared whole, so that a set which lands late meets whatever came between (P1)."""

    version: int = 0  # +1 with each successful set; 0 = never set
    epoch: int = 0  # never falls
    holder: str = ""  # owns the epoch; always in in_sync_set, except at version 0
    in_sync_set: frozenset[str] = frozenset()
    committed_set: frozenset[str] = frozenset()  # COMMITTED: = in_sync_set; CLAIMED: what it was before
    state: RegisterState = RegisterState.COMMITTED
    nonce: bytes = b""  # the author's random bytes: two records that look alike differ

    @property
    def is_new(self) -> bool:
        """Nobody has ever set it, or the witness lost its disk."""
        return self.version == 0

    @property
    def eligible_set(self) -> frozenset[str]:
        """P5: the in-sync set of a COMMITTED record, the previous set of a CLAIMED one."""
        return self.in_sync_set if self.state is RegisterState.COMMITTED else self.committed_set

    @property
    def vouches_for_nobody(self) -> bool:
        """New, or holding only a first claim that was never committed: the rules of formation still apply.

        Without the second half a claimant that dies between its first claim and the commit would shut both members out
        for ever, as no member is in an empty committed set.
        """
        return not self.eligible_set


def claim(current: Register, *, member: str, epoch: int, members: frozenset[str], nonce: bytes) -> Register:
    """The record that announces `member` as owner of a new epoch. The committed set goes through unchanged (P5)."""
    assert member in members
    assert epoch > current.epoch, "a claim takes a new epoch (P4)"
    return Register(
        version=current.version + 1,
        epoch=epoch,
        holder=member,
        in_sync_set=members,
        committed_set=current.eligible_set,
        state=RegisterState.CLAIMED,
        nonce=nonce,
    )


def commit(current: Register, *, nonce: bytes) -> Register:
    """The record that puts a claim in force. Only its holder may ask, and only "done" opens the gate (P6)."""
    assert current.state is RegisterState.CLAIMED
    return replace(
        current,
        version=current.version + 1,
        committed_set=current.in_sync_set,
        state=RegisterState.COMMITTED,
        nonce=nonce,
    )


def add_member(current: Register, *, member_added: str, nonce: bytes) -> Register:
    """The record that adds a member in the same epoch. The holder requires it before this is asked (P3)."""
    assert current.state is RegisterState.COMMITTED
    assert not current.is_new
    assert member_added not in current.in_sync_set
    members = current.in_sync_set | {member_added}
    return replace(current, version=current.version + 1, in_sync_set=members, committed_set=members, nonce=nonce)


def forced(current: Register, *, epoch: int, holder: str, nonce: bytes) -> Register:
    """The record by which an operator names the one member that may claim next, whatever was known of copies (P5)."""
    alone = frozenset({holder})
    return Register(
        version=current.version + 1,
        epoch=epoch,
        holder=holder,
        in_sync_set=alone,
        committed_set=alone,
        state=RegisterState.CLAIMED,
        nonce=nonce,
    )


def check_force(
    current: Register, expected_version: int, epoch: int, holder: str, reason: str, started: frozenset[str]
) -> str | None:
    """Why an operator's record may not replace `current`, or None. Instead of `check_set`, whose rules it breaks.

    `started`: members of the pair whose starts the keeper of the register has counted. Once it knows as many members as
    a pair has, nobody else can be meant: a mistyped name would shut both out for good. With fewer (a new pair, or a
    keeper that lost its disk) the other member may be one that it has not met.
    """
    # First what is wrong with the order whatever the register is at: the pair goes on writing it meanwhile.
    if not holder:
        return "no holder is named"
    known = (started | current.in_sync_set | current.committed_set | {current.holder}) - {""}
    if holder not in known and len(known) >= MEMBER_COUNT_MAX:
        return f"{holder!r} is no member of this pair: its members are {' and '.join(sorted(known))}"
    if not reason.strip():
        return "no reason is given"
    if current.version != expected_version:
        return f"the register is at version {current.version}, the operator has seen {expected_version}"
    if not current.epoch < epoch <= EPOCH_LAST:
        return f"epoch {epoch} does not lie in {current.epoch + 1}..{EPOCH_LAST}"
    return None


def check_set(current: Register, expected: Register, desired: Register) -> str | None:
    """Why `desired` may not replace `current`, or None. Whoever stores registers asks this before each set."""
    if current != expected:
        # P1: the whole record; the same epoch and holder with another nonce is another record.
        return f"the register has changed: it is at version {current.version}, expected was {expected.version}"
    if desired.version != current.version + 1:
        return f"version {desired.version} does not follow {current.version}"
    if desired.epoch < current.epoch:
        return f"epoch {desired.epoch} is below {current.epoch}"
    if desired.holder not in desired.in_sync_set:
        return f"holder {desired.holder!r} is not in its own in-sync set"
    if desired.state is RegisterState.CLAIMED:
        return check_claim(current, desired)
    if current.state is RegisterState.CLAIMED:
        return _check_commit(current, desired)
    return _check_add(current, desired)


def check_form(register: Register) -> str | None:
    """Why this cannot be a register that anyone asks for, or None: bounds only, whatever the current one is."""
    if not 0 <= register.version <= EPOCH_MAX or not 0 <= register.epoch <= EPOCH_MAX:
        return f"version and epoch lie in 0..{EPOCH_MAX}"
    if len(register.nonce) > NONCE_BYTES_MAX:
        return f"nonce has {len(register.nonce)} bytes, at most {NONCE_BYTES_MAX}"
    if len(register.in_sync_set | register.committed_set | {register.holder} - {""}) > MEMBER_COUNT_MAX:
        return f"a pair has at most {MEMBER_COUNT_MAX} members"
    if not register.is_new and not register.nonce:
        # Two attempts of one author must differ, else the late landing of the first passes for the second (P1).
        return "nonce is empty"
    return None


def check_claim(current: Register, desired: Register) -> str | None:
    if desired.epoch <= current.epoch:
        return f"a claim needs an epoch above {current.epoch}"  # P4
    if desired.committed_set != current.eligible_set:
        return "a claim carries the committed set unchanged"  # P5
    if current.vouches_for_nobody:
        if desired.in_sync_set != {desired.holder}:
            return "a first claim names its author alone: nothing vouches for another member yet"
        return None
    if desired.holder not in current.eligible_set:
        return f"{desired.holder!r} is not in the committed set {_names(current.eligible_set)}"  # P5
    if not desired.in_sync_set <= current.eligible_set:
        # Else claim and commit would make a member eligible that never caught up; adding is for that (P3).
        return f"a claim keeps members of {_names(current.eligible_set)}, it never adds one"
    return None


def _check_commit(current: Register, desired: Register) -> str | None:
    if (desired.holder, desired.epoch, desired.in_sync_set) != (current.holder, current.epoch, current.in_sync_set):
        return f"a commit repeats the claim of {current.holder!r} in epoch {current.epoch}"
    return _check_committed(desired)


def _check_add(current: Register, desired: Register) -> str | None:
    if current.is_new:
        return "the first set is a claim"
    if (desired.holder, desired.epoch) != (current.holder, current.epoch):
        return f"only {current.holder!r} may add a member to epoch {current.epoch}; anything else is a claim"
    if not desired.in_sync_set > current.in_sync_set:
        return "without a claim the in-sync set only grows"
    return _check_committed(desired)


def _check_committed(desired: Register) -> str | None:
    return None if desired.committed_set == desired.in_sync_set else "a committed record has one set"


def _names(members: frozenset[str]) -> str:
    return "{" + ", ".join(sorted(members)) + "}"

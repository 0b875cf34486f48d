"""The way to mastership of one domain: claim in the register, store, commit, serve; never decides whether to take it.

Order (P6; each step waits for the one before it): claim in the register, own epoch and its first record durable here,
commit in the register, serve. A call that ends without an answer is unknown: back to PROBE, read again, start over
(P1). An **unrecorded** epoch leaves both calls out: a handoff (P18), or an operator's word, while the register cannot
be asked; it is recorded by a new epoch as soon as it can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from failover.marks import DataMark
from failover.promotion import few_epochs_left, next_epoch, no_epoch_left, retry_delay_ms, unrecorded_epoch
from failover.register import Change, Register, RegisterState, claim, commit
from failover.steps import Found, Step, follow, found_of
from replica.core.mastership.register_view import nonce_of
from replica.core.mastership.role import ClaimUnderWay
from replica.core.state.effects import Note, Purpose, SetRegister
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from failover.register import SetOutcome
    from replica.core.mastership.commit_rule import CommitRule
    from replica.core.mastership.peer import Peer
    from replica.core.mastership.register_view import RegisterView
    from replica.core.mastership.role import MemberRole
    from replica.core.replication.sync_source import SyncSource
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.shared import Shared


class EpochLog(Protocol):
    """The log, where an epoch of ours begins in it."""

    def on_epoch_begin(self, under_way: ClaimUnderWay) -> int:
        """Append an epoch's first record, with the domain's facts in the same transaction; returns its index."""
        ...


class Claims:
    """Claims of one domain at one member: which number, how far the one under way is, and the pause after a failure."""

    def __init__(
        self,
        shared: Shared,
        view: RegisterView,
        peer: Peer,
        commit: CommitRule,
        role: MemberRole,
        source: SyncSource,
        target: SyncTarget,
        log: EpochLog,
        *,
        bias_ms: int,
    ) -> None:
        self.shared = shared
        self.view = view
        self.peer = peer
        self.commit = commit
        self.role = role
        self.source = source
        self.target = target
        self.log = log
        self.bias_ms = bias_ms
        self.may_claim = True
        """False until the shell knows that the directory is not an older copy of itself."""
        self.failures = 0
        """In a row."""
        self.not_before_ms = 0
        self._spent = ""

    def let_claim(self, *, allowed: bool) -> None:
        """Whether the authority has seen this start of the member, and no later one."""
        self.may_claim = allowed

    # -- numbers ---------------------------------------------------------------------------------------------------

    @property
    def goes_alone(self) -> bool:
        """An epoch is under way in which this member is alone."""
        under_way = self.role.claim
        return under_way is not None and self.shared.peer not in under_way.members

    def epoch_above_all(self) -> int:
        """The next number, above everything that either member has seen (P4)."""
        state = self.shared.state
        return next_epoch(self.view.register, state.epoch, state.promised_epoch, self.peer.highest_epoch)

    def is_spent(self, epoch: int = 0) -> str:
        """Why there is no such epoch any more (0: the next one); empty: there is. An event, once."""
        why = no_epoch_left(epoch or self.epoch_above_all())
        if why:
            self.shared.explain(why)
            if why != self._spent:
                self.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, why))
        self._spent = why
        return why

    # -- claim -----------------------------------------------------------------------------------------------------

    def begin(
        self, members: frozenset[str], reason: str, *, epoch: int = 0, forced: bool = False, ceded: bool = False
    ) -> None:
        """Ask the register for an epoch of ours with exactly these members. `forced`: against its rules."""
        register = self.view.register
        assert register is not None
        epoch = epoch or self.epoch_above_all()
        if register.vouches_for_nobody and self.shared.state.epoch and not forced:
            # It has lost what the peer may just have claimed in it, and not said yet.
            epoch = unrecorded_epoch(epoch, self.shared.member, self.shared.peer)
        if self.is_spent(epoch):
            self.role.end_claim()
            return
        nonce = nonce_of(self.shared, epoch)
        if forced:
            state = RegisterState.CLAIMED
            desired = Register(register.version + 1, epoch, self.shared.member, members, members, state, nonce)
        else:
            desired = claim(register, member=self.shared.member, epoch=epoch, members=members, nonce=nonce)
        self.role.become_claimant(
            ClaimUnderWay(Step.CLAIMING, members, epoch, desired, reason, forced=forced, ceded=ceded)
        )
        word = reason if forced else ""
        self.shared.outbox.add(SetRegister(register, desired, Purpose(Change.CLAIM, epoch), forced=word))

    def begin_unrecorded(self, members: frozenset[str], reason: str, *, epoch: int = 0, forced: bool = False) -> None:
        """Take an epoch without the register; what allows that is for the caller to know."""
        epoch = epoch or unrecorded_epoch(self.epoch_above_all(), self.shared.member, self.shared.peer)
        if self.is_spent(epoch):
            self.role.end_claim()
            return
        under_way = ClaimUnderWay(Step.STORING, members, epoch, None, reason, forced=forced)
        self.role.become_claimant(under_way)
        self.store_epoch(under_way)

    def on_set_result(
        self, under_way: ClaimUnderWay, outcome: SetOutcome, register: Register | None, now_ms: int
    ) -> None:
        """The compare-and-set that this claim waited for has ended."""
        found = found_of(outcome, ceded=under_way.ceded)
        step = follow(under_way.step, found)
        if step is Step.PROBE:
            self.back_off(now_ms)
            self.role.become_probe(f"claim of epoch {under_way.epoch} was {outcome}")
            self.view.read(now_ms)
            return
        if found is Found.UNKNOWN_CEDED:
            under_way.desired = None  # P18: should the call land after all, P7 finds it
        elif under_way.forced and register is not None:
            under_way.desired = register  # an operator's register has a nonce of the authority's own
        if step is Step.STORING:
            self.store_epoch(under_way)
        else:
            self.open_gate(under_way, now_ms)

    def back_off(self, now_ms: int) -> None:
        """A claim has failed: the next one has to wait (P8)."""
        self.failures += 1
        was_master, bias_ms = self.role.was_master, self.bias_ms
        self.not_before_ms = now_ms + pause_after(
            self.failures, self.shared.member, was_master=was_master, bias_ms=bias_ms
        )

    def forget_failures(self) -> None:
        """There is nothing to take turns for."""
        self.failures = 0

    # -- store, commit ---------------------------------------------------------------------------------------------

    def store_epoch(self, under_way: ClaimUnderWay) -> None:
        """Have the epoch and its first record written."""
        shared, members = self.shared, under_way.members
        self.target.stop()
        under_way.step = Step.STORING
        shared.state.own_epoch(under_way.epoch, shared.member, members)
        shared.mark(DataMark.IN_SYNC if len(members) > 1 else DataMark.SOLE)
        shared.apply_up_to(shared.log.last_index, None)
        self.commit.begin_epoch(self.log.on_epoch_begin(under_way))
        if few := few_epochs_left(under_way.epoch):
            shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, few, {"epoch": str(under_way.epoch)}))

    def on_epoch_durable(self, epoch: int, now_ms: int) -> None:
        """The first record of the epoch is durable here."""
        under_way = self.role.claim
        if under_way is None or under_way.epoch != epoch or under_way.step is not Step.STORING:
            return
        found = Found.DURABLE if under_way.desired is not None else Found.DURABLE_UNRECORDED
        under_way.step = follow(under_way.step, found)
        if under_way.desired is None:
            self.open_gate(under_way, now_ms)
            return
        desired = commit(under_way.desired, nonce=nonce_of(self.shared, epoch))
        self.shared.outbox.add(SetRegister(under_way.desired, desired, Purpose(Change.COMMIT, epoch)))

    def open_gate(self, under_way: ClaimUnderWay, now_ms: int) -> None:
        """Nothing is left to wait for (P6): serve."""
        self.forget_failures()
        unrecorded = under_way.desired is None and bool(self.shared.peer)
        self.role.become_master(
            under_way.members, under_way.reason, now_ms, unrecorded=unrecorded, forced=under_way.forced
        )

    # -- an epoch that is handed over ------------------------------------------------------------------------------

    def may_take(self, epoch: int) -> bool:
        """Whether the ceded epoch is above all that this member has stored."""
        state = self.shared.state
        return epoch > state.epoch and epoch >= state.promised_epoch

    def take_over(self, epoch: int, now_ms: int) -> None:
        """Claim the ceded epoch for both members: read, claim, store, commit, serve (P6)."""
        shared = self.shared
        members = frozenset({shared.member, shared.peer})
        self.role.become_probe(f"{shared.peer} hands over: claiming epoch {epoch}")
        self.role.become_claimant(
            ClaimUnderWay(Step.READING, members, epoch, None, f"{shared.peer} handed over", ceded=True)
        )
        if self.view.readable:
            self.view.read(now_ms)  # what was read a second ago may lack this member's own addition to the set
        else:
            self.on_ceded_read(None)

    def on_ceded_read(self, register: Register | None) -> None:
        """The register as it is, for a claim that waited for it.

        P18: while the register cannot be asked the epoch is served unrecorded. Both members stay required, so nothing
        is acknowledged that the other one does not hold, whatever it does meanwhile.
        """
        under_way = self.role.claim
        assert under_way is not None
        epoch, members, reason = under_way.epoch, under_way.members, under_way.reason
        if register is None:
            self.begin_unrecorded(members, reason, epoch=epoch)
        elif register.epoch < epoch and members <= register.eligible_set:
            self.begin(members, reason, epoch=epoch, ceded=True)
        else:
            self.role.become_probe(f"the register does not let epoch {epoch} in")

    # -- an epoch that was not recorded ----------------------------------------------------------------------------

    def record(self, register: Register) -> None:
        """The register answers again: put the epoch that is served into it, by a new one (P7, P18).

        In role MASTER_SUSPENDED, not PROBE: the peer would take a step down for its turn, and undo a handoff.
        """
        shared, role, members = self.shared, self.role, self.commit.required
        forced = role.forced
        if register.epoch >= shared.state.epoch:
            role.become_probe("the register holds another record than ours")
            return
        if why := self.is_spent():
            role.become_probe(why)
            return
        blank = register.vouches_for_nobody
        if blank and not forced and shared.peer in members and not self.commit.is_synced():
            # What it has lost may be that the peer went on alone meanwhile: as with any empty register, both must meet.
            role.become_probe("the register is empty, and only the peer can say whether it has gone on")
            return
        if shared.member not in register.eligible_set and not blank and not forced:
            # Its history and ours meet later.
            role.become_probe("the register has let the other member go on meanwhile")
            return
        role.become_suspended("the register answers again: recording the epoch")
        # What it does not vouch for is not claimed for: the peer is added as usual.
        alone = blank or forced or self.source.goes_on  # nobody waits for a full transfer
        members = frozenset({shared.member}) if alone else members & register.eligible_set
        self.begin(members, "recorded what was decided without the register", forced=forced and not blank)


def pause_after(failures: int, member: str, *, was_master: bool, bias_ms: int) -> int:
    """Milliseconds to wait after a claim that failed (P8); the name spreads two claimants apart without a random
    source.
    """
    jitter = (sum(member.encode()) * 37 + failures * 61) % 97 / 97
    return retry_delay_ms(failures, jitter, role_was_master=was_master, bias_ms=bias_ms)

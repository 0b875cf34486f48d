"""The way to mastership of one domain: claim in the register, store, commit, serve; never decides whether to take it.

Order (P6; each step waits for the one before it): claim in the register, own epoch and its first record durable here,
commit in the register, serve. A call that ends without an answer is unknown: back to PROBE, read again, start over
(P1). An **unrecorded** epoch leaves both calls out: a handoff (P18), or an operator's word, while the register cannot
be asked; it is recorded by a new epoch as soon as it can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import DataMark, Link, Role
from failover.promotion import next_epoch, told_few, told_spent, unrecorded_epoch
from failover.register import Change, Register, RegisterState, claim, commit
from failover.steps import Found, Step, follow, found_of
from replica.core.mastership.claims import ClaimUnderWay, nonce_of, pause_after
from replica.core.mastership.commit import Commit
from replica.core.mastership.verdicts import Verdicts
from replica.core.replication.recall import Recall
from replica.core.state.effects import Note, Purpose, SetRegister
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from failover.register import SetOutcome
    from replica.core.mastership.claims import ClientCalls
    from replica.core.replication.sync_source import SyncSource
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import DomainHello


class Claiming(Commit):
    """Claims of one domain at one member, and the mastership that comes of them."""

    def __init__(
        self, shared: Shared, source: SyncSource, target: SyncTarget, calls: ClientCalls, bias_ms: int
    ) -> None:
        super().__init__(shared, source, calls)
        self.target = target
        self.bias_ms = bias_ms
        self.verdicts = Verdicts(shared)
        self.recall = Recall(shared)
        self.claim: ClaimUnderWay | None = None
        self.connected = False
        self.hello: DomainHello | None = None
        self.hello_is_new = False
        """No SYNC was made from it yet."""
        self.lost_at_ms: int | None = None
        self.refused = False
        self.was_master = False
        self.failures = 0
        self.not_before_ms = 0
        self.now_ms = 0
        self.progress = (0, 0)
        """(commit index, when it moved or nothing was owed)."""
        self.rejoin_at_ms = 0
        """A peer that was left behind because it was slow is taken back from then on."""
        self.sync_when_read = False
        self.checked = 0
        """The transfer that was found whole while a claim was under way."""
        self._spent = ""
        self.may_claim = True
        """False until the shell knows that the directory is not an older copy of itself."""

    # -- claim -----------------------------------------------------------------------------------------------------

    @property
    def goes_alone(self) -> bool:
        """An epoch is under way in which this member is alone."""
        return self.claim is not None and self.shared.peer not in self.claim.members

    def epoch_above_all(self) -> int:
        """The next number, above everything that either member has seen (P4)."""
        state, hello = self.shared.state, self.hello
        peer_epoch = max(hello.epoch, hello.promised_epoch) if hello is not None else 0
        return next_epoch(self.register, state.epoch, state.promised_epoch, peer_epoch)

    def is_spent(self, epoch: int = 0) -> str:
        """Why there is no such epoch any more (0: the next one); empty: there is. An event, once."""
        why = told_spent(epoch or self.epoch_above_all())
        if why:
            self.shared.last_change = why
            if why != self._spent:
                self.shared.effects.append(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, why))
        self._spent = why
        return why

    def begin_claim(
        self, members: frozenset[str], reason: str, *, epoch: int = 0, forced: bool = False, ceded: bool = False
    ) -> None:
        """Ask the register for an epoch of ours with exactly these members. `forced`: against its rules."""
        register = self.register
        assert register is not None
        epoch = epoch or self.epoch_above_all()
        if register.vouches_for_nobody and self.shared.state.epoch and not forced:
            # It has lost what the peer may just have claimed in it, and not said yet.
            epoch = unrecorded_epoch(epoch, self.shared.member, self.shared.peer)
        if self.is_spent(epoch):
            self.claim = None
            return
        nonce = nonce_of(self.shared, epoch)
        if forced:
            state = RegisterState.CLAIMED
            desired = Register(register.version + 1, epoch, self.shared.member, members, members, state, nonce)
        else:
            desired = claim(register, member=self.shared.member, epoch=epoch, members=members, nonce=nonce)
        self.claim = ClaimUnderWay(Step.CLAIMING, members, epoch, desired, reason, forced=forced, ceded=ceded)
        self._leave(members)
        word = reason if forced else ""
        self.shared.effects.append(SetRegister(register, desired, Purpose(Change.CLAIM, epoch), forced=word))

    def begin_unrecorded(self, members: frozenset[str], reason: str, *, epoch: int = 0, forced: bool = False) -> None:
        """Take an epoch without the register; what allows that is for the caller to know."""
        epoch = epoch or unrecorded_epoch(self.epoch_above_all(), self.shared.member, self.shared.peer)
        if self.is_spent(epoch):
            self.claim = None
            return
        self.claim = ClaimUnderWay(Step.STORING, members, epoch, None, reason, forced=forced)
        self._leave(members)
        self._store_epoch(self.claim)

    def _leave(self, members: frozenset[str]) -> None:
        if not self.serving:  # who serves already knows more of the peer's copy
            self.source.peer_is_good = self.shared.peer in members
        self._stop_serving()

    def _stop_serving(self) -> None:
        if self.serving:
            self.serving = False
            if self.source.filling:
                self.source.hold()
            self.calls.on_not_serving()

    def on_set_result(self, purpose: Purpose, outcome: SetOutcome, register: Register | None, now_ms: int) -> None:
        """A compare-and-set ended."""
        under_way = self.claim
        adds = self.publishing and purpose == self.add_purpose
        if not adds and (under_way is None or purpose != under_way.purpose):
            # Of what was given up; if it landed, P7 finds it. What it says is older than what is known by now.
            return
        if register is not None:
            self.register = register
        if adds or under_way is None:
            self._on_add_result(outcome, now_ms)
            return
        found = found_of(outcome, ceded=under_way.ceded)
        step = follow(under_way.step, found)
        if step is Step.PROBE:
            self.claim = None
            self._back_off(now_ms)
            self.to_probe(f"claim of epoch {under_way.epoch} was {outcome}")
            self._read_register(now_ms)
            return
        if found is Found.UNKNOWN_CEDED:
            under_way.desired = None  # P18: should the call land after all, P7 finds it
        elif under_way.forced and register is not None:
            under_way.desired = register  # an operator's register has a nonce of the authority's own
        if step is Step.STORING:
            self._store_epoch(under_way)
        else:
            self._open_gate(under_way)

    def _back_off(self, now_ms: int) -> None:
        self.failures += 1
        pause_ms = pause_after(self.failures, self.shared.member, was_master=self.was_master, bias_ms=self.bias_ms)
        self.not_before_ms = now_ms + pause_ms

    # -- store, commit ---------------------------------------------------------------------------------------------

    def _store_epoch(self, under_way: ClaimUnderWay) -> None:
        shared, members = self.shared, under_way.members
        self.target.stop()
        under_way.step = Step.STORING
        shared.state.epoch = under_way.epoch
        shared.state.owner = shared.member
        shared.state.diverged = ""  # only an operator's word leads from there to here
        shared.mark(DataMark.IN_SYNC if len(members) > 1 else DataMark.SOLE)
        shared.state.in_sync_set = sorted(members)
        shared.apply_up_to(shared.log.last_index, tell=False)
        self.epoch_first = self.calls.on_epoch_begin(under_way)
        if few := told_few(under_way.epoch):
            shared.effects.append(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, few, {"epoch": str(under_way.epoch)}))

    def on_epoch_durable(self, epoch: int) -> None:
        """The first record of the epoch is durable here."""
        under_way = self.claim
        if under_way is None or under_way.epoch != epoch or under_way.step is not Step.STORING:
            return
        found = Found.DURABLE if under_way.desired is not None else Found.DURABLE_UNRECORDED
        under_way.step = follow(under_way.step, found)
        if under_way.desired is None:
            self._open_gate(under_way)
            return
        desired = commit(under_way.desired, nonce=nonce_of(self.shared, epoch))
        self.shared.effects.append(SetRegister(under_way.desired, desired, Purpose(Change.COMMIT, epoch)))

    # -- serve -----------------------------------------------------------------------------------------------------

    def _open_gate(self, under_way: ClaimUnderWay) -> None:
        self.claim = None
        self.failures = 0
        self._serve(under_way.members, under_way.reason)
        self.unrecorded = under_way.desired is None and bool(self.shared.peer)
        self.forced = under_way.forced

    def _serve(self, members: frozenset[str], reason: str) -> None:
        shared = self.shared
        self.required = members
        self.alone_up_to = 0
        self.progress = (shared.commit_index, self.now_ms)  # a peer's slowness is counted from here on
        self.serving = True
        self.unrecorded = False
        self.was_master = True
        shared.progress.order_from_here()
        shared.master = shared.member
        shared.wants_full = False  # a replica's order; what follows this one is another matter
        if not self._keep_filling():
            self.source.stop()
            shared.link = Link.HANDSHAKE if self.connected else Link.DOWN
        shared.become(Role.MASTER, reason)
        self.lost_at_ms = None if self.connected else self.lost_at_ms
        if shared.peer not in members:
            self._record_solo(max(shared.commit_index, shared.log.base_index) + 1)
        self._begin_sync()
        self.advance()
        self.calls.on_serving()

    def _keep_filling(self) -> bool:
        """P22: a full transfer that is under way goes on in this epoch; the HELLO that says who is master names it."""
        source, hello = self.source, self.hello
        if not self.connected or hello is None or hello.role == Role.DIVERGED.value or not source.goes_on:
            return False
        if not hello.stays_with_transfer:
            return False  # it would go to PROBE, and wait for a SYNC
        source.release()
        if self.checked:
            number, self.checked = self.checked, 0
            source.on_checked(number)
        return True

    def on_checked(self, sync_id: int) -> None:
        """What a full transfer reads is whole. Between two epochs nothing begins: SYNC_BEGIN belongs to the next."""
        if self.serving:
            self.source.on_checked(sync_id)
        else:
            self.checked = sync_id

    def on_not_whole(self, sync_id: int) -> bool:
        """What a full transfer reads is damaged. False: the session ends, and the next one tries again."""
        return self.serving and self.source.on_not_whole(sync_id)

    def _record(self, register: Register) -> None:
        """The register answers again: put the epoch that is served into it, by a new one (P7, P18).

        In role MASTER_SUSPENDED, not PROBE: the peer would take a step down for its turn, and undo a handoff.
        """
        shared, members = self.shared, self.required
        if register.epoch >= shared.state.epoch:
            self.to_probe("the register holds another record than ours")
            return
        if why := self.is_spent():
            self.to_probe(why)
            return
        blank = register.vouches_for_nobody
        if blank and not self.forced and shared.peer in members and not self._is_synced():
            # What it has lost may be that the peer went on alone meanwhile: as with any empty register, both must meet.
            self.to_probe("the register is empty, and only the peer can say whether it has gone on")
            return
        if shared.member not in register.eligible_set and not blank and not self.forced:
            self.to_probe("the register has let the other member go on meanwhile")  # its history and ours meet later
            return
        shared.become(Role.MASTER_SUSPENDED, "the register answers again: recording the epoch")
        # What it does not vouch for is not claimed for: the peer is added as usual.
        alone = blank or self.forced or self.source.goes_on  # nobody waits for a full transfer
        members = frozenset({shared.member}) if alone else members & register.eligible_set
        reason = "recorded what was decided without the register"
        self.begin_claim(members, reason, forced=self.forced and not blank)

    def _begin_sync(self) -> None:
        # P12: one HELLO, one SYNC. The peer's log goes on with what we send; a second SYNC from the same HELLO would
        # cut what it has acknowledged since. The peer sends a new HELLO when it hears that we stepped down.
        self.sync_when_read = False
        if self.connected and self.hello is not None and self.hello_is_new and self.now_ms >= self.rejoin_at_ms:
            self.hello_is_new = False
            self.source.begin(self.hello)

    def take_out(self, reason: str) -> None:
        """By an operator's word: neither follow nor lead until `to_probe`. The caller keeps the link down."""
        self.to_probe(reason)
        self.shared.become(Role.MAINTENANCE, reason)

    def to_probe(self, reason: str) -> None:
        """Stop: no effect of ours is visible until the register and the peer have spoken again (P6, P7)."""
        shared = self.shared
        was_serving = self.serving
        self.serving = False
        self.unrecorded = False
        self.publishing = False
        self.sync_when_read = False
        self.claim = None
        self.required = frozenset()
        self.source.stop()
        self.target.stop()
        shared.master = ""
        shared.link = Link.HANDSHAKE if self.connected else Link.DOWN
        shared.become(Role.PROBE, reason)
        if was_serving:
            self.calls.on_not_serving()

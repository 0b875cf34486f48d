"""Who is master of one domain, and in which epoch: takes events and returns effects. Never orders a client's call.

Decides when to claim and whom to follow; how a claim becomes a mastership stands in `replica.core.mastership.claiming`,
who must hold an operation in `replica.core.mastership.commit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.classifier import EventKind
from failover.gate import Consequence, Ruling
from failover.log_end import UNKNOWN_END, LogEnd, log_end
from failover.marks import DataMark, Link, Role
from failover.promotion import (
    YOUNG_CLAIM_MS,
    Claim,
    Facts,
    Follow,
    Why,
    claim_delay_ms,
    decide,
    next_epoch,
    unrecorded_epoch,
)
from failover.register import RegisterState
from failover.steps import Step
from replica.core.mastership.claims import ClaimUnderWay
from replica.core.mastership.leaving import Leaving
from replica.core.replication.sync_source import Phase
from replica.core.state.durable import data_of
from replica.core.state.effects import Fail

if TYPE_CHECKING:
    from failover.classifier import Answer
    from failover.register import Register
    from replica.core.mastership.claims import ClientCalls
    from replica.core.replication.sync_source import SyncSource
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.shared import Shared
    from replica.core.state.write_tokens import WriteToken
    from tandemq.peer.v1.peer_service_pb2 import DomainHello

REGISTER_RETRY_MS = 150
"""Between two reads of an unreadable register: two tries inside the suspect time."""
REGISTER_WATCH_MS = 1000
"""A master reads its register this often: a left-over claim is found within it (P7)."""
MASTER_NUMBERS = (Role.MASTER.value, Role.MASTER_SUSPENDED.value)


class Mastership(Leaving):
    """Role and epoch of one domain at one member."""

    def __init__(
        self, shared: Shared, source: SyncSource, target: SyncTarget, calls: ClientCalls, bias_ms: int
    ) -> None:
        super().__init__(shared, source, target, calls, bias_ms)
        self.read_at_ms = -REGISTER_WATCH_MS
        self.started_ms = 0
        self.young_since_ms: int | None = None
        self.meet_ms = 0
        """After a start, how long a peer that may serve too is awaited before this member goes on alone (P20)."""

    # -- start -----------------------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        """Disk is read and the queues are rebuilt."""
        shared = self.shared
        self.now_ms = self.started_ms = now_ms
        if shared.peer:
            if shared.state.diverged:
                shared.become(Role.DIVERGED, shared.state.diverged)
                return
            shared.become(Role.PROBE, "started: looking for the peer and the register")
            self._read_register(now_ms)
            return
        # A restarted master never resumes its epoch: records it shipped or lost must not share a number with new ones.
        epoch = next_epoch(None, shared.state.epoch, shared.state.promised_epoch, 0)
        if why := self.is_spent(epoch):
            shared.effects.append(Fail(f"domain {shared.name}: {why}"))
            return
        alone = frozenset({shared.member})
        self._store_epoch(ClaimUnderWay(Step.STORING, alone, epoch, None, "unpaired manager starts"))
        self._serve(alone, "unpaired")

    # -- the register ----------------------------------------------------------------------------------------------

    def distrust(self, now_ms: int) -> None:
        """Somebody knows of a higher epoch: ask the register before its time."""
        self._read_register(now_ms)

    def on_register(self, register: Register | None, now_ms: int) -> None:
        """The register as it is; None when it cannot be read now."""
        self.now_ms = now_ms
        self.reading = False
        self.readable = register is not None
        if register is not None:
            if register != self.register:
                self.young_since_ms = now_ms if register.state is RegisterState.CLAIMED else None
            self.register = register
        elif self.lost_at_ms is not None and not self.verdicts.policy.by_authority:
            self.verdicts.ask(EventKind.AUTHORITY_LOST, now_ms, "neither the peer nor the authority answers")
        if self.claim is not None and self.claim.step is Step.READING:
            self._claim_ceded(register)
        elif self.serving:
            self._check_own(register)
        if self.sync_when_read and self.serving:
            self._begin_sync()
        self._maybe_leave()
        self._decide(now_ms)

    def _check_own(self, register: Register | None) -> None:
        # P7: anything but our own committed record means that somebody claimed; unreadable changes nothing while
        # paired.
        if register is None or self.publishing:
            return
        if not self.owns(register):
            if self.unrecorded:
                self._record(register)
            else:
                self.to_probe("the register holds another record than ours")
        elif self._is_synced() and self.shared.peer not in register.in_sync_set:
            self._publish(register)
        elif self._is_synced() and self.shared.link is not Link.PAIRED:
            self._paired()  # the add that went unanswered has landed

    # -- decide ----------------------------------------------------------------------------------------------------

    def _decide(self, now_ms: int) -> None:
        shared = self.shared
        wants = shared.role is Role.PROBE or (self.serving and shared.role is Role.MASTER_SUSPENDED)
        if not wants or self.claim is not None or self.publishing or shared.machine is None or not shared.peer:
            return
        ruling = self.ruling(now_ms)
        alone = self.lost_at_ms is not None and not self.connected
        if alone and ruling.effect is Consequence.CLAIM_UNRECORDED:
            self._tell(ruling)
            self.begin_unrecorded(frozenset({shared.member}), ruling.why)
            return
        if not self.may_claim:
            shared.last_change = "waiting for the authority to confirm this start"
            return
        decision = decide(self.facts(now_ms))
        if shared.role is Role.PROBE:
            shared.last_change = str(decision.reason)
        if not isinstance(decision, Claim):
            if isinstance(decision, Follow):
                self.failures = 0
            elif alone and decision.reason in (Why.NO_VERDICT, Why.REGISTER_UNREADABLE):
                shared.last_change = ruling.why
                self._tell(ruling)
            return
        if now_ms < self.not_before_ms:
            return
        if alone:
            self._tell(ruling)
        elif not self.recall.is_done(now_ms):
            shared.last_change = "asks the peer for volatile messages that a restart has lost here"
            return
        self.begin_claim(decision.members, str(decision.reason))

    def facts(self, now_ms: int) -> Facts:
        """What this member knows of the domain now, for the promotion table."""
        shared, hello = self.shared, self.hello
        delay = claim_delay_ms(self.was_master, self.refused, self.bias_ms)
        lost_at, young_since = self.lost_at_ms, self.young_since_ms
        return Facts(
            member=shared.member,
            peer=shared.peer,
            data=shared.state.data,
            peer_connected=self.connected,
            peer_role_master=hello is not None and hello.role in MASTER_NUMBERS,
            peer_data=_data_of(hello) if hello is not None else None,
            register=self.register if self.readable else None,
            peer_lost=lost_at is not None and now_ms >= lost_at + delay,
            not_met=self._may_still_come(now_ms),
            verdict_lets=self.ruling(now_ms).lets_claim,
            epoch=shared.state.epoch,
            peer_epoch=hello.epoch if hello is not None else 0,
            end=log_end(shared.log.history, shared.log.last_index, shared.log.digest),
            peer_end=_end_of(hello) if hello is not None else UNKNOWN_END,
            young_claim=young_since is not None and now_ms < young_since + YOUNG_CLAIM_MS,
        )

    def _may_still_come(self, now_ms: int) -> bool:
        """Whether a peer that may serve too is awaited: neither has been heard of since this process started."""
        register, shared = self.register, self.shared
        if self.verdicts.generation or now_ms >= self.started_ms + self.meet_ms:
            return False
        return register is not None and shared.peer in register.eligible_set and shared.state.data is DataMark.IN_SYNC

    # -- a role that is handed over --------------------------------------------------------------------------------
    #
    # P15: the ceded epoch is durable as *promised* before the other member hears of it, so no claim of the old master
    # can take the same number. From `cede` on it acknowledges, delivers and orders nothing.

    def cede(self, epoch: int, token: WriteToken) -> None:
        """Role CEDING, with the promise on its way to the disk; `token` comes back when it is durable."""
        shared = self.shared
        shared.state.promised_epoch = epoch
        self.serving = False
        self.publishing = False
        self.sync_when_read = False
        self.required = frozenset()
        self.source.stop()
        shared.master = ""
        shared.link = Link.HANDSHAKE
        shared.become(Role.CEDING, f"cedes epoch {epoch} to {shared.peer}")
        shared.persist_state(token=token)
        self.calls.on_not_serving()

    def may_take(self, epoch: int) -> bool:
        """Whether the ceded epoch is above all that this member has stored."""
        state = self.shared.state
        return epoch > state.epoch and epoch >= state.promised_epoch

    def take_over(self, epoch: int, now_ms: int) -> None:
        """Claim the ceded epoch for both members: read, claim, store, commit, serve (P6)."""
        shared = self.shared
        members = frozenset({shared.member, shared.peer})
        self.to_probe(f"{shared.peer} hands over: claiming epoch {epoch}")
        self.claim = ClaimUnderWay(Step.READING, members, epoch, None, f"{shared.peer} handed over", ceded=True)
        if self.readable:
            self.distrust(now_ms)  # what was read a second ago may lack this member's own addition to the set
        else:
            self._claim_ceded(None)

    def _claim_ceded(self, register: Register | None) -> None:
        """The register as it is, for a claim that waited for it.

        P18: while the register cannot be asked the epoch is served unrecorded. Both members stay required, so nothing
        is acknowledged that the other one does not hold, whatever it does meanwhile.
        """
        under_way = self.claim
        assert under_way is not None
        epoch, members, reason = under_way.epoch, under_way.members, under_way.reason
        if register is None:
            self.begin_unrecorded(members, reason, epoch=epoch)
        elif register.epoch < epoch and members <= register.eligible_set:
            self.begin_claim(members, reason, epoch=epoch, ceded=True)
        else:
            self.to_probe(f"the register does not let epoch {epoch} in")

    # -- verdicts --------------------------------------------------------------------------------------------------

    def on_verdict(self, answer: Answer, kind: EventKind, now_ms: int) -> Ruling:
        """A classifier or an operator has answered; returns what is made of it."""
        shared = self.shared
        taken = self.verdicts.take(answer, kind, now_ms, connected=self.connected, readable=self.readable)
        ruling = self._fitting(taken)
        self.verdicts.tell(ruling, answer.verdict)
        if ruling.effect is Consequence.FAIL:
            self._stop_serving()
            shared.become(Role.FAILED, ruling.why)
            shared.effects.append(Fail(f"domain {shared.name}: {ruling.why}"))
        elif kind is EventKind.PEER_SLOW:
            self._leave_behind(now_ms)
        else:
            self._read_register(now_ms)
            self._decide(now_ms)
        return ruling

    def force(self, reason: str) -> str:
        """Become master whatever register and mark say, by an operator's word. Returns why not; empty = begun."""
        shared = self.shared
        if self.serving:
            return f"{shared.member} is master of {shared.name} already"
        if shared.state.data in (DataMark.EMPTY, DataMark.SYNCING, DataMark.DAMAGED) or shared.machine is None:
            return f"the copy here is {shared.state.data.name}: there is nothing whole to go on with"
        if self.hello is not None and self.hello.role in MASTER_NUMBERS:
            return f"{shared.peer} is connected and master: hand off, or stop it first"
        if self.claim is not None:
            return "a claim is under way: look again in a second"
        above = self.epoch_above_all()
        if why := self.is_spent(above if self.readable else unrecorded_epoch(above, shared.member, shared.peer)):
            return why
        alone = frozenset({shared.member})
        if self.readable:
            self.begin_claim(alone, f"forced: {reason}", forced=True)
        else:
            self.begin_unrecorded(alone, f"forced: {reason}", forced=True)
        return ""

    # -- the peer --------------------------------------------------------------------------------------------------

    def on_connected(self) -> None:
        """The Data stream is open; HELLOs cross."""
        self.connected = True
        self.hello = None
        self.recall.reset()
        self.lost_at_ms = None
        self.refused = False
        self.verdicts.on_connected()
        self.shared.link = Link.HANDSHAKE
        if self.shared.role is Role.MASTER_SUSPENDED and self.serving:
            self.shared.become(Role.MASTER, "the peer is back")

    def on_disconnected(self, now_ms: int) -> None:
        """The connection is gone, for whatever reason; the peer is not lost yet."""
        shared = self.shared
        self.verdicts.peer_index = self.source.peer_durable or (self.hello.last_index if self.hello is not None else 0)
        self.verdicts.on_disconnected()
        self.connected = False
        self.hello = None
        self.source.stop()
        self.target.stop()
        shared.link = Link.DOWN
        if shared.role is Role.REPLICA:
            self.was_master = False
            self.to_probe("the connection to the master was lost")  # P9
        self._read_register(now_ms)

    def on_lost(self, now_ms: int, *, refused: bool, cause: str = "") -> None:
        """The peer counts as lost: silent for longer than the lost time, or the link was reset and the reconnect
        refused.
        """
        if self.lost_at_ms is None:
            self.lost_at_ms = now_ms
        self.refused = self.refused or refused
        self.verdicts.ask_about_loss(now_ms, self.started_ms, cause or ("refused" if refused else "silent"))
        if self.serving and self.shared.peer in self.required:
            self.shared.become(
                Role.MASTER_SUSPENDED, "the peer is lost; nothing is acknowledged until the register agrees"
            )
            # Read before the claim: a claim that nobody answers costs the mastership (P6), an unreadable register does
            # not.
            self._read_register(now_ms)
        else:
            self._decide(now_ms)

    def on_hello(self, hello: DomainHello, now_ms: int) -> None:
        """Where the peer stands now (P12)."""
        shared = self.shared
        self.now_ms = now_ms
        self.hello = hello
        self.hello_is_new = self.source.phase is Phase.IDLE
        peer_is_master = hello.role in MASTER_NUMBERS
        if shared.role is Role.REPLICA and hello.role == Role.PROBE.value:
            self.to_probe("the master has stepped down")  # else both would wait: we for its SYNC, it for our claim (P8)
        if (
            shared.role is Role.REPLICA
            and peer_is_master
            and hello.epoch > shared.state.epoch
            and not self._stays(hello)
        ):
            self.to_probe(f"the master has begun epoch {hello.epoch}")  # it makes its SYNC from a new HELLO of ours
        if self.claim is not None and max(hello.epoch, hello.promised_epoch) > self.claim.epoch:
            # Its answer may be on its way and say "done", of a moment before the peer claimed over it.
            self.to_probe("the peer has a higher epoch than the claim under way")
        if self.serving:
            if hello.epoch > shared.state.epoch or hello.promised_epoch > shared.state.epoch:
                self.to_probe("the peer has a higher epoch")
            elif peer_is_master and hello.epoch == shared.state.epoch and hello.owner == shared.peer:
                self._two_owners(hello.epoch, hello.history)
            elif hello.role == Role.DIVERGED.value:
                self.source.refused()  # it takes nothing until an operator has chosen
                if shared.peer not in self.required:
                    return
                shared.become(Role.MASTER_SUSPENDED, f"{shared.peer} has DIVERGED: going on without it")
            elif self.source.phase is Phase.LIVE and hello.wants_full and not peer_is_master:
                self.leave_asked = shared.peer in self.required
            elif peer_is_master or self.source.phase is not Phase.IDLE:
                return  # it will step down on our HELLO; a SYNC already sent stands against an older HELLO (P12)
            else:
                self.sync_when_read = True
        self._read_register(now_ms)
        self._decide(now_ms)

    def on_tick(self, now_ms: int) -> None:
        """Time passes: read the register again when it is due, and decide."""
        shared = self.shared
        self.now_ms = now_ms
        if not shared.peer:
            return
        if shared.role in (Role.PROBE, Role.MASTER_SUSPENDED):
            if now_ms - self.read_at_ms >= REGISTER_RETRY_MS:
                self._read_register(now_ms)
            self._decide(now_ms)
            return
        if self.serving:
            self._watch_progress(now_ms)
            if self.source.phase is Phase.ASIDE:
                self._read_register(now_ms)  # and leave the peer out once it has answered
            if self.rejoin_at_ms and now_ms >= self.rejoin_at_ms and self.source.phase is Phase.IDLE:
                self._begin_sync()
        if now_ms - self.read_at_ms >= REGISTER_WATCH_MS:
            # A replica reads too: it decides faster when its master goes, and status shows whether the witness answers.
            self._read_register(now_ms)


def _end_of(hello: DomainHello) -> LogEnd:
    return log_end([(each.epoch, each.first_index) for each in hello.history], hello.last_index, hello.digest)


def _data_of(hello: DomainHello) -> DataMark:
    """A copy that waits for an operator takes part in nothing, whatever it holds."""
    return DataMark.STALE if hello.role == Role.DIVERGED.value else data_of(hello.data_state)

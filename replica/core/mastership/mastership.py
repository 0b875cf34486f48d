"""Who is master of one domain, and in which epoch: takes events and returns effects. Never orders a client's call.

Decides when to claim and which member to follow, of what its parts know, each of which owns its fields:

    RegisterView  the register, and when it is read          Peer        the other member, and the SYNC made for it
    MemberRole    the role; its `become_*` alone write it    CommitRule  who must hold what, and what is committed
    Claims        the way from a claim to serving            Following   which SYNC is taken
    Leaving       going on without a slow peer               CopyOrders  orders against the copy here
    Verdicts      answers about a lost peer                  Recall      volatile bodies that the peer still has

A part gets what it uses from its constructor, and none of them knows this class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from failover.classifier import EventKind
from failover.gate import Consequence, Ruling
from failover.log_end import log_end
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
from failover.steps import Step
from replica.core.mastership.claims import Claims, EpochLog
from replica.core.mastership.commit_rule import ClientCalls, CommitRule
from replica.core.mastership.copy_orders import CopyOrders
from replica.core.mastership.following import Following
from replica.core.mastership.leaving import Leaving
from replica.core.mastership.peer import Peer
from replica.core.mastership.register_view import RETRY_MS, WATCH_MS, RegisterView
from replica.core.mastership.role import ClaimUnderWay, MemberRole
from replica.core.mastership.verdicts import Verdicts
from replica.core.replication.recall import Recall
from replica.core.replication.sync_source import Phase
from replica.core.state.effects import Fail

if TYPE_CHECKING:
    from failover.classifier import Answer
    from failover.register import Register, SetOutcome
    from replica.core.replication.sync_source import SyncSource
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.effects import Purpose
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import DomainHello, OpenAck


class DomainPorts(ClientCalls, EpochLog, Protocol):
    """What a mastership needs of the domain that it is of."""

    def say_hello(self) -> None:
        """Report to the peer where this member stands now."""
        ...


class Mastership:
    """The mastership of one domain at one member: the events, and the parts that they go to."""

    def __init__(
        self,
        shared: Shared,
        source: SyncSource,
        target: SyncTarget,
        ports: DomainPorts,
        *,
        bias_ms: int,
        slow_peer_ms: int,
        meet_ms: int,
    ) -> None:
        self.shared = shared
        self.source = source
        self.target = target
        self.view = view = RegisterView(shared)
        self.peer = peer = Peer(shared, source)
        self.commit = commit = CommitRule(shared, source, view, ports)
        self.role = role = MemberRole(shared, source, target, peer, commit, ports)
        self.claims = claims = Claims(shared, view, peer, commit, role, source, target, ports, bias_ms=bias_ms)
        self.verdicts = verdicts = Verdicts(shared, view, peer)
        self.following = Following(shared, target, peer, role)
        self.leaving = Leaving(shared, source, view, peer, commit, role, claims, verdicts, slow_peer_ms=slow_peer_ms)
        self.copy_orders = CopyOrders(shared, target, view, peer, role, self.following, ports.say_hello)
        self.recall = Recall(shared)
        self.now_ms = 0
        """Of the last event that said it."""
        self.started_ms = 0
        self.meet_ms = meet_ms
        """After a start, how long a peer that may serve too is awaited before this member goes on alone (P20)."""

    # -- start -----------------------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        """Disk is read and the queues are rebuilt."""
        shared = self.shared
        self.now_ms = self.started_ms = now_ms
        if shared.peer:
            if shared.state.diverged:
                self.role.become_diverged_again()
                return
            self.role.become_probe("started: looking for the peer and the register")
            self.view.read(now_ms)
            return
        # A restarted master never resumes its epoch: records it shipped or lost must not share a number with new ones.
        epoch = next_epoch(None, shared.state.epoch, shared.state.promised_epoch, 0)
        if why := self.claims.is_spent(epoch):
            shared.outbox.add(Fail(f"domain {shared.name}: {why}"))
            return
        alone = frozenset({shared.member})
        self.claims.store_epoch(ClaimUnderWay(Step.STORING, alone, epoch, None, "unpaired manager starts"))
        self.role.become_master(alone, "unpaired", now_ms)

    # -- the register ----------------------------------------------------------------------------------------------

    def on_register(self, register: Register | None, now_ms: int) -> None:
        """The register as it is; None when it cannot be read now."""
        self.now_ms = now_ms
        self.view.on_read(register, now_ms)
        if register is None and self.peer.lost_at_ms is not None and not self.verdicts.policy.by_authority:
            self.verdicts.ask(EventKind.AUTHORITY_LOST, now_ms, "neither the peer nor the authority answers")
        claim = self.role.claim
        if claim is not None and claim.step is Step.READING:
            self.claims.on_ceded_read(register)
        elif self.shared.serving:
            self.check_own(register)
        if self.peer.sync_when_read and self.shared.serving:
            self.peer.begin_sync(now_ms)
        self.leaving.maybe_leave()
        self.decide(now_ms)

    def check_own(self, register: Register | None) -> None:
        """P7: anything but our own committed record means that somebody claimed; unreadable changes nothing while
        paired.
        """
        commit = self.commit
        if register is None or commit.publishing:
            return
        if not self.view.owns(register):
            if self.role.unrecorded:
                self.claims.record(register)
            else:
                self.role.become_probe("the register holds another record than ours")
        elif commit.is_synced() and self.shared.peer not in register.in_sync_set:
            commit.publish(register)
        elif commit.is_synced() and self.shared.link is not Link.PAIRED:
            commit.paired()  # the add that went unanswered has landed

    def on_set_result(self, purpose: Purpose, outcome: SetOutcome, register: Register | None, now_ms: int) -> None:
        """A compare-and-set ended."""
        claim = self.role.claim
        adds = self.commit.publishing and purpose == self.commit.add_purpose
        if not adds and (claim is None or purpose != claim.purpose):
            # Of what was given up; if it landed, P7 finds it. What it says is older than what is known by now.
            return
        if register is not None:
            self.view.on_set(register)
        if adds or claim is None:
            self.commit.on_add_result(outcome, now_ms)
        else:
            self.claims.on_set_result(claim, outcome, register, now_ms)

    # -- decide ----------------------------------------------------------------------------------------------------

    def decide(self, now_ms: int) -> None:
        """Claim, follow or wait, by the promotion table."""
        shared, role, claims = self.shared, self.role, self.claims
        wants = shared.role is Role.PROBE or (shared.serving and shared.role is Role.MASTER_SUSPENDED)
        if not wants or role.claim is not None or self.commit.publishing or shared.machine is None or not shared.peer:
            return
        ruling = self.verdicts.current(now_ms)
        alone = self.peer.is_lost
        if alone and ruling.effect is Consequence.CLAIM_UNRECORDED:
            self.verdicts.report_current(ruling)
            claims.begin_unrecorded(frozenset({shared.member}), ruling.why)
            return
        if not claims.may_claim:
            shared.explain("waiting for the authority to confirm this start")
            return
        decision = decide(self.facts(now_ms))
        if shared.role is Role.PROBE:
            shared.explain(str(decision.reason))
        if not isinstance(decision, Claim):
            if isinstance(decision, Follow):
                claims.forget_failures()
            elif alone and decision.reason in (Why.NO_VERDICT, Why.REGISTER_UNREADABLE):
                shared.explain(ruling.why)
                self.verdicts.report_current(ruling)
            return
        if now_ms < claims.not_before_ms:
            return
        if alone:
            self.verdicts.report_current(ruling)
        elif not self.recall.is_done(now_ms):
            shared.explain("asks the peer for volatile messages that a restart has lost here")
            return
        claims.begin(decision.members, str(decision.reason))

    def facts(self, now_ms: int) -> Facts:
        """What this member knows of the domain now, for the promotion table."""
        shared, peer, view = self.shared, self.peer, self.view
        delay = claim_delay_ms(self.role.was_master, peer.refused, self.claims.bias_ms)
        lost_at, young_since = peer.lost_at_ms, view.young_since_ms
        return Facts(
            member=shared.member,
            peer=shared.peer,
            data=shared.state.data,
            peer_connected=peer.connected,
            peer_role_master=peer.is_master,
            peer_data=peer.data(),
            register=view.known,
            peer_lost=lost_at is not None and now_ms >= lost_at + delay,
            not_met=self.may_still_come(now_ms),
            verdict_lets=self.verdicts.current(now_ms).lets_claim,
            epoch=shared.state.epoch,
            peer_epoch=peer.hello.epoch if peer.hello is not None else 0,
            end=log_end(shared.log.history, shared.log.last_index, shared.log.digest),
            peer_end=peer.end(),
            young_claim=young_since is not None and now_ms < young_since + YOUNG_CLAIM_MS,
        )

    def may_still_come(self, now_ms: int) -> bool:
        """Whether a peer that may serve too is awaited: neither has been heard of since this process started (P20)."""
        register, shared = self.view.register, self.shared
        if self.verdicts.generation or now_ms >= self.started_ms + self.meet_ms:
            return False
        return register is not None and shared.peer in register.eligible_set and shared.state.data is DataMark.IN_SYNC

    # -- verdicts --------------------------------------------------------------------------------------------------

    def on_verdict(self, answer: Answer, kind: EventKind, now_ms: int) -> Ruling:
        """A classifier or an operator has answered; returns what is made of it."""
        ruling = self.verdicts.take(answer, kind, now_ms)
        self.verdicts.report(ruling, answer.verdict)
        if ruling.effect is Consequence.FAIL:
            self.role.become_failed(ruling.why)
        elif kind is EventKind.PEER_SLOW:
            self.leaving.leave_behind(now_ms)
        else:
            self.view.read(now_ms)
            self.decide(now_ms)
        return ruling

    def force(self, reason: str) -> str:
        """Become master whatever register and mark say, by an operator's word. Returns why not; empty: it claims."""
        shared, claims = self.shared, self.claims
        if shared.serving:
            return f"{shared.member} is master of {shared.name} already"
        if shared.role is Role.FAILED:
            return f"{shared.member} has FAILED in {shared.name}, and its process ends: start it again"
        if shared.state.data in (DataMark.EMPTY, DataMark.SYNCING, DataMark.DAMAGED) or shared.machine is None:
            return f"the copy here is {shared.state.data.name}: there is nothing whole to go on with"
        if self.peer.is_master:
            return f"{shared.peer} is connected and master: hand off, or stop it first"
        if self.role.claim is not None:
            return "a claim is under way: look again in a second"
        above = claims.epoch_above_all()
        readable = self.view.readable
        if why := claims.is_spent(above if readable else unrecorded_epoch(above, shared.member, shared.peer)):
            return why
        alone = frozenset({shared.member})
        if readable:
            claims.begin(alone, f"forced: {reason}", forced=True)
        else:
            claims.begin_unrecorded(alone, f"forced: {reason}", forced=True)
        return ""

    # -- the disk --------------------------------------------------------------------------------------------------

    def on_epoch_durable(self, epoch: int) -> None:
        """The first record of the epoch is durable here."""
        self.claims.on_epoch_durable(epoch, self.now_ms)

    # -- the peer --------------------------------------------------------------------------------------------------

    def on_connected(self) -> None:
        """The Data stream is open; HELLOs cross."""
        self.peer.on_connected()
        self.recall.reset()
        self.verdicts.on_connected()
        self.shared.set_link(Link.HANDSHAKE)
        if self.shared.role is Role.MASTER_SUSPENDED and self.shared.serving:
            self.role.become_master_again("the peer is back")

    def on_disconnected(self, now_ms: int) -> None:
        """The connection is gone, for whatever reason; the peer is not lost yet."""
        self.verdicts.on_disconnected(self.peer.last_index)
        self.peer.on_disconnected()
        self.source.stop()
        self.target.stop()
        self.shared.set_link(Link.DOWN)
        if self.shared.role is Role.REPLICA:
            self.role.become_probe("the connection to the master was lost")  # P9
        self.view.read(now_ms)

    def on_lost(self, now_ms: int, *, refused: bool, cause: str = "") -> None:
        """The peer counts as lost: silent for longer than the lost time, or the link was reset and the reconnect
        refused.
        """
        self.peer.on_lost(now_ms, refused=refused)
        self.verdicts.ask_about_loss(now_ms, self.started_ms, cause or ("refused" if refused else "silent"))
        if self.shared.serving and self.shared.peer in self.commit.required:
            self.role.become_suspended("the peer is lost; nothing is acknowledged until the register agrees")
            # Read before the claim: a claim that nobody answers costs the mastership (P6), an unreadable register does
            # not.
            self.view.read(now_ms)
        else:
            self.decide(now_ms)

    def on_open_ack(self, ack: OpenAck) -> None:
        """The replica holds everything up to SYNC_END."""
        self.commit.on_open_ack(ack, unrecorded=self.role.unrecorded)

    def on_hello(self, hello: DomainHello, now_ms: int) -> None:
        """Where the peer stands now (P12)."""
        self.now_ms = now_ms
        self.peer.on_hello(hello)
        self.following.on_hello(hello)
        claim = self.role.claim
        if claim is not None and self.peer.highest_epoch > claim.epoch:
            # Its answer may be on its way and say "done", of a moment before the peer claimed over it.
            self.role.become_probe("the peer has a higher epoch than the claim under way")
        if self.shared.serving and not self._meets(hello):
            return
        self.view.read(now_ms)
        self.decide(now_ms)

    def _meets(self, hello: DomainHello) -> bool:
        """A master hears where its peer stands. False: nothing follows of it."""
        shared, source, commit = self.shared, self.source, self.commit
        if self.peer.highest_epoch > shared.state.epoch:
            self.role.become_probe("the peer has a higher epoch")
        elif self.peer.is_master and hello.epoch == shared.state.epoch and hello.owner == shared.peer:
            self.following.two_owners(hello.epoch, hello.history)
        elif hello.role == Role.DIVERGED.value:
            source.refused()  # it takes nothing until an operator has chosen
            if shared.peer not in commit.required:
                return False
            self.role.become_suspended(f"{shared.peer} has DIVERGED: going on without it")
        elif source.phase is Phase.LIVE and hello.wants_full and not self.peer.is_master:
            self.leaving.on_wish()
        elif self.peer.is_master or source.phase is not Phase.IDLE:
            return False  # it will step down on our HELLO; a SYNC already sent stands against an older HELLO (P12)
        else:
            self.peer.sync_later()
        return True

    # -- time ------------------------------------------------------------------------------------------------------

    def on_tick(self, now_ms: int) -> None:
        """Time passes: read the register again when it is due, and decide."""
        shared, view = self.shared, self.view
        self.now_ms = now_ms
        if not shared.peer:
            return
        if shared.role in (Role.PROBE, Role.MASTER_SUSPENDED):
            view.read_when_due(now_ms, RETRY_MS)
            self.decide(now_ms)
            return
        if shared.serving:
            self.leaving.watch_progress(now_ms)
            if self.source.phase is Phase.ASIDE:
                view.read(now_ms)  # and leave the peer out once it has answered
            self.peer.rejoin(now_ms)
        # A replica reads too: it decides faster when its master goes, and status shows whether the witness answers.
        view.read_when_due(now_ms, WATCH_MS)

"""Bugs of epochs: who may claim, with which number, what is fenced, and what a log must lose first; plants them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import failover.gate
import failover.promotion
import failover.register
import replica.core.mastership.claims
import replica.core.mastership.following
import replica.core.mastership.mastership
import replica.core.mastership.peer
import replica.core.replication.sync_target
from chaos.sim.bugs.planting import Patch, bug
from failover.classifier import Verdict
from failover.log_end import Ends, LogEnd
from failover.marks import DataMark, Role
from failover.register import Register, RegisterState
from replica.core.domain import Domain
from replica.core.mastership.claims import Claims
from replica.core.mastership.following import Following
from replica.core.mastership.mastership import Mastership
from replica.core.replication.sync_source import Phase, SyncSource
from replica.core.replication.sync_target import SyncTarget
from replica.core.state.shared import Shared
from tandemq.peer.v1.peer_service_pb2 import OpAck

if TYPE_CHECKING:
    from failover.classifier import Answer
    from tandemq.peer.v1.peer_service_pb2 import DomainHeartbeat, DomainHello, PeerFrame


@bug(
    "outsider-promoted",
    "P5, reliability 2",
    "A member outside of the committed set may become master.",
    "restart",
    first=12,
)
def set_is_no_condition(patch: Patch) -> None:
    patch.setattr(failover.promotion, "is_eligible", lambda _member, data, _register: data is not None and data.is_good)
    patch.setattr(failover.register, "check_claim", lambda _current, _desired: None)  # the witness asks the same


@bug("bad-copy-promoted", "P5", "A member may become master whatever its data mark says.", "disk", first=15)
def mark_is_no_condition(patch: Patch) -> None:
    def is_eligible(member: str, _data: DataMark, register: Any) -> bool:
        return register is not None and member in register.eligible_set

    patch.setattr(failover.promotion, "is_eligible", is_eligible)
    patch.setattr(failover.gate, "_misfit", lambda _verdict, _now, **_by: "")  # the gate asks the same


@bug("restart-keeps-epoch", "P11, reliability 4", "A master that restarts goes on in its epoch.", "tail", first=3)
def resume_the_epoch(patch: Patch) -> None:
    original = Mastership.start

    def start(self: Mastership, now_ms: int) -> None:
        state = self.shared.state
        if state.epoch and self.shared.member == "a":
            self.role.become_master(frozenset(state.in_sync_set), "goes on where it was", now_ms)
        else:
            original(self, now_ms)

    patch.setattr(Mastership, "start", start)


def _compare_no_digests(patch: Patch) -> None:
    patch.setattr(SyncSource, "judge_point", lambda self, common, _digest: self.begin_delta(common, full=False))
    patch.setattr(SyncTarget, "expected", lambda self, begin: self.shared.log.digest_at(begin.base_index))


def _any_number_is_let_in(patch: Patch) -> None:
    """Both the author and the witness would refuse a number that is not new."""
    patch.setattr(failover.register, "check_claim", lambda _current, _desired: None)

    def claim(current: Register, *, member: str, epoch: int, members: frozenset[str], nonce: bytes) -> Register:
        state = RegisterState.CLAIMED
        return Register(current.version + 1, epoch, member, members, current.eligible_set, state, nonce)

    patch.setattr(replica.core.mastership.claims, "claim", claim)


@bug(
    "own-number-plus-one",
    "P4",
    "A claim takes the number after its author's own, whatever others use.",
    "newborn",
    first=1017,
)
def own_number_plus_one(patch: Patch) -> None:
    patch.setattr(replica.core.mastership.claims, "next_epoch", lambda _register, own, _promised, _peer: own + 1)
    _any_number_is_let_in(patch)


@bug(
    "epoch-kept-when-alone",
    "P4, reliability 4",
    "A restarted master whose peer cannot be reached claims the number it had.",
    "blackout",
    2_000,
    first=22,
)
def epoch_kept_when_alone(patch: Patch) -> None:
    original = Claims.epoch_above_all

    def epoch_above_all(self: Claims) -> int:
        state = self.shared.state
        restarted = not self.role.was_master and state.owner == self.shared.member
        return state.epoch if restarted and not self.peer.connected else original(self)

    patch.setattr(Claims, "epoch_above_all", epoch_above_all)
    _any_number_is_let_in(patch)


@bug("no-epoch-fence", "P13, reliability 3", "A frame is taken whatever epoch it is of.", "flap", 2_000, first=1)
def no_epoch_fence(patch: Patch) -> None:
    original = Domain.on_frame

    def on_frame(self: Domain, frame: PeerFrame, domain_ms: int) -> bool:
        if frame.WhichOneof("frame") != "sync_begin":
            frame.epoch = self.shared.state.epoch
        return original(self, frame, domain_ms)

    def on_heartbeat(self: Domain, beat: DomainHeartbeat) -> None:
        if self.shared.role is Role.REPLICA:
            self.target.on_commit(beat.commit_index)

    patch.setattr(Domain, "on_frame", on_frame)
    patch.setattr(Domain, "on_heartbeat", on_heartbeat)
    any_sync_is_taken(patch)  # of other frames only that is harmful which crosses connections


@bug("stale-sync-taken", "P13, reliability 3", "A SYNC of a lower epoch is followed.", "flap", 2_000, first=1)
def any_sync_is_taken(patch: Patch) -> None:
    def may_follow(self: Following, epoch: int, _begin: Any) -> bool:
        was_master = self.role.was_master
        self.role.become_probe("the peer says so")
        self.role.become_replica(epoch)
        self.role.was_master, self.shared.master = was_master, ""  # it follows whoever asks, and asks not who that is
        return True

    original = SyncTarget.begin

    def begin(self: SyncTarget, frame_epoch: int, begin: Any) -> None:
        self.shared.progress.commit_index = 0  # a second guard: what is committed here is not cut
        original(self, frame_epoch, begin)

    patch.setattr(Following, "may_follow", may_follow)
    patch.setattr(SyncTarget, "begin", begin)


@bug(
    "left-over-claim-stays",
    "P7",
    "A master does not look whether the register holds another record.",
    "register",
    first=5,
)
def register_is_not_read_again(patch: Patch) -> None:
    patch.setattr(Mastership, "check_own", lambda _self, _register: None)


@bug("both-wait", "P8", "Of two members with equal logs each waits for the other.", "restart", first=6)
def each_waits_for_the_other(patch: Patch) -> None:
    patch.setattr(failover.promotion, "named_word", lambda _facts: "peer")


def both_wait_for_the_named(patch: Patch) -> None:
    """P8, in a script. In random runs the longer log goes first now (P20), and hardly ever are both equal then."""
    original = Mastership.on_hello

    def on_hello(self: Mastership, hello: DomainHello, now_ms: int) -> None:
        if self.shared.role is Role.REPLICA and hello.role == Role.PROBE.value:
            return  # goes on following a master that stepped down
        original(self, hello, now_ms)

    patch.setattr(Mastership, "on_hello", on_hello)


@bug("holder-goes-first", "P20", "The register's holder goes first, whatever the two logs hold.", "lying", first=5)
def holder_goes_first(patch: Patch) -> None:
    patch.setattr(failover.promotion, "compare", lambda _own, _peer: Ends.EQUAL)


@bug("start-goes-alone", "P20", "A member that starts waits for no peer that may serve too.", "lying", first=20)
def start_goes_alone(patch: Patch) -> None:
    patch.setattr(Mastership, "may_still_come", lambda _self, _now_ms: False)


def claims_make_longer(patch: Patch) -> None:
    """P20. The record with which a claim begins its epoch counts, though nobody was served in it."""

    def log_end(boundaries: Any, last_index: int, digest: bytes) -> LogEnd:
        epoch = boundaries[-1][0] if boundaries else 0
        return LogEnd(epoch, last_index, digest, (epoch, last_index))

    for module in (replica.core.mastership.mastership, replica.core.mastership.peer):
        patch.setattr(module, "log_end", log_end)


def committed_is_followed_away(patch: Patch) -> None:
    """P21. A SYNC is taken whatever its history lacks."""
    patch.setattr(replica.core.mastership.following, "lacks_committed", lambda _shared, _begin: None)


@bug(
    "sync-taken-back",
    "P12",
    "A master gives up the SYNC that it has sent when an older HELLO comes.",
    "newborn",
    first=22,
)
def sync_is_taken_back(patch: Patch) -> None:
    original = Mastership.on_hello

    def on_hello(self: Mastership, hello: DomainHello, now_ms: int) -> None:
        under_way = self.shared.serving and self.source.phase is not Phase.IDLE
        original(self, hello, now_ms)
        if under_way and self.shared.serving and hello.epoch < self.shared.state.epoch:
            self.source.stop()

    patch.setattr(Mastership, "on_hello", on_hello)


@bug(
    "no-new-handshake",
    "reliability 5",
    "A master does not begin anew with a replica of its own epoch.",
    "flap",
    first=35,
)
def no_new_handshake(patch: Patch) -> None:
    original = Mastership.on_hello

    def on_hello(self: Mastership, hello: DomainHello, now_ms: int) -> None:
        original(self, hello, now_ms)
        if hello.epoch == self.shared.state.epoch:
            self.peer.sync_when_read = False

    patch.setattr(Mastership, "on_hello", on_hello)


@bug(
    "tail-counts-before-cut",
    "P10, reliability 6",
    "What a replica has beyond its master counts as held.",
    "half_added",
    first=135,
)
def tail_is_acknowledged(patch: Patch) -> None:
    original = SyncTarget.begin

    def begin(self: SyncTarget, frame_epoch: int, begin: Any) -> None:
        self.shared.state.epoch = frame_epoch
        self.shared.outbox.send(op_ack=OpAck(durable_index=self.shared.progress.durable_index))
        original(self, frame_epoch, begin)

    patch.setattr(SyncTarget, "begin", begin)


@bug("tail-not-cut", "P10, reliability 6", "A replica keeps what its new master does not have.", "tail", first=143)
def tail_is_not_cut(patch: Patch) -> None:
    patch.setattr(replica.core.replication.sync_target, "cut_above", lambda shared, _begin: shared.log.last_index)


@bug("digests-not-compared", "P11", "Two logs count as equal where epoch and index are.", "tail", first=3)
def digests_are_not_compared(patch: Patch) -> None:
    _compare_no_digests(patch)
    resume_the_epoch(patch)


@bug("no-mark-before-transfer", "P10", "A copy that is being filled still counts as whole.", "disk", first=1)
def no_mark_before_a_transfer(patch: Patch) -> None:
    original = Shared.mark

    def mark(self: Shared, data: DataMark) -> None:
        if not (data is DataMark.SYNCING and self.state.data.is_good):
            original(self, data)

    patch.setattr(Shared, "mark", mark)


@bug(
    "no-answer-is-a-yes",
    "pair-protocol 5.19",
    "A classifier that says nothing, or WAIT, lets a member go on.",
    "alone",
    first=19,
)
def no_answer_is_a_yes(patch: Patch) -> None:
    original = failover.gate._rule

    def rule(answer: Answer, now: failover.gate.Situation) -> Any:
        if answer.verdict is None or answer.verdict is Verdict.WAIT:
            verdict = Verdict.CONTINUE_AS_MASTER if now.role in failover.gate.MASTERS else Verdict.ASSUME_MASTERSHIP
            answer = replace(answer, verdict=verdict)
        return original(answer, now)

    patch.setattr(failover.gate, "_rule", rule)

"""Each safety rule of the pair holds, and its test is worth something: with the rule taken out, the same story fails.

`Pn`: the model check's rules; `reliability n`: the safety rules of the pair; R: docs/REQUIREMENTS.md. A mutant is the
product with one rule removed, and with what else would stand in for that rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

import failover.gate
import failover.promotion
import failover.register
import replica.claiming
import replica.machine.plan_enqueue
import replica.replication
from failover.marks import DataMark, Role
from replica.replication import Replication
from replica.shared import Shared
from replica.sync_target import SyncTarget
from tandemq.peer.v1.peer_service_pb2 import OpAck
from tests.support import stories

Patch = Callable[[pytest.MonkeyPatch], None]


class Rule(NamedTuple):
    name: str
    story: Callable[[], None]
    remove: Patch
    breaks: str
    """What the story must say without the rule."""


def _set_advance(patch: pytest.MonkeyPatch, commit_index_of: Callable[[Replication], int]) -> None:
    def advance(self: Replication) -> None:
        commit_index = commit_index_of(self)
        self.alone_up_to = 0
        if self.serving and commit_index >= self.epoch_first and commit_index > self.shared.commit_index:
            self.shared.commit_index = commit_index
            self.mastership.on_committed()

    patch.setattr(Replication, "advance", advance)


def ack_without_the_peer(patch: pytest.MonkeyPatch) -> None:
    _set_advance(patch, lambda self: self.shared.durable_index)


def ack_without_own_fsync(patch: pytest.MonkeyPatch) -> None:
    def commit_index_of(self: Replication) -> int:
        return self.source.peer_durable if self.shared.peer in self.required else self.shared.durable_index

    _set_advance(patch, commit_index_of)


def resume_the_epoch(patch: pytest.MonkeyPatch) -> None:
    original = Replication.start

    def start(self: Replication, now_ms: int) -> None:
        state = self.shared.state
        if state.epoch and self.shared.member == "a":
            self._serve(frozenset(state.in_sync_set), "goes on where it was")
        else:
            original(self, now_ms)

    patch.setattr(Replication, "start", start)


def mark_is_no_condition(patch: pytest.MonkeyPatch) -> None:
    def is_eligible(member: str, _data: DataMark, register: Any) -> bool:
        return register is not None and member in register.eligible_set

    patch.setattr(failover.promotion, "_is_eligible", is_eligible)
    patch.setattr(failover.gate, "_misfit", lambda _verdict, _now, **_by: "")  # the gate asks the same


def set_is_no_condition(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(failover.promotion, "_is_eligible", lambda _member, data, _register: data.is_good)
    patch.setattr(failover.register, "_check_claim", lambda _current, _desired: None)  # the witness asks the same


def tail_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    original = SyncTarget.begin

    def begin(self: SyncTarget, frame_epoch: int, begin: Any) -> None:
        self.shared.state.epoch = frame_epoch
        self.shared.send(op_ack=OpAck(durable_index=self.shared.durable_index))
        original(self, frame_epoch, begin)

    patch.setattr(SyncTarget, "begin", begin)


def no_dedup(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.machine.plan_enqueue, "_repetition", lambda _state, _queue, _call: None)


def answer_by_own_fsync(patch: pytest.MonkeyPatch) -> None:
    original = SyncTarget.on_durable

    def on_durable(self: SyncTarget) -> None:
        if self.active and not self.full:
            self.on_commit(self.shared.durable_index)
        original(self)

    patch.setattr(SyncTarget, "on_durable", on_durable)


def solo_before_the_register(patch: pytest.MonkeyPatch) -> None:
    original = Replication.on_lost

    def on_lost(self: Replication, now_ms: int, *, refused: bool, cause: str = "") -> None:
        if self.serving:
            self.required = frozenset({self.shared.member})
            self.advance()
            self.lost_at_ms = now_ms
        else:
            original(self, now_ms, refused=refused, cause=cause)

    patch.setattr(Replication, "on_lost", on_lost)


def unknown_is_success(patch: pytest.MonkeyPatch) -> None:
    original = Replication.on_set_result

    def on_set_result(self: Replication, purpose: str, outcome: str, register: Any, now_ms: int) -> None:
        original(self, purpose, "done" if outcome == "unknown" else outcome, register, now_ms)

    patch.setattr(Replication, "on_set_result", on_set_result)


def publish_first(patch: pytest.MonkeyPatch) -> None:
    def on_open_ack(self: Replication, ack: Any) -> None:
        if self.serving and self.source.on_open_ack(ack) and self.register is not None:
            self._publish(self.register)

    def on_add_result(self: Replication, outcome: str, _now_ms: int) -> None:
        self.publishing = False
        if outcome == "done":
            self.required = self.required | {self.shared.peer}
            self._paired()

    patch.setattr(Replication, "on_open_ack", on_open_ack)
    patch.setattr(Replication, "_on_add_result", on_add_result)
    patch.setattr(Replication, "_record_solo", lambda _self, _since: None)  # it would hold the publication back


def failed_add_drops_the_requirement(patch: pytest.MonkeyPatch) -> None:
    original = Replication._on_add_result

    def on_add_result(self: Replication, outcome: str, now_ms: int) -> None:
        original(self, outcome, now_ms)
        if outcome != "done":
            self.required = frozenset({self.shared.member})
            self.advance()

    patch.setattr(Replication, "_on_add_result", on_add_result)


def any_sync_is_taken(patch: pytest.MonkeyPatch) -> None:
    def may_follow(self: Replication, _epoch: int, _begin: Any) -> bool:
        self.to_probe("the peer says so")
        self.shared.become(Role.REPLICA, "follows whoever asks")
        return True

    original = SyncTarget.begin

    def begin(self: SyncTarget, frame_epoch: int, begin: Any) -> None:
        self.shared.commit_index = 0  # a second guard: what is committed here is not cut
        original(self, frame_epoch, begin)

    patch.setattr(Replication, "may_follow", may_follow)
    patch.setattr(SyncTarget, "begin", begin)


def own_number_plus_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.claiming, "next_epoch", lambda _register, own, _promised, _peer: own + 1)
    # Both the author and the witness would refuse a number that is not new.
    patch.setattr(failover.register, "_check_claim", lambda _current, _desired: None)
    unchecked = failover.register.Register

    def claim(current: Any, *, member: str, epoch: int, members: frozenset[str], nonce: bytes) -> Any:
        state = failover.register.RegisterState.CLAIMED
        return unchecked(current.version + 1, epoch, member, members, current.eligible_set, state, nonce)

    patch.setattr(replica.claiming, "claim", claim)


def register_is_not_read_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replication, "_check_own", lambda _self, _register: None)


def no_mark_before_a_transfer(patch: pytest.MonkeyPatch) -> None:
    original = Shared.mark

    def mark(self: Shared, data: DataMark) -> None:
        if not (data is DataMark.SYNCING and self.state.data.is_good):
            original(self, data)

    patch.setattr(Shared, "mark", mark)


def both_wait_for_the_named(patch: pytest.MonkeyPatch) -> None:
    original = Replication.on_hello

    def on_hello(self: Replication, hello: Any, now_ms: int) -> None:
        if self.shared.role is Role.REPLICA and hello.role == Role.PROBE.value:
            return  # goes on following a master that stepped down
        original(self, hello, now_ms)

    patch.setattr(Replication, "on_hello", on_hello)


RULES = (
    Rule("r122_ruling1_ack_waits_for_the_peers_fsync", stories.peer_has_not_written, ack_without_the_peer, "copies=2"),
    Rule("ruling1_ack_waits_for_the_own_fsync", stories.master_has_not_written, ack_without_own_fsync, "copies=2"),
    Rule("reliability4_p11_restart_takes_a_new_epoch", stories.number_used_twice, resume_the_epoch, "second record"),
    Rule("p5_only_a_good_mark_promotes", stories.empty_disk, mark_is_no_condition, "without the acknowledged"),
    Rule("p5_reliability2_only_the_set_promotes", stories.outside_the_set, set_is_no_condition, "without the ack"),
    Rule("p10_reliability6_tail_is_cut_first", stories.tail_counts_before_the_cut, tail_is_acknowledged, "copies=2"),
    Rule("ruling17_a_sequence_is_executed_once", stories.executed_twice, no_dedup, "twice"),
    Rule("p14_replica_answers_by_commit", stories.replicas_own_answer, answer_by_own_fsync, "copies=2"),
    Rule("p2_alone_only_after_the_register", stories.solo_before_the_register, solo_before_the_register, "without the"),
    Rule("p6_only_done_opens_the_gate", stories.timeout_read_as_success, unknown_is_success, "without the ack"),
    Rule("p3_require_then_publish", stories.published_too_early, publish_first, "without the acknowledged"),
    Rule("p2_p3_unknown_add_stays_required", stories.unknown_add, failed_add_drops_the_requirement, "without the ack"),
    Rule("p13_reliability3_lower_epoch_is_refused", stories.stale_sync, any_sync_is_taken, "without the acknowledged"),
    Rule("p4_number_above_all", stories.own_number_plus_one, own_number_plus_one, "second record"),
    Rule("p7_left_over_claim_is_found", stories.left_over_claim, register_is_not_read_again, "left-over claim stays"),
    Rule("p8_named_one_claims", stories.left_over_claim, both_wait_for_the_named, "left-over claim stays"),
    Rule("p10_mark_before_a_transfer", stories.half_a_transfer, no_mark_before_a_transfer, "without the acknowledged"),
)


@contextmanager
def removed(rule: Rule) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        rule.remove(patch)
        yield


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_holds(rule: Rule) -> None:
    rule.story()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_story_fails_without_the_rule(rule: Rule) -> None:
    with removed(rule), pytest.raises(AssertionError, match=rule.breaks):
        rule.story()

"""Bugs of what is committed: who must hold an operation, and what the register must have said before; plants them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from chaos.sim.bugs.planting import Patch, bug
from failover.register import SetOutcome
from failover.steps import Step
from replica.core.mastership.commit_rule import CommitRule
from replica.core.mastership.mastership import Mastership
from replica.core.ordering.holding import Holding
from replica.core.replication.sync_target import SyncTarget
from tandemq.peer.v1.peer_service_pb2 import OpAck

if TYPE_CHECKING:
    from failover.register import Register
    from replica.core.replication.op_frame import OpFrame
    from replica.core.state.effects import Purpose


def _set_advance(patch: Patch, commit_index_of: Callable[[CommitRule], int]) -> None:
    def advance(self: CommitRule) -> None:
        commit_index = commit_index_of(self)
        self.alone_up_to = 0
        if (
            self.shared.serving
            and commit_index >= self.epoch_first
            and commit_index > self.shared.progress.commit_index
        ):
            self.shared.progress.commit_index = commit_index  # the assertion of `Progress.commit` goes with the rule
            self.calls.on_committed()

    patch.setattr(CommitRule, "advance", advance)


@bug("ack-before-replica", "ruling 1, reliability 3", "A master answers before the replica holds it.", "tail", first=1)
def ack_without_the_peer(patch: Patch) -> None:
    _set_advance(patch, lambda self: self.shared.progress.durable_index)


@bug("replica-acks-before-fsync", "ruling 1", "A replica says of what it was sent that its disk has it.", "tail", 10)
def replica_acks_what_it_received(patch: Patch) -> None:
    original = SyncTarget.on_op

    def on_op(self: SyncTarget, op: OpFrame) -> None:
        original(self, op)
        if self.active and not self.full:
            self.shared.outbox.send(op_ack=OpAck(durable_index=self.shared.log.last_index))

    patch.setattr(SyncTarget, "on_op", on_op)


@bug("ack-before-own-fsync", "ruling 1", "A master answers what only the replica has on disk.", "tail", first=1)
def ack_without_own_fsync(patch: Patch) -> None:
    def commit_index_of(self: CommitRule) -> int:
        return self.source.peer_durable if self.shared.peer in self.required else self.shared.progress.durable_index

    _set_advance(patch, commit_index_of)


@bug("solo-before-register", "P2", "A master that loses its peer goes on alone at once.", "split", first=3)
def solo_before_the_register(patch: Patch) -> None:
    original = Mastership.on_lost

    def on_lost(self: Mastership, now_ms: int, *, refused: bool, cause: str = "") -> None:
        if self.shared.serving:
            self.commit.required = frozenset({self.shared.member})
            self.commit.advance()
            self.peer.lost_at_ms = now_ms
        else:
            original(self, now_ms, refused=refused, cause=cause)

    patch.setattr(Mastership, "on_lost", on_lost)


@bug("publish-before-require", "P3", "A master has its peer named before it waits for it.", "half_added", first=1)
def publish_first(patch: Patch) -> None:
    def on_open_ack(self: Mastership, ack: Any) -> None:
        if self.shared.serving and self.source.on_open_ack(ack) and self.view.register is not None:
            self.commit.publish(self.view.register)

    def on_add_result(self: CommitRule, outcome: SetOutcome, _now_ms: int) -> None:
        self.publishing = False
        if outcome is SetOutcome.DONE:
            self.required = self.required | {self.shared.peer}
            self.paired()

    patch.setattr(Mastership, "on_open_ack", on_open_ack)
    patch.setattr(CommitRule, "on_add_result", on_add_result)
    patch.setattr(CommitRule, "record_solo", lambda _self, _since: None)  # it would hold the publication back


@bug("failed-add-forgets", "P2, P3", "An addition without an answer drops the requirement.", "half_added", first=5)
def failed_add_drops_the_requirement(patch: Patch) -> None:
    original = CommitRule.on_add_result

    def on_add_result(self: CommitRule, outcome: SetOutcome, now_ms: int) -> None:
        original(self, outcome, now_ms)
        if outcome is not SetOutcome.DONE:
            self.required = frozenset({self.shared.member})
            self.advance()

    patch.setattr(CommitRule, "on_add_result", on_add_result)


@bug("serve-before-commit", "P6", "A claimant serves while the register still says CLAIMED.", "split", first=15)
def serve_before_the_commit(patch: Patch) -> None:
    original = Mastership.on_epoch_durable

    def on_epoch_durable(self: Mastership, epoch: int) -> None:
        original(self, epoch)
        claim = self.role.claim
        if claim is not None and claim.step is Step.COMMITTING:
            self.claims.open_gate(claim, self.now_ms)

    patch.setattr(Mastership, "on_epoch_durable", on_epoch_durable)


@bug("unknown-is-done", "P6", "A set of the register without an answer counts as done.", "split", first=14)
def unknown_is_success(patch: Patch) -> None:
    original = Mastership.on_set_result

    def on_set_result(
        self: Mastership, purpose: Purpose, outcome: SetOutcome, register: Register | None, now_ms: int
    ) -> None:
        said = SetOutcome.DONE if outcome is SetOutcome.UNKNOWN else outcome
        original(self, purpose, said, register, now_ms)

    patch.setattr(Mastership, "on_set_result", on_set_result)


@bug(
    "replica-answers-by-own-fsync", "P14", "A replica answers once it has it, whatever its master has.", "tail", first=1
)
def answer_by_own_fsync(patch: Patch) -> None:
    original = SyncTarget.on_durable

    def on_durable(self: SyncTarget) -> None:
        if self.active and not self.full:
            self.on_commit(self.shared.progress.durable_index)
        original(self)

    patch.setattr(SyncTarget, "on_durable", on_durable)


@bug(
    "deliver-past-commit", "pair-protocol 5.19", "What is ordered is delivered before it is committed.", "tail", first=8
)
def deliver_past_commit(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module._enqueue

    def enqueue(state: Any, log_index: int, epoch: int, header: Any, op: Any) -> Any:
        applied = original(state, log_index, epoch, header, op)
        queue = state.queues[op.queue_id]
        queue.visible_index = queue.next_index - 1
        return applied

    patch.setattr(module, "_enqueue", enqueue)


@bug(
    "copies-overstated",
    "ruling 1",
    "A replica counts itself as a copy of what is not on its disk yet.",
    "tail",
    first=1,
)
def copies_are_overstated(patch: Patch) -> None:
    patch.setattr(Holding, "_copies_of", lambda _self, _log_index: 2)

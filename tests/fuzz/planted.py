"""A bug for each target: the product with one check taken out. A target that does not find it looks at nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import failover.witness_store
import replica.core.selection.selector
import replica.core.selection.selector_steps
import replica.core.state.durable
import replica.node.recovery
import replica.peer.session
import replica.services.messages.queue
import storage.backup
import tandemq.client.target
import tandemq.config
from failover.marks import DataMark
from replica.core.replication.sync_target import SyncTarget
from replica.machine.plan import settle
from replica.machine.state.queue import QueueState
from replica.peer.transfer import Receiver
from tandemq.peer.v1.peer_service_pb2 import OpAck
from tests.fuzz.targets import backup as targets_backup

Plant = Callable[[pytest.MonkeyPatch], None]


def a_value_is_believed_without_its_seal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        replica.core.state.durable, "unseal", lambda stored, _what: stored[8:] if stored[:3] == b"TQV" else stored
    )


def any_lease_number_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settle, "_LEASE_END", 1 << 64)


def a_record_is_believed_without_its_checksums(patch: pytest.MonkeyPatch) -> None:
    def verify_stored(record: bytes, *, previous_digest: bytes | None = None) -> Any:
        return replica.node.recovery.read_stored_prefix(record)

    patch.setattr(replica.node.recovery, "verify_stored", verify_stored)


def a_port_has_any_number_of_digits(patch: pytest.MonkeyPatch) -> None:
    for module in (tandemq.client.target, tandemq.config):
        patch.setattr(module, "is_port", lambda text: text.isdecimal() and 0 < int(text) < 65536)


def a_claim_may_take_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    original = failover.witness_store.check_set

    def check_set(current: Any, expected: Any, desired: Any) -> str | None:
        why = original(current, expected, desired)
        return None if why is not None and why.startswith("a claim needs an epoch above") else why

    patch.setattr(failover.witness_store, "check_set", check_set)


def an_old_view_is_good_enough(patch: pytest.MonkeyPatch) -> None:
    """P1: compared whole."""
    original = failover.witness_store.check_set
    patch.setattr(
        failover.witness_store, "check_set", lambda current, _expected, desired: original(current, current, desired)
    )


def bytes_that_are_no_request_are_not_caught(patch: pytest.MonkeyPatch) -> None:
    async def parse(kind: Any, request: bytes, _context: Any) -> Any:
        return kind.FromString(request)

    patch.setattr(replica.services.messages.queue, "parse", parse)


def a_malformed_frame_is_nobodys_fault(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.peer.session, "_MALFORMED", ())


def what_is_received_is_acknowledged_at_once(patch: pytest.MonkeyPatch) -> None:
    original = SyncTarget.on_op

    def on_op(self: Any, op: Any) -> None:
        original(self, op)
        self.shared.outbox.send(op_ack=OpAck(durable_index=self.shared.log.last_index))

    patch.setattr(SyncTarget, "on_op", on_op)


def a_queue_may_come_twice(patch: pytest.MonkeyPatch) -> None:
    original = Receiver._begin_queue

    def begin_queue(self: Any, queue_id: int) -> None:
        if queue_id in self.done:
            self.done = {*self.done, -len(self.done)} - {queue_id}
        original(self, queue_id)

    patch.setattr(Receiver, "_begin_queue", begin_queue)


def a_queue_is_whole_by_its_own_word(patch: pytest.MonkeyPatch) -> None:
    def end_queue(self: Any, end: Any) -> None:
        self.done.add(end.queue_id)
        self.queue_id = 0

    patch.setattr(Receiver, "_end_queue", end_queue)


def what_is_gone_is_still_counted(patch: pytest.MonkeyPatch) -> None:
    """The state of a queue, kept beside its log, is not the fold of it any more."""
    original = QueueState.forget

    def forget(self: Any, start: int, end: int, freed: list[int], final: Any) -> None:
        original(self, start, end, freed, final)
        self.length += 1

    patch.setattr(QueueState, "forget", forget)


def a_chain_is_a_test_inside_a_test_each(patch: pytest.MonkeyPatch) -> None:
    def chain(self: Any, operand: Any, *signs: str) -> Any:
        test = operand()
        while sign := self._took("sign", *signs):
            test = replica.core.selection.selector_steps.computing(test, [(sign, operand())])
        return test

    patch.setattr(replica.core.selection.selector._Parser, "_chain", chain)


def anything_can_be_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.core.selection.selector_steps, "_comparable", lambda _left, _right: True)


def a_mark_is_looked_up_unseen(patch: pytest.MonkeyPatch) -> None:
    def check_copies(head: Any, _path: Any) -> None:
        assert all(DataMark[domain.data] for domain in head.domains)

    patch.setattr(targets_backup, "check_copies", check_copies)


def what_comes_after_the_foot_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    original = storage.backup.BackupFile._read_head

    def read_head(self: Any) -> Any:
        head = original(self)
        self.bytes = _Any(self.bytes)
        return head

    class _Any(int):
        def __ne__(self, other: object) -> bool:
            return False

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    patch.setattr(storage.backup.BackupFile, "_read_head", read_head)


BUGS: list[tuple[str, Plant]] = [
    ("backup", a_mark_is_looked_up_unseen),
    ("backup", what_comes_after_the_foot_is_not_looked_at),
    ("codec", a_value_is_believed_without_its_seal),
    ("codec", any_lease_number_is_taken),
    ("codec", a_record_is_believed_without_its_checksums),
    ("config", a_port_has_any_number_of_digits),
    ("selector", a_chain_is_a_test_inside_a_test_each),
    ("selector", anything_can_be_compared),
    ("witness", a_claim_may_take_the_same_epoch),
    ("witness", an_old_view_is_good_enough),
    ("peer", a_malformed_frame_is_nobodys_fault),
    ("peer", what_is_received_is_acknowledged_at_once),
    ("transfer", a_queue_may_come_twice),
    ("transfer", a_queue_is_whole_by_its_own_word),
    ("wire", bytes_that_are_no_request_are_not_caught),
    ("wire", what_is_gone_is_still_counted),
]

"""What a queue held in a backup, as batches: every message once, in order, as its producer gave it."""

from __future__ import annotations

from pathlib import Path

import pytest

import replica.offline.refill
from replica.core.state.durable import DomainState, state_key
from replica.machine import EnqueueCall, Fresh, LeaseCall, Limits, Machine, QueueCall, SettleCall, columns_of
from replica.machine.plan.enqueue import plan_enqueue
from replica.machine.plan.lease import plan_lease
from replica.machine.plan.queue import plan_queue
from replica.machine.plan.settle import plan_settle
from replica.node.members import MAIN, domain_number
from replica.offline.refill import RESTORED_FROM, Batch, open_queue
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from storage.records import FLAG_VOLATILE_BODY, ZERO_DIGEST, assemble, build_head
from storage.store import Append, WriteBatch
from tandemq.peer.v1.record_pb2 import QueueAction, RecordHeader
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.message_pb2 import MessageBatch, Properties
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, EnqueueBatch, Settlement
from tests.unit.replica.offline.test_backup import backup_of

DOMAIN = domain_number(MAIN)


class Writer:
    """A domain's log, ordered by a real machine."""

    def __init__(self) -> None:
        self.store = MemoryStore(pair="p", member="a")
        self.machine = Machine(DOMAIN, ["a", "b"], Limits())
        self.digest = ZERO_DIGEST
        self.last = 0
        self.sequence = 1
        self.store.commit(WriteBatch(meta={state_key(DOMAIN): DomainState(name=MAIN, epoch=3).encode()}))
        create = QueueAction.QUEUE_ACTION_CREATE
        self.order(
            plan_queue(self.machine.state, self.machine.member_names, 1, QueueCall(create, "q", members=["a", "b"]))
        )

    def order(self, header: RecordHeader, body: bytes = b"", *, volatile: bool = False) -> None:
        self.last += 1
        head, self.digest = build_head(
            flags=FLAG_VOLATILE_BODY if volatile else 0,
            domain=DOMAIN,
            epoch=3,
            log_index=self.last,
            header=header.SerializeToString(),
            body=body,
            previous_digest=self.digest,
        )
        self.machine.apply(self.last, 3, header)
        record = assemble(head, b"" if volatile else body)
        self.store.commit(WriteBatch(appends=[Append(DOMAIN, self.last, record)]))

    def send(self, messages: MessageBatch, *, volatile: bool = False) -> None:
        batch = EnqueueBatch(queue="q", messages=messages)
        plan = plan_enqueue(
            self.machine.state, 2, EnqueueCall("q", b"c", self.sequence, columns_of(batch), "a", request_hash=1)
        )
        assert isinstance(plan, Fresh)
        self.sequence += len(messages.payloads)
        self.order(plan.header, batch.SerializeToString(), volatile=volatile)

    def ack(self, *indexes: int) -> None:
        self.machine.commit(self.last)
        header = plan_lease(self.machine.state, 3, LeaseCall(1, 100, 1 << 20, b"c", 0, immediate=False))
        assert header is not None
        self.order(header)
        lease_id = (3 << 40) | self.last
        ranges = [IndexRange(first=index, count=1) for index in indexes]
        settlement = Settlement(lease_id=lease_id, ranges=ranges, outcome=OUTCOME_ACK)
        plan = plan_settle(self.machine.state, 4, SettleCall("q", [settlement]))
        assert plan.header is not None
        self.order(plan.header)


def batches(store: MemoryStore, path: Path) -> tuple[list[Batch], int]:
    source = open_queue(backup_of(store, path), "q")
    assert source is not None
    found = list(source.batches())
    source.close()
    return found, source.lost


def test_every_message_that_is_left_comes_once_in_order_with_what_it_had(tmp_path: Path) -> None:
    writer = Writer()
    mine = Properties()
    mine.entries["colour"].text = "red"
    writer.send(MessageBatch(payloads=[b"1", b"2", b"3"], priorities=[1, 2, 3], properties=[mine]))
    writer.send(MessageBatch(payloads=[b"4"], ttls_ms=[60_000], correlation_ids=["c"], content_types=["text/plain"]))
    writer.ack(2)
    found, lost = batches(writer.store, tmp_path / "b.tqb")
    assert lost == 0
    assert [(batch.first, list(batch.batch.messages.payloads)) for batch in found] == [
        (1, [b"1"]),
        (2, [b"3"]),
        (3, [b"4"]),
    ]
    first, third = found[0].batch.messages, found[2].batch.messages
    assert (list(first.priorities), first.properties[0].entries["colour"].text) == ([1], "red")
    assert (list(third.ttls_ms), list(third.correlation_ids)) == ([60_000], ["c"])
    origins = [batch.batch.messages.properties[0].entries[RESTORED_FROM].data for batch in found]
    assert origins == [
        DOMAIN.to_bytes(4, "big") + (3).to_bytes(4, "big") + index.to_bytes(6, "big") + ordinal.to_bytes(2, "big")
        for index, ordinal in ((2, 0), (2, 2), (3, 0))
    ]


def test_a_delay_is_over_and_an_identity_is_not_used_again(tmp_path: Path) -> None:
    writer = Writer()
    writer.send(MessageBatch(payloads=[b"1"], delays_ms=[1000], dedup_ids=["once"]))
    (batch,), _ = batches(writer.store, tmp_path / "b.tqb")
    assert not batch.batch.messages.delays_ms
    assert not batch.batch.messages.dedup_ids


def test_volatile_bodies_are_in_no_backup_and_are_counted(tmp_path: Path) -> None:
    writer = Writer()
    writer.send(MessageBatch(payloads=[b"1", b"2"]), volatile=True)
    writer.send(MessageBatch(payloads=[b"3"]))
    found, lost = batches(writer.store, tmp_path / "b.tqb")
    assert ([list(batch.batch.messages.payloads) for batch in found], lost) == ([[b"3"]], 2)
    assert found[0].first == 1


@pytest.mark.parametrize(("count", "size"), [(2, 1 << 20), (1_000, 100)])
def test_a_batch_has_a_limit_of_messages_and_of_bytes(tmp_path: Path, count: int, size: int) -> None:
    """A property of each message comes on top: what was one frame may be too large for one."""
    assert (replica.offline.refill.BATCH_MESSAGES, replica.offline.refill.BATCH_BYTES) == (1_000, 1 << 20)
    writer = Writer()
    writer.send(MessageBatch(payloads=[b"x" * size] * count))
    writer.send(MessageBatch(payloads=[b"x" * size] * count))
    found, _ = batches(writer.store, tmp_path / "b.tqb")
    assert [batch.first for batch in found] == [1, 2, 3, 4] if count == 2 else [1, 1001]
    assert sum(len(batch.ordinals) for batch in found) == 2 * count


def test_a_queue_that_is_not_there_and_a_message_that_is_damaged(tmp_path: Path) -> None:
    writer = Writer()
    writer.send(MessageBatch(payloads=[b"1"]))
    assert open_queue(backup_of(writer.store, tmp_path / "b.tqb"), "other") is None
    row = bytearray(writer.store.read(DOMAIN, 2) or b"")
    row[-1] ^= 1
    writer.store.commit(WriteBatch(inserts=[Append(DOMAIN, 2, bytes(row))]))
    with pytest.raises(CorruptRecord, match="body of a record"):
        open_queue(backup_of(writer.store, tmp_path / "b.tqb"), "q")

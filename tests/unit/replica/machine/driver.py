"""Drives a queue machine as a master would and, with the same bytes, a second one as its replica.

Every plan is checked to leave the state as it was, every record to leave both machines equal, and the master's
snapshot, of which most is as it was written before, to be what is written anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from replica.machine import (
    Applied,
    EnqueueCall,
    Fresh,
    LeaseCall,
    Limits,
    Machine,
    MessageProgress,
    QueueCall,
    Refused,
    ReplyCall,
    SettleCall,
    columns_of,
    handle_of,
)
from replica.machine.plan.enqueue import plan_enqueue
from replica.machine.plan.lease import plan_lease
from replica.machine.plan.queue import plan_queue
from replica.machine.plan.reply import plan_reply
from replica.machine.plan.settle import plan_settle
from replica.machine.plan.time import plan_expire
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, message_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

MEMBERS = ("a", "b")
ACK, RELEASE = queue_service_pb2.OUTCOME_ACK, queue_service_pb2.OUTCOME_RELEASE
REJECT, EXTEND = queue_service_pb2.OUTCOME_REJECT, queue_service_pb2.OUTCOME_EXTEND


def batch_of(
    sizes: Sequence[int],
    priorities: Sequence[int] = (),
    persistence: Sequence[int] = (),
    ttls_ms: Sequence[int] = (),
    queue: str = "q",
    delays_ms: Sequence[int] = (),
    deliver_at_ms: Sequence[int] = (),
    dedup_ids: Sequence[str] = (),
    group_ids: Sequence[str] = (),
    group_sequences: Sequence[int] = (),
    lasts_in_group: Sequence[bool] = (),
) -> queue_service_pb2.EnqueueBatch:
    messages = message_pb2.MessageBatch(
        payloads=[b"x" * size for size in sizes],
        priorities=priorities,
        persistence=persistence,
        ttls_ms=ttls_ms,
        delays_ms=delays_ms,
        deliver_at_ms=deliver_at_ms,
        dedup_ids=dedup_ids,
        group_ids=group_ids,
        group_sequences=group_sequences,
        lasts_in_group=lasts_in_group,
    )
    return queue_service_pb2.EnqueueBatch(queue=queue, messages=messages)


def ranges_of(*runs: tuple[int, int]) -> list[common_pb2.IndexRange]:
    """First and last index, both in it: as one speaks of messages."""
    return [common_pb2.IndexRange(first=first, count=last - first + 1) for first, last in runs]


def indexes_of(ranges: Sequence[common_pb2.IndexRange]) -> list[int]:
    return [index for part in ranges for index in range(part.first, part.first + part.count)]


def digest_of(snapshot: bytes) -> bytes:
    """Of the state that it holds: the head says what it is, and what was committed."""
    return hashlib.blake2b(snapshot[12:], digest_size=16).digest()


class Driver:
    def __init__(self, limits: Limits | None = None, *, epoch: int = 1) -> None:
        self.limits = limits or Limits()
        self.master = Machine(7, MEMBERS, self.limits)
        self.replica = Machine(7, MEMBERS, self.limits)
        self.epoch = epoch
        self.log_index = 0
        self.now_ms = 1_000_000
        self.commits = True  # at once
        self.headers: list[tuple[int, record_pb2.RecordHeader]] = []
        self.freed: list[int] = []

    def plan(self, make: Callable[[], Any]) -> Any:
        before = self.master.digest()
        try:
            return make()
        finally:
            assert self.master.digest() == before, "a plan changed the state"

    def order(self, header: record_pb2.RecordHeader) -> Applied:
        self.log_index += 1
        header = record_pb2.RecordHeader.FromString(header.SerializeToString())
        self.headers.append((self.epoch, header))
        applied = self.master.apply(self.log_index, self.epoch, header)
        assert self.replica.apply(self.log_index, self.epoch, header) == applied
        assert self.master.digest() == self.replica.digest() == digest_of(self.master.snapshot())
        self.freed += applied.freed
        if self.commits:
            self.commit()
        return applied

    def commit(self) -> list[int]:
        return self.master.commit(self.log_index)

    def queue(self, action: record_pb2.QueueAction, name: str = "q", **more: Any) -> record_pb2.RecordHeader:
        call = QueueCall(action, name, **more)
        header: record_pb2.RecordHeader = self.plan(lambda: plan_queue(self.master.state, MEMBERS, self.now_ms, call))
        self.order(header)
        return header

    def create(self, name: str = "q", **attributes: Any) -> int:
        config = admin_pb2.QueueConfig(**attributes)
        return self.queue(record_pb2.QUEUE_ACTION_CREATE, name, config=config).queue.queue_id

    def plan_enqueue(
        self,
        batch: queue_service_pb2.EnqueueBatch,
        *,
        client_id: bytes = b"producer",
        first_sequence: int | None = None,
        request_id: bytes = b"",
        request_hash: int = 0,
        member: str = "a",
        left_out: Collection[int] | None = None,
    ) -> Any:
        if request_id:
            client_id, first_sequence = b"", 0
        elif first_sequence is None:
            first_sequence = self.master.last_sequence(batch.queue, client_id) + 1
        call = EnqueueCall(
            batch.queue, client_id, first_sequence, columns_of(batch), member, request_id, request_hash, left_out
        )
        return self.plan(lambda: plan_enqueue(self.master.state, self.now_ms, call))

    def enqueue(self, batch: queue_service_pb2.EnqueueBatch, **more: Any) -> record_pb2.EnqueueOp:
        plan = self.plan_enqueue(batch, **more)
        assert isinstance(plan, Fresh)
        self.order(plan.header)
        return plan.header.enqueue

    def send(self, count: int, **more: Any) -> record_pb2.EnqueueOp:
        return self.enqueue(batch_of([10] * count, **more))

    def plan_lease(self, count: int = 10, *, name: str = "q", **more: Any) -> record_pb2.RecordHeader | None:
        fields: dict[str, Any] = {"max_bytes": 1 << 40, "client_id": b"consumer", "duration_ms": 0, "immediate": False}
        fields |= {"queue_id": self.master.queue_id(name), "max_messages": count} | more
        call = LeaseCall(**fields)
        header: record_pb2.RecordHeader | None = self.plan(lambda: plan_lease(self.master.state, self.now_ms, call))
        return header

    def lease(self, count: int = 10, **more: Any) -> tuple[int, list[int]]:
        """Lease id and indexes in the order of delivery; (0, []) when there is nothing."""
        header = self.plan_lease(count, **more)
        if header is None:
            return 0, []
        return self.order(header).lease_id, indexes_of(header.lease.ranges)

    def settle(
        self,
        *settlements: queue_service_pb2.Settlement,
        name: str = "q",
        request_id: bytes = b"",
        request_hash: int = 0,
    ) -> list[queue_service_pb2.SettleResult]:
        call = SettleCall(name, settlements, request_id, request_hash)
        plan = self.plan(lambda: plan_settle(self.master.state, self.now_ms, call))
        if plan.header is not None:
            self.order(plan.header)
        results: list[queue_service_pb2.SettleResult] = plan.results
        return results

    def ack(self, lease_id: int, *runs: tuple[int, int]) -> queue_service_pb2.SettleResult:
        return self.outcome(ACK, lease_id, *runs)

    def outcome(
        self,
        outcome: queue_service_pb2.Outcome,
        lease_id: int,
        *runs: tuple[int, int],
        extension_ms: int = 0,
        delay_ms: int = 0,
    ) -> queue_service_pb2.SettleResult:
        settlement = queue_service_pb2.Settlement(lease_id=lease_id, ranges=ranges_of(*runs), outcome=outcome)
        if delay_ms:
            settlement.delay.FromMilliseconds(delay_ms)
        if extension_ms:
            settlement.extension.FromMilliseconds(extension_ms)
        return self.settle(settlement)[0]

    def reply(
        self,
        lease_id: int,
        index: int,
        *,
        request_id: bytes = b"",
        request_hash: int = 1,
        body_bytes: int = 5,
        name: str = "q",
    ) -> record_pb2.RecordHeader | None:
        call = ReplyCall(name, lease_id, index, body_bytes, request_id, request_hash)
        header: record_pb2.RecordHeader | None = self.plan(lambda: plan_reply(self.master.state, self.now_ms, call))
        if header is not None:
            self.order(header)
        return header

    def progress(self, *indexes: int, name: str = "q") -> list[MessageProgress]:
        queue_id = self.master.queue_id(name)
        assert queue_id is not None
        prefix = (7).to_bytes(4, "big") + queue_id.to_bytes(4, "big")
        told = self.master.progress(queue_id, [handle_of(prefix, index) for index in indexes])
        assert told == self.replica.progress(queue_id, [handle_of(prefix, index) for index in indexes])
        return told

    def finals(self, *indexes: int) -> list[str]:
        """How each message ended, in a word; `pending`, or `unknown`."""
        names = queue_service_pb2.FinalState.Name
        return [
            (names(each.final).removeprefix("FINAL_STATE_").lower() if each.final else "pending")
            if each.known
            else "unknown"
            for each in self.progress(*indexes)
        ]

    def expire(self) -> int:
        """Everything that is due; says in how many records."""
        records = 0
        while (header := self.plan(lambda: plan_expire(self.master.state, self.now_ms))) is not None:
            self.order(header)
            records += 1
        return records

    def restored(self) -> Machine:
        """As after a restart: made anew from a snapshot."""
        return Machine.restore(self.master.snapshot(), MEMBERS, self.limits)

    def info(self, name: str = "q", member: str = "a") -> admin_pb2.QueueInfo:
        return self.master.queue_info(name, member)

    def browse(self, name: str = "q", from_index: int = 0, limit: int = 0) -> list[int]:
        queue_id = self.master.queue_id(name)
        assert queue_id is not None
        return indexes_of(self.master.browse(queue_id, from_index, limit))

    def refusal(self, make: Callable[[], Any]) -> Refused:
        try:
            made = make()
        except Refused as refused:
            return refused
        raise AssertionError(f"was not refused: {made}")

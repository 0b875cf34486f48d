"""Clients of a pair in one process: producers that repeat what is unanswered, a consumer that leases and acks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import google_crc32c

from replica.core.messages.bodies import fill_rows
from replica.core.state.calls import Consumer, PendingCall, PendingEnqueue
from replica.core.state.outcomes import EnqueueDone, Failed, LeaseDone, Moved, QueueDone, SettleDone
from replica.machine import EnqueueCall, QueueCall, SettleCall, columns_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_CREATE
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, DequeueResponse, EnqueueBatch, Settlement
from tests.support.checks import require

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.pair import Member, Pair


def rows(store: Any, shared: Any, queue: str, lease_id: int, slices: Any) -> Any:
    """Messages as a Dequeue hands them out."""
    response = DequeueResponse()
    list(fill_rows(store, shared, queue, lease_id, slices, response.messages))
    return response.messages


class Waiter:
    """Whoever waits; hears each answer once."""

    def __init__(self, on_answer: Callable[[Any], None] | None = None) -> None:
        self.cancelled = False
        self.answers: list[Any] = []
        self._on_answer = on_answer

    def answer(self, result: Any) -> None:
        self.answers.append(result)
        if self._on_answer is not None:
            self._on_answer(result)

    deliver = answer

    @property
    def done(self) -> Any:
        return self.answers[-1] if self.answers else None


def create(pair: Pair, queue: str = "q", **config: Any) -> None:
    """Make a queue at the master and see it committed."""
    waiter = Waiter()
    assert pair.master is not None
    call = PendingCall(
        waiter,
        QueueCall(QUEUE_ACTION_CREATE, queue, QueueConfig(**config), members=["a", "b"], open_members=["a", "b"]),
    )
    pair.master.submit(call)
    pair.settle(200)
    assert isinstance(waiter.done, QueueDone), waiter.done


class Op:
    """One message of a producer."""

    def __init__(self, sequence: int, payload: bytes, after: int) -> None:
        self.sequence, self.payload, self.after = sequence, payload, after
        self.done: EnqueueDone | None = None
        self.failures: list[Failed | Moved] = []
        self.member = ""
        """Answered it."""


class Producer:
    """One client id; its sequences are dense and their bytes never change."""

    def __init__(
        self,
        pair: Pair,
        name: str,
        queue: str = "q",
        *,
        min_copies: int = 0,
        volatile: bool = False,
        group: str = "",
    ) -> None:
        self.pair, self.name, self.queue, self.min_copies = pair, name, queue, min_copies
        self.persistence = [1] if volatile else []
        self.group_ids = [group] if group else []
        self.ops: list[Op] = []

    def send(self, member: Member) -> Op:
        """The next message, to that member."""
        sequence = len(self.ops) + 1
        op = Op(sequence, f"{self.name}/{sequence}".encode(), self.pair.seen.get(self.queue, 0))
        self.ops.append(op)
        self.submit(op, member)
        return op

    def submit(self, op: Op, member: Member) -> None:
        """Once, or once more."""
        batch = EnqueueBatch(
            queue=self.queue,
            first_sequence=op.sequence,
            messages=MessageBatch(payloads=[op.payload], persistence=self.persistence, group_ids=self.group_ids),
        )

        def on_answer(result: Any) -> None:
            self._on_answer(op, member, result)

        body = batch.SerializeToString()
        call = EnqueueCall(
            self.queue,
            self.name.encode(),
            op.sequence,
            columns_of(batch),
            member.name,
            request_hash=google_crc32c.value(body),
        )
        member.submit(PendingEnqueue(Waiter(on_answer), call, body, self.min_copies))

    def retry(self, member: Member) -> None:
        """Everything unanswered, in order."""
        for op in self.ops:
            if op.done is None:
                self.submit(op, member)

    def _on_answer(self, op: Op, member: Member, result: Any) -> None:
        if not isinstance(result, EnqueueDone):
            op.failures.append(result)
            return
        require(result.first_sequence == op.sequence, f"{self.name}/{op.sequence} is answered as {result}")
        self.pair.checks.on_ack(member, result)
        wanted = self.min_copies
        require(result.copies >= wanted, f"{op.payload!r} asked for {wanted} copies and got {result.copies}")
        if op.done is None:
            require(
                result.first_index > op.after or self.pair.checks.excused,
                f"{op.payload!r} got index {result.first_index}, and {op.after} was acknowledged before it was sent",
            )
            op.done, op.member = result, member.name
            self.pair.seen[self.queue] = max(self.pair.seen.get(self.queue, 0), result.first_index)
        else:
            same = (op.done.first_index, op.done.log_index, op.done.epoch)
            again = (result.first_index, result.log_index, result.epoch)
            # Two histories may both have executed it; in either it is there once.
            twice = same != again and not self.pair.checks.excused
            require(not twice, f"{op.payload!r} was executed twice: {same}, then {again}")

    @property
    def acked(self) -> list[bytes]:
        return [op.payload for op in self.ops if op.done is not None]


class Reader:
    """A consumer that follows the master."""

    def __init__(self, pair: Pair, queue: str = "q") -> None:
        self.pair, self.queue = pair, queue
        self.delivered: list[tuple[int, int, bytes]] = []
        """(lease id, index, payload), not acked yet."""
        self.settled: set[bytes] = set()
        self.indexes: dict[bytes, int] = {}
        self.at: tuple[str, int, Consumer] | None = None

    def attach(self, member: Member, credit: int) -> None:
        """Ask for more, on a new stream if the old one ended."""
        if self.at is not None and self.at[:2] == (member.name, member.incarnation) and self.at[2].attached:
            consumer = self.at[2]
            consumer.credit_messages += credit
            member.core.consumers.on_credit(consumer)
            member.dispatch(member.core)
            return
        self.delivered.clear()
        consumer = Consumer(
            Waiter(lambda result: self._on_delivery(member, result)), self.queue, b"reader", 0,
            credit_messages=credit, credit_bytes=1 << 30, member=member.name,
        )  # fmt: skip
        self.at = (member.name, member.incarnation, consumer)
        member.attach(consumer)

    def _on_delivery(self, member: Member, done: Any) -> None:
        if not isinstance(done, LeaseDone):
            return
        for row in rows(member.store, member.shared, self.queue, done.lease_id, done.slices):
            payload = row.message.payload
            require(payload not in self.settled, f"{payload!r} was acknowledged by its consumer and came again")
            known = self.indexes.setdefault(payload, row.index)
            if known != row.index:
                self.indexes[payload] = row.index  # the first was a lease of an operation that nobody acknowledged
            self.delivered.append((done.lease_id, row.index, payload))

    def ack(self, member: Member) -> None:
        """Settle everything delivered."""
        taken, self.delivered = self.delivered, []
        settlements = [
            Settlement(lease_id=lease_id, ranges=[IndexRange(first=index, count=1)], outcome=OUTCOME_ACK)
            for lease_id, index, _ in taken
        ]
        if not settlements:
            return

        def on_answer(result: Any) -> None:
            if isinstance(result, SettleDone):
                for (_, _, payload), one in zip(taken, result.results, strict=True):
                    if not one.HasField("error"):
                        self.settled.add(payload)

        member.submit(PendingCall(Waiter(on_answer), SettleCall(self.queue, settlements)))


def remaining(member: Member, queue: str = "q") -> list[tuple[int, bytes]]:
    """(index, payload) of everything that is in the queue now, by index, leased or not."""
    machine = member.shared.machine
    queue_id = machine.queue_id(queue)
    ranges = machine.browse(queue_id, 0, 0)
    slices = machine.segments_of(queue_id, ranges)
    found = rows(member.store, member.shared, queue, 0, slices)
    return [(row.index, row.message.payload) for row in found]


def check_contents(pair: Pair, producers: list[Producer], reader: Reader | None = None) -> None:
    """At rest: nothing acknowledged is lost, nothing is there twice, each producer's order is kept."""
    master = pair.master
    require(master is not None, "nobody serves")
    found = remaining(master)  # type: ignore[arg-type]  # asked above
    payloads = [payload for _, payload in found]
    require(len(payloads) == len(set(payloads)), f"there twice: {sorted(p for p in payloads if payloads.count(p) > 1)}")
    settled = reader.settled if reader is not None else set()
    require(not settled & set(payloads), f"acknowledged by a consumer and still there: {settled & set(payloads)}")
    seen = set(reader.indexes) if reader is not None else set()
    for producer in producers:
        there = [payload for payload in payloads if payload.split(b"/")[0] == producer.name.encode()]
        sequences = [int(payload.split(b"/")[1]) for payload in there]
        require(sequences == sorted(sequences), f"order of {producer.name}: {sequences}")
        # A settle whose answer was lost may have taken a message that was delivered.
        lost = set(producer.acked) - set(payloads) - settled - seen
        require(not lost, f"acknowledged and lost: {sorted(lost)}")

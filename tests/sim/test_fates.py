"""A log is followed message by message: what a record may not do is a problem, by the rule that it breaks."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from chaos.sim.judges.fates import ANSWER, DEDUP, DIES, DROPS, ENDS, FULL, PLACE, WAITS, Fates
from chaos.sim.judges.invariants import Name
from tandemq.peer.v1 import record_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tandemq.v1.common_pb2 import REASON_QUEUE_FULL, IndexRange
from tandemq.v1.message_pb2 import Message, MessageBatch, Properties, PropertyValue

Notes = dict[str, PropertyValue]
Q, OTHER = 1, 2
DEAD, PURGED = service.FINAL_STATE_DEAD_LETTERED, service.FINAL_STATE_PURGED


class Log:
    """Writes records, a millisecond apart unless told."""

    def __init__(self, **config: Any) -> None:
        self.fates = Fates()
        self.log_index = self.time_ms = 0
        config.setdefault("max_length", 1000)
        made = admin.QueueConfig(dead_letter_queue="other", **config)
        self.add(queue=pb.QueueOp(action=pb.QUEUE_ACTION_CREATE, queue_id=Q, name="q", config=made))
        plain = admin.QueueConfig(dead_letter_queue="", max_length=1000)
        self.add(queue=pb.QueueOp(action=pb.QUEUE_ACTION_CREATE, queue_id=OTHER, name="other", config=plain))

    def add(self, body: Any = None, after_ms: int = 1, **op: Any) -> int:
        self.log_index += 1
        self.time_ms += after_ms
        header = pb.RecordHeader(time_ms=self.time_ms, **op)
        self.fates.add(Name(1, self.log_index), header, b"" if body is None else body.SerializeToString())
        return 1 << 40 | self.log_index

    def send(
        self, first: int, *payloads: bytes, queue: int = Q, op: dict[str, Any] | None = None, **columns: Any
    ) -> None:
        batch = service.EnqueueBatch(messages=MessageBatch(payloads=payloads, **columns))
        enqueue = pb.EnqueueOp(queue_id=queue, first_index=first, count=len(payloads), **(op or {}))
        self.add(batch, enqueue=enqueue)

    def move(self, to: int, index: int, payload: bytes, final: Any, notes: Notes | None = None) -> None:
        moved = pb.QueueRanges(queue_id=Q, ranges=ranges(index))
        op = {"internal": True, "moved_from": moved, "moved_final": final}
        self.send(to, payload, queue=OTHER, op=op, properties=[Properties(entries=notes)])

    def lease(self, index: int, after_ms: int = 1) -> int:
        return self.add(after_ms=after_ms, lease=pb.LeaseOp(queue_id=Q, ranges=ranges(index)))

    def settle(self, index: int, lease_id: int, outcome: Any, **more: Any) -> None:
        effect = pb.SettleEffect(lease_id=lease_id, ranges=ranges(index), outcome=outcome, **more)
        self.add(settle=pb.SettleOp(queue_id=Q, effects=[effect]))

    def end(self, lease_id: int) -> None:
        self.add(expire=pb.ExpireOp(lease_ids=[lease_id], lease_rules=True))

    @property
    def broken(self) -> set[str]:
        return {rule for rule, _ in (*self.fates.problems, *self.fates.at_rest())}


def notes(reason: str, deliveries: int) -> Notes:
    """What a dead letter says of its death."""
    return {
        "tq_origin_queue": PropertyValue(text="q"),
        "tq_dead_letter_reason": PropertyValue(text=reason),
        "tq_deliveries": PropertyValue(integer=deliveries),
    }


def ranges(*indexes: int) -> list[IndexRange]:
    return [IndexRange(first=index, count=1) for index in indexes]


def test_a_message_that_is_sent_leased_and_acknowledged_breaks_nothing() -> None:
    log = Log()
    log.send(1, b"0:0", b"0:1")
    log.settle(1, log.lease(1), service.OUTCOME_ACK)
    log.settle(2, log.lease(2), service.OUTCOME_RELEASE)
    assert log.broken == set()
    assert [copy.final for copy in log.fates.all()] == [service.FINAL_STATE_CONSUMED, 0]


@pytest.mark.parametrize("after_ms", [99, 101])
def test_nothing_is_delivered_before_its_time(after_ms: int) -> None:
    log = Log()
    log.send(1, b"0:0", delays_ms=[100])
    if after_ms > 100:
        matured = [pb.QueueRanges(queue_id=Q, ranges=ranges(1))]
        log.add(after_ms=after_ms, expire=pb.ExpireOp(matured=matured))
    log.lease(1, after_ms=after_ms)
    assert log.broken == ({WAITS} if after_ms < 100 else set())


@pytest.mark.parametrize(("failures", "broken"), [(1, {DIES}), (2, set())])
def test_a_message_dies_of_as_many_deliveries_as_its_queue_allows(failures: int, broken: set[str]) -> None:
    log = Log(max_deliveries=2)
    log.send(1, b"0:0")
    for _ in range(failures):
        log.end(log.lease(1))
    log.move(1, 1, b"0:0", DEAD, notes("MAX_DELIVERIES", failures))
    assert log.broken == broken


def test_what_has_died_is_not_delivered_and_goes_where_it_belongs() -> None:
    log = Log(max_deliveries=1)
    log.send(1, b"0:0")
    log.end(log.lease(1))
    assert log.broken == {DIES}, "it went nowhere yet"
    log.lease(1)
    assert [rule for rule, _ in log.fates.problems] == [DIES]


def test_a_rejected_message_dies() -> None:
    log = Log()
    log.send(1, b"0:0")
    log.settle(1, log.lease(1), service.OUTCOME_REJECT, dead_letter=True)
    log.move(1, 1, b"0:0", DEAD, notes("REJECTED", 1))
    assert log.broken == set()
    log.settle(1, 7, service.OUTCOME_ACK)
    assert PLACE in log.broken, "it is there no more"


@pytest.mark.parametrize("after_ms", [1, 100], ids=["before it was over", "afterwards"])
def test_a_message_that_was_rejected_while_it_waited_waits_no_more(after_ms: int) -> None:
    """Its lease had ended, it waited for its next try, and the rejection came late; then an administrator moved it."""
    log = Log(retry_delay_min=Duration(nanos=20_000_000))
    log.send(1, b"0:0")
    lease_id = log.lease(1)
    log.end(lease_id)
    log.settle(1, lease_id, service.OUTCOME_REJECT, dead_letter=True)
    log.move(1, 1, b"0:0", PURGED)
    log.add(after_ms=after_ms, lease=pb.LeaseOp(queue_id=OTHER, ranges=ranges(1)))
    assert log.broken == set()


@pytest.mark.parametrize("said", [{}, notes("REJECTED", 1), notes("MAX_DELIVERIES", 2)])
def test_a_dead_letter_tells_the_truth_about_its_death(said: Notes) -> None:
    log = Log(max_deliveries=1)
    log.send(1, b"0:0")
    log.end(log.lease(1))
    log.move(1, 1, b"0:0", DEAD, said)
    assert log.broken == {DIES}


def test_totals_are_what_happened() -> None:
    log = Log()
    log.send(1, b"0:0", b"0:1", b"0:2")
    log.settle(1, log.lease(1), service.OUTCOME_ACK)
    log.settle(2, log.lease(2), service.OUTCOME_RELEASE)
    log.end(log.lease(2))
    log.settle(3, log.lease(3), service.OUTCOME_REJECT, dead_letter=True)
    wanted = {"acked": 1, "enqueued": 3, "delivered": 4, "released": 1, "redelivered": 1, "rejected": 1}
    assert log.fates.shelves[Q].totals() == wanted


def test_a_message_is_in_one_queue() -> None:
    log = Log()
    log.send(1, b"0:0", b"0:1")
    log.move(1, 1, b"0:0", PURGED)
    assert log.broken == set()
    log.move(2, 2, b"0:7", PURGED)
    assert log.broken == {PLACE}, "what came is not what went"

    log = Log()
    log.send(1, b"0:0")
    log.lease(1)
    log.move(1, 1, b"0:0", PURGED)
    assert log.broken == {PLACE}, "somebody holds it"

    log = Log()
    log.send(1, b"0:0")
    log.send(2, b"0:0")
    assert log.broken == {PLACE}, "stored twice"


@pytest.mark.parametrize(
    ("dropped", "broken"), [((3,), set()), ((1,), {DROPS}), ((2,), {DROPS}), ((3, 1), {DROPS}), ((), {DROPS})]
)
def test_the_oldest_of_the_lowest_priority_is_dropped_and_no_more(dropped: tuple[int, ...], broken: set[str]) -> None:
    log = Log(overflow=admin.OVERFLOW_DROP_HEAD, max_length=4)
    log.send(1, b"0:0", b"0:1", b"0:2", b"0:3", priorities=[4, 4, 1, 1])
    log.send(5, b"0:4", op={"dropped": ranges(*dropped)})
    assert log.broken == broken


@pytest.mark.parametrize(("holds", "broken"), [(2, set()), (1, {FULL}), (3, {FULL})])
def test_a_queue_holds_what_it_may_and_no_more(holds: int, broken: set[str]) -> None:
    log = Log(max_length=holds)
    log.send(1, b"0:0")
    refused = [pb.Refusal(ordinal=1, reason=REASON_QUEUE_FULL)]
    log.add(
        service.EnqueueBatch(messages=MessageBatch(payloads=[b"0:1", b"0:2"])),
        enqueue=pb.EnqueueOp(queue_id=Q, first_index=2, count=2, refusals=refused),
    )
    assert log.broken == broken


def test_a_dedup_id_is_stored_once_in_its_window() -> None:
    log = Log(dedup_window={"nanos": 50_000_000})
    log.send(1, b"0:0", dedup_ids=["x"])
    log.send(2, b"0:1", op={"duplicates": [service.EntryDuplicate(ordinal=0, index=1)]}, dedup_ids=["x"])
    log.time_ms += 50
    log.send(2, b"0:2", dedup_ids=["x"])
    assert log.broken == set()
    log.send(3, b"0:3", dedup_ids=["x"])
    assert log.broken == {DEDUP}


def test_a_request_has_one_answer_and_its_copy() -> None:
    log = Log(queue_type=admin.QUEUE_TYPE_TWO_WAY)
    log.send(1, b"0:0", reply_tos=["other"])
    reply = pb.ReplyOp(queue_id=Q, lease_id=log.lease(1), index=1, reply_to="other")
    log.add(Message(payload=b"9:9"), reply=reply)
    assert log.broken == {ANSWER}, "the copy is owed"
    copy = {"internal": True, "answers": pb.QueueRanges(queue_id=Q, ranges=ranges(1))}
    log.send(1, b"9:9", queue=OTHER, op=copy)
    assert log.broken == set()
    log.send(2, b"9:9", queue=OTHER, op=copy)
    assert ANSWER in log.broken, "it was copied already"

    log.add(Message(payload=b"9:8"), reply=reply)
    assert log.fates.problems[-1][0] == ANSWER


def test_what_is_owed_is_forgotten_with_its_answer_and_not_before() -> None:
    log = Log(queue_type=admin.QUEUE_TYPE_TWO_WAY, completion_retention={"seconds": 1})
    log.send(1, b"0:0", reply_tos=["other"])
    reply = pb.ReplyOp(queue_id=Q, lease_id=log.lease(1), index=1, reply_to="other")
    log.add(Message(payload=b"9:9"), reply=reply)
    ended_ms = log.time_ms
    log.add(after_ms=1_001, expire=pb.ExpireOp(forgotten=[pb.QueueTime(queue_id=Q, time_ms=ended_ms + 1)]))
    assert log.broken == set()
    log.add(expire=pb.ExpireOp(forgotten=[pb.QueueTime(queue_id=Q, time_ms=log.time_ms - 900)]))
    assert log.broken == {ENDS}


def test_nothing_ends_before_its_time() -> None:
    log = Log()
    log.send(1, b"0:0", ttls_ms=[100])
    log.add(expire=pb.ExpireOp(messages=[pb.QueueRanges(queue_id=Q, ranges=ranges(1))]))
    assert log.broken == {ENDS}

    log = Log()
    log.send(1, b"0:0", ttls_ms=[100])
    log.lease(1, after_ms=100)
    assert log.broken == {ENDS}, "nobody gets what is over"

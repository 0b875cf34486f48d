"""How many copies a caller or a queue asks for: fewer are refused before anything is ordered, never silent after it."""

from __future__ import annotations

from typing import Any

import google_crc32c
import pytest

from replica.core.state.calls import Consumer, PendingEnqueue
from replica.core.state.outcomes import EnqueueDone, Failed
from replica.machine import EnqueueCall, columns_of
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter, create
from tests.support.pair import Member, Pair

FEW = Reason.REASON_NOT_ENOUGH_COPIES


@pytest.fixture
def pair() -> Pair:
    made = Pair().start()
    create(made)
    create(made, "two", require_two=True)
    return made


def send(member: Member, queue: str, min_copies: int, first: int = 1) -> Waiter:
    batch = EnqueueBatch(queue=queue, first_sequence=first, messages=MessageBatch(payloads=[b"x"]))
    body, waiter = batch.SerializeToString(), Waiter()
    call = EnqueueCall(queue, b"p", first, columns_of(batch), member.name, request_hash=google_crc32c.value(body))
    member.submit(PendingEnqueue(waiter, call, body, min_copies))
    return waiter


def alone(pair: Pair) -> Member:
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.settle(1_000)
    assert pair.a.serving
    return pair.a


@pytest.mark.parametrize(("queue", "min_copies"), [("q", 0), ("q", 1), ("q", 2), ("two", 0), ("two", 2)])
@pytest.mark.parametrize("at", ["a", "b"])
def test_with_both_members_in_step_two_are_given(pair: Pair, queue: str, min_copies: int, at: str) -> None:
    waiter = send(pair.members[at], queue, min_copies)
    pair.settle(200)
    assert isinstance(waiter.done, EnqueueDone)
    assert waiter.done.copies == 2


@pytest.mark.parametrize(
    ("queue", "min_copies", "refused"),
    [("q", 0, False), ("q", 1, False), ("q", 2, True), ("two", 0, True), ("two", 1, True), ("two", 2, True)],
)
def test_alone_only_who_asks_for_two_is_refused_and_nothing_is_ordered(
    pair: Pair, queue: str, min_copies: int, refused: bool
) -> None:
    member = alone(pair)
    before = member.shared.log.last_index
    waiter = send(member, queue, min_copies)
    pair.settle(200)
    done: Any = waiter.done
    if refused:
        assert isinstance(done, Failed)
        assert (done.reason, "outcome" in done.metadata, member.shared.log.last_index) == (FEW, False, before)
    else:
        assert isinstance(done, EnqueueDone)
        assert (done.copies, member.shared.log.last_index) == (1, before + 1)


@pytest.mark.parametrize(("queue", "min_copies"), [("q", 2), ("two", 0)])
def test_what_is_stored_on_fewer_than_were_asked_for_says_so_and_that_it_is_stored(
    pair: Pair, queue: str, min_copies: int
) -> None:
    """Ordered with two in step; the other one is lost before it has written it."""
    waiter = send(pair.a, queue, min_copies)
    pair.quiesce(disks="a")
    assert waiter.answers == []
    alone(pair)
    (done,) = waiter.answers
    assert isinstance(done, Failed)
    assert (done.reason, done.metadata["outcome"], done.metadata["last_sequence"]) == (FEW, "stored", "1")
    again = send(pair.a, queue, min_copies)
    pair.settle(200)
    assert isinstance(again.done, Failed), "its repetition hears the same"
    assert (again.done.reason, again.done.metadata["outcome"]) == (FEW, "stored")


def test_who_would_receive_from_a_queue_that_is_not_there_is_told(pair: Pair) -> None:
    waiter = Waiter()
    consumer = Consumer(waiter, "nowhere", b"c", 0, credit_messages=1, credit_bytes=1 << 20, member="a")
    pair.a.attach(consumer)
    (done,) = waiter.answers
    assert isinstance(done, Failed)
    assert (done.reason, "'nowhere'" in done.message) == (Reason.REASON_QUEUE_NOT_FOUND, True)
    assert not consumer.attached

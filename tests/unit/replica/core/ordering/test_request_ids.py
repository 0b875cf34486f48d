"""Request ids of Dequeue: used by another call while it waits, and repeated after the messages were removed."""

from __future__ import annotations

from replica.core.state.calls import Consumer, PendingEnqueue
from replica.core.state.outcomes import Failed, LeaseDone, Moved
from replica.machine import EnqueueCall, columns_of
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter, create
from tests.support.pair import Pair

REQUEST_ID = b"x" * 16


def dequeue(request_id: bytes, *, immediate: bool = False, member: str = "a") -> Consumer:
    return Consumer(
        Waiter(),
        "q",
        b"c",
        500,
        one_shot=True,
        request_id=request_id,
        request_hash=9,
        member=member,
        immediate=immediate,
        credit_messages=1 + immediate,
        credit_bytes=1 << 20,
    )


def given(pair: Pair, consumer: Consumer) -> LeaseDone:
    assert pair.master is not None
    pair.master.attach(consumer)
    pair.settle(200)
    [done] = consumer.waiter.answers
    assert isinstance(done, LeaseDone)
    return done


def test_a_used_request_id_is_told_and_the_next_one_is_served() -> None:
    pair = Pair()
    pair.start()
    create(pair)
    first, second = dequeue(REQUEST_ID), dequeue(b"y" * 16)
    for consumer in (first, second):
        pair.a.attach(consumer)
    pair.quiesce()
    batch = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[b"hi"]))
    call = PendingEnqueue(
        Waiter(),
        EnqueueCall("q", b"", 0, columns_of(batch), "a", request_id=REQUEST_ID, request_hash=5),
        batch.SerializeToString(),
    )
    pair.a.submit(call)
    pair.settle(200)
    [refused] = first.waiter.answers
    assert isinstance(refused, Failed)
    assert refused.reason == Reason.REASON_REQUEST_MISMATCH
    [served] = second.waiter.answers
    assert isinstance(served, LeaseDone)
    assert len(served.slices) == 1


def test_what_was_removed_at_its_delivery_is_answered_with_the_counts_of_the_first_answer() -> None:
    """Found by the model at real processes: the state has forgotten them, and the next master answered 1."""
    pair = Pair()
    pair.start()
    create(pair)
    batch = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[b"1", b"2", b"3"]))
    call = EnqueueCall("q", b"", 0, columns_of(batch), "a", request_id=b"z" * 16, request_hash=5)
    pair.a.submit(PendingEnqueue(Waiter(), call, batch.SerializeToString()))
    pair.settle(200)
    given(pair, dequeue(b"y" * 16))
    pair.settle(1_000)  # its lease ends
    first = given(pair, dequeue(REQUEST_ID, immediate=True))
    assert [each.delivery_counts for each in first.slices] == [[2, 1]]
    again = given(pair, dequeue(REQUEST_ID, immediate=True))
    assert (again.duplicate, again.slices) == (True, first.slices)
    pair.a.hand_over()
    pair.settle(200)
    assert pair.master is pair.b
    later = given(pair, dequeue(REQUEST_ID, immediate=True, member="b"))
    assert (later.duplicate, later.slices) == (True, first.slices)


def test_a_batch_that_is_put_back_is_begun_anew_at_the_next_master_and_any_other_one_is_parked() -> None:
    """What is there already, which is left out of it, only its maker knows."""
    pair = Pair()
    pair.start()
    create(pair)
    waiters = []
    for number, left_out in enumerate((frozenset[int](), None)):
        batch = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[b"x"]))
        identity = bytes([number]) * 16
        call = EnqueueCall("q", b"", 0, columns_of(batch), "a", request_id=identity, request_hash=5, left_out=left_out)
        waiters.append(Waiter())
        pair.a.submit(PendingEnqueue(waiters[-1], call, batch.SerializeToString()))
    assert [waiter.done for waiter in waiters] == [None, None], "they are not on both members yet"
    pair.a.core.orders.on_following()
    pair.a.dispatch(pair.a.core)
    put_back, plain = (waiter.done for waiter in waiters)
    assert isinstance(put_back, Moved)
    assert plain is None

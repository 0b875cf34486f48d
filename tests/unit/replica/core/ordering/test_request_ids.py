"""A request id that another call uses while a Dequeue waits under it ends neither the member nor the wait of others."""

from __future__ import annotations

from replica.core.state.calls import Consumer, PendingEnqueue
from replica.core.state.outcomes import Failed, LeaseDone
from replica.machine import EnqueueCall, columns_of
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter, create
from tests.support.pair import Pair

REQUEST_ID = b"x" * 16


def dequeue(request_id: bytes) -> Consumer:
    credit = {"credit_messages": 1, "credit_bytes": 1 << 20}
    return Consumer(
        Waiter(), "q", b"c", 500, one_shot=True, request_id=request_id, request_hash=9, member="a", **credit
    )


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

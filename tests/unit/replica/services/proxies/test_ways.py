"""How a call is changed on its way through a proxy, and which go through none."""

from __future__ import annotations

from google.protobuf.message import Message

from replica.machine import Limits
from replica.machine.state.proxies import Proxy
from replica.services.proxies.ways import CALL_S, GET_QUEUE, WAYS, Names, here, problem_of, there, wait_of
from tandemq.v1 import common_pb2
from tandemq.v1.common_pb2 import LEVEL_LOCAL, ResponseHeader
from tandemq.v1.macro_service_pb2 import RELATIONSHIP_CONSUMER, RELATIONSHIP_PRODUCER, RELATIONSHIP_UNSPECIFIED
from tandemq.v1.queue_admin_service_pb2 import GetQueueResponse, QueueConfig
from tandemq.v1.queue_service_pb2 import (
    DequeueRequest,
    DequeueResponse,
    EnqueueRequest,
    EnqueueResponse,
    ReplyRequest,
    SettleRequest,
    WaitCompletionRequest,
)

HERE = ResponseHeader(pair="east", epoch=3)
ENQUEUE, DEQUEUE = WAYS["QueueService/Enqueue"], WAYS["QueueService/Dequeue"]


def proxy(relationship: int = RELATIONSHIP_UNSPECIFIED) -> Proxy:
    return Proxy("p", 1, "//west/orders", relationship, QueueConfig(), 0)  # type: ignore[arg-type]  # enum number


def test_the_name_is_changed_the_epoch_left_out_and_the_identity_stays() -> None:
    asked = EnqueueRequest(queue="p", request_id=b"i" * 16, epoch=9, min_copies=2, messages=[{"payload": b"x"}])
    sent = EnqueueRequest.FromString(there(ENQUEUE, asked, "orders"))
    wanted = EnqueueRequest(queue="orders", request_id=b"i" * 16, min_copies=2, messages=[{"payload": b"x"}])
    assert sent == wanted


def test_a_queue_is_shown_by_its_name_here() -> None:
    reply = GetQueueResponse()
    reply.queue.name, reply.queue.length = "orders", 3
    here(reply, proxy(), HERE)
    assert (reply.queue.name, reply.queue.length, reply.header) == ("p", 3, HERE)


def test_an_answer_says_on_how_many_copies_it_is_there_and_which_epoch_ordered_it() -> None:
    """A pair that is whole here says nothing of one that serves alone there."""
    alone = ResponseHeader(pair="west", epoch=9, copies=1, level=LEVEL_LOCAL)
    reply = EnqueueResponse(header=alone)
    here(reply, proxy(), HERE)
    wanted = ResponseHeader(pair="east", epoch=3, copies=1, level=LEVEL_LOCAL)
    assert (reply.header, reply.id_epoch) == (wanted, 9)
    again = EnqueueResponse(header=alone, id_epoch=5)
    here(again, proxy(), HERE)
    assert again.id_epoch == 5, "one more proxy"


def test_a_member_of_a_macro_queue_there_is_no_name_here() -> None:
    """A queue here may be called so: what it gave is settled by the proxy's name."""
    reply = DequeueResponse(lease_id=7, member_queue="orders.eu")
    here(reply, proxy(), HERE)
    assert reply == DequeueResponse(header=HERE, lease_id=7)
    asked = SettleRequest(queue="p", settlements=[{"lease_id": 7, "queue": "p"}, {"lease_id": 8, "queue": "orders.eu"}])
    sent = SettleRequest.FromString(there(WAYS["QueueService/Settle"], asked, "orders"))
    assert [each.queue for each in sent.settlements] == ["", "orders.eu"]


def test_the_name_is_read_where_each_call_has_it() -> None:
    for path, way in WAYS.items():
        request = way.request(**{way.name: "p"})
        assert Names(way).of(request.SerializeToString()) == "p", path
    assert Names(WAYS[GET_QUEUE]).of(b"") == ""
    assert Names(ENQUEUE).of(b"\xff") == ""


def test_the_opposite_call_units_and_reactions_go_through_none() -> None:
    reasons = [
        problem_of(way, proxy(relationship), request)
        for way, relationship, request in (
            (ENQUEUE, RELATIONSHIP_CONSUMER, EnqueueRequest()),
            (DEQUEUE, RELATIONSHIP_PRODUCER, DequeueRequest()),
            (ENQUEUE, RELATIONSHIP_PRODUCER, EnqueueRequest(unit_id=b"u")),
            (ENQUEUE, RELATIONSHIP_UNSPECIFIED, _reaction()),
        )
    ]
    assert [each.reason for each in reasons if each is not None] == [
        common_pb2.REASON_RELATIONSHIP_MISMATCH,
        common_pb2.REASON_RELATIONSHIP_MISMATCH,
        common_pb2.REASON_CROSS_DOMAIN,
        common_pb2.REASON_CROSS_DOMAIN,
    ]
    assert problem_of(ENQUEUE, proxy(), EnqueueRequest()) is None
    assert problem_of(DEQUEUE, proxy(RELATIONSHIP_CONSUMER), DequeueRequest()) is None


def _reaction() -> EnqueueRequest:
    request = EnqueueRequest()
    request.reaction.SetInParent()
    return request


def test_what_a_call_may_wait_is_beside_its_time() -> None:
    asked = DequeueRequest()
    asked.wait.FromMilliseconds(2_500)
    assert wait_of(asked) == 2.5
    assert wait_of(WAYS["QueueService/Settle"].request()) == 0.0


def test_what_is_costly_to_parse_is_refused_as_at_a_queue_here() -> None:
    """A map of hundreds of thousands of entries would hold the loop of the manager that has the proxy."""
    limits, many = Limits(), {str(number): {} for number in range(200_000)}
    for path, request in (
        ("QueueService/Enqueue", EnqueueRequest(queue="p", messages=[{"properties": many}])),
        ("QueueService/Reply", ReplyRequest(queue="p", message={"properties": many})),
    ):
        costly = WAYS[path].costly
        assert costly is not None
        problem = costly(request.SerializeToString(), limits)
        assert problem is not None, path
        assert "properties" in problem.message
        assert costly(way_request(path).SerializeToString(), limits) is None
    carrying = {path for path, way in WAYS.items() if way.costly is not None}
    assert carrying == {"QueueService/Enqueue", "QueueService/Reply"}, "others are parsed up to REQUEST_BYTES_MAX"


def way_request(path: str) -> Message:
    return WAYS[path].request(queue="p")


def test_who_waits_for_an_end_and_does_not_say_how_long_waits_as_long_as_he_can() -> None:
    unsaid, said = WaitCompletionRequest(), WaitCompletionRequest(wait={"seconds": 7})
    assert [wait_of(unsaid, left_s) for left_s in (30.0, 3.0, None)] == [30.0 - CALL_S, 0.0, 0.0]
    assert wait_of(said, 30.0) == 7.0
    assert wait_of(DequeueRequest(), 30.0) == 0.0, "which means not at all"

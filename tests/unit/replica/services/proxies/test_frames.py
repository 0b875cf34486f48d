"""How frames of a stream are changed on their way through a proxy."""

from __future__ import annotations

import pytest

from replica.machine.state.proxies import Proxy
from replica.node.members import domain_number
from replica.services.proxies.frames import ConsumeFrames, ProduceFrames
from tandemq.v1.common_pb2 import REASON_NOT_MASTER, REASON_QUEUE_FULL, Error, ResponseHeader
from tandemq.v1.macro_service_pb2 import RELATIONSHIP_UNSPECIFIED
from tandemq.v1.message_pb2 import DeliveredSegment
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import (
    ConsumeOpen,
    ConsumeOpened,
    ConsumePing,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeSettle,
    Deliveries,
    EnqueueAck,
    EnqueueBatch,
    EnqueueReject,
    Goaway,
    ProduceOpen,
    ProduceOpened,
    ProduceRequest,
    ProduceResponse,
)

PROXY = Proxy("p", 1, "//west/orders", RELATIONSHIP_UNSPECIFIED, QueueConfig(), 0)
THERE = ResponseHeader(pair="west", domain="billing", epoch=9, master_endpoint="west:1")
HERE = ResponseHeader(pair="east", domain="main", epoch=3, master_endpoint="east:1")


@pytest.mark.requirement("R064")
def test_a_producer_opens_and_sends_under_the_name_there() -> None:
    frames = ProduceFrames(PROXY, "orders")
    opening = ProduceRequest(open=ProduceOpen(client_id=b"c", queue="p", epoch=3)).SerializeToString()
    wanted = ProduceRequest(open=ProduceOpen(client_id=b"c", queue="orders"))
    assert ProduceRequest.FromString(frames.there(opening)) == wanted
    batch = ProduceRequest(batch=EnqueueBatch(queue="p", first_sequence=7)).SerializeToString()
    sent = ProduceRequest.FromString(frames.there(batch)).batch
    assert (sent.queue, sent.first_sequence) == ("orders", 7)
    with pytest.raises(ValueError, match="a batch for 'other'"):
        frames.there(ProduceRequest(batch=EnqueueBatch(queue="other")).SerializeToString())


def test_answers_are_by_the_name_and_epoch_here_and_say_by_which_ids_are_made() -> None:
    frames = ProduceFrames(PROXY, "orders")

    def here(response: ProduceResponse) -> ProduceResponse:
        return ProduceResponse.FromString(frames.here(response.SerializeToString(), HERE))

    opened = ProduceResponse(opened=ProduceOpened(header=THERE, last_sequence=5))
    assert frames.header(opened.SerializeToString()) == THERE
    assert here(opened).opened == ProduceOpened(header=HERE, last_sequence=5)
    acks = here(
        ProduceResponse(
            ack=EnqueueAck(queue="orders", epoch=9, first_index=4),
            more_acks=[EnqueueAck(queue="orders", epoch=8, id_epoch=2, id_domain=1)],
        )
    )
    number = domain_number("billing")
    assert acks.ack == EnqueueAck(queue="p", epoch=3, first_index=4, id_epoch=9, id_domain=number)
    assert acks.more_acks[0] == EnqueueAck(queue="p", epoch=3, id_epoch=2, id_domain=1), "one more proxy"
    error = Error(reason=REASON_QUEUE_FULL, metadata={"epoch": "9", "limit": "1"})
    reject = here(ProduceResponse(reject=EnqueueReject(queue="orders", error=error))).reject
    assert (reject.queue, dict(reject.error.metadata)) == ("p", {"limit": "1"})


@pytest.mark.parametrize("frames", [ProduceFrames(PROXY, "orders"), ConsumeFrames(PROXY, "orders")])
def test_who_is_sent_away_there_opens_again_here(frames: ProduceFrames | ConsumeFrames) -> None:
    kind = ProduceResponse if isinstance(frames, ProduceFrames) else ConsumeResponse
    error = Error(reason=REASON_NOT_MASTER, metadata={"master": "west:1"})
    away = kind(goaway=Goaway(error=error, master_endpoint="west:1", epoch=9)).SerializeToString()
    assert kind.FromString(frames.here(away, HERE)).goaway == Goaway(error=Error(reason=REASON_NOT_MASTER))
    assert frames.header(away) is None
    assert frames.refusal(away).error == error


def test_a_consumer_is_given_messages_of_the_proxy() -> None:
    frames = ConsumeFrames(PROXY, "orders")
    opening = ConsumeRequest(open=ConsumeOpen(queue="p", client_id=b"c", epoch=3)).SerializeToString()
    assert ConsumeRequest.FromString(frames.there(opening)).open == ConsumeOpen(queue="orders", client_id=b"c")
    settle = ConsumeRequest(settle=ConsumeSettle(settle_id=1)).SerializeToString()
    assert frames.there(settle) == settle
    given = ConsumeResponse(deliveries=Deliveries(header=THERE, queue="orders", lease_id=7)).SerializeToString()
    shown = ConsumeResponse.FromString(frames.here(given, HERE)).deliveries
    assert shown == Deliveries(header=HERE, queue="p", lease_id=7)
    of_member = ConsumeResponse(deliveries=Deliveries(header=THERE, queue="orders.eu")).SerializeToString()
    of_member = frames.here(of_member, HERE)
    assert ConsumeResponse.FromString(of_member).deliveries.queue == "p", "a member of a macro queue is no name here"


def test_ids_of_what_a_consumer_is_given_are_those_that_it_has_there() -> None:
    frames = ConsumeFrames(PROXY, "orders")
    frames.here(ConsumeResponse(opened=ConsumeOpened(header=THERE)).SerializeToString(), HERE)
    segments = [DeliveredSegment(epoch=9, log_index=4), DeliveredSegment(epoch=2, log_index=4, id_domain=1)]
    given = ConsumeResponse(deliveries=Deliveries(header=THERE, segments=segments)).SerializeToString()
    shown = ConsumeResponse.FromString(frames.here(given, HERE)).deliveries.segments
    number = domain_number("billing")
    assert [(each.epoch, each.id_domain) for each in shown] == [(9, number), (2, 1)], "the other came from further away"


def test_a_consumer_opens_under_the_name_there_in_whatever_order_its_fields_come() -> None:
    """Else it would have the queue there that is called as the proxy is here, with the rights of this manager."""
    opening = ConsumeRequest(open=ConsumeOpen(queue="p", client_id=b"c")).SerializeToString()
    for before in (ConsumeRequest(ping=ConsumePing()).SerializeToString(), b"\xf8\x07\x01"):  # field 127
        sent = ConsumeRequest.FromString(ConsumeFrames(PROXY, "orders").there(before + opening))
        assert sent.open.queue == "orders"
    with pytest.raises(ValueError, match="must be open"):
        ConsumeFrames(PROXY, "orders").there(ConsumeRequest(ping=ConsumePing()).SerializeToString())

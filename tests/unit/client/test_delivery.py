"""A received message tells all of its properties, and what its producer gave is fit to be sent on."""

from __future__ import annotations

import pytest

from tandemq.client.delivery import ReceivedMessage
from tandemq.client.outgoing import to_message
from tandemq.client.parts import Part, RowsPart, SegmentPart
from tandemq.v1.message_pb2 import DeliveredMessage, DeliveredSegment, Message, MessageBatch, Properties, PropertyValue
from tandemq.v1.queue_service_pb2 import EnqueueBatch

ENTRIES = {"colour": PropertyValue(text="red"), "tq_hops": PropertyValue(integer=1)}


def row() -> Part:
    return RowsPart([DeliveredMessage(index=1, message=Message(payload=b"x", properties=ENTRIES))])


def segment() -> Part:
    batch = MessageBatch(payloads=[b"x"], properties=[Properties(entries=ENTRIES)])
    body = EnqueueBatch(queue="q", messages=batch).SerializeToString()
    return SegmentPart(DeliveredSegment(batch=body, first_index=1), 7)


@pytest.mark.parametrize("part", [row, segment])
def test_what_the_manager_added_is_read_and_not_sent_on(part) -> None:
    message = ReceivedMessage("q.dead", part(), 0)
    assert message.properties == {"colour": "red", "tq_hops": 1}
    again = to_message(message.payload, message.attributes)
    assert (again.payload, list(again.properties)) == (b"x", ["colour"])

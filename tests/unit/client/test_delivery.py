"""A received message tells all of its properties, and what its producer gave is fit to be sent on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from tandemq.client.delivery import DeliveryBatch, ReceivedMessage
from tandemq.client.outgoing import to_message
from tandemq.client.parts import Part, RowsPart, SegmentPart
from tandemq.client.settling import Act, Range, Settling
from tandemq.v1.message_pb2 import DeliveredMessage, DeliveredSegment, Message, MessageBatch, Properties, PropertyValue
from tandemq.v1.queue_service_pb2 import ConsumeRequest, EnqueueBatch

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


class Gathered:
    """Settles as a consumer does, without a stream."""

    def __init__(self) -> None:
        self.settling = Settling()

    def settle_soon(self, act: Act, ranges: Sequence[Range]) -> None:
        self.settling.add(act, ranges)


@pytest.mark.parametrize("of", ["message", "batch"])
@pytest.mark.parametrize("part", [row, segment])
def test_what_has_no_form_on_the_wire_is_refused_where_it_is_given(part, of: str) -> None:
    """The consumer wrote it later, with what else was settled, and ended with all of that."""
    settler = Gathered()
    batch = DeliveryBatch("q", 3, [part()], settler)  # type: ignore[arg-type]  # nothing more of it is used
    settled = batch if of == "batch" else next(iter(batch))
    for call, bad, kind in (
        (settled.reject, ValueError("no"), "a reason is text, not ValueError"),
        (settled.release, 5, "a duration is a timedelta, not int"),
        (settled.extend, 0.5, "a duration is a timedelta, not float"),
    ):
        with pytest.raises(TypeError, match=kind):
            call(bad)  # type: ignore[operator]
    with pytest.raises(UnicodeEncodeError):
        settled.reject("\ud800")
    settled.release(timedelta(seconds=5))
    settled.reject("no")
    assert settler.settling.seal() == 1
    frame = settler.settling.next_frame()
    assert frame is not None
    made = ConsumeRequest.FromString(frame).settle.settlements
    assert [(each.delay.ToSeconds(), each.reason) for each in made] == [(5, ""), (0, "no")]

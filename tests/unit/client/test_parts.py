"""What a sender gave comes back to the receiver, however the member packed it, with its place in the queue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandemq.client.outgoing import to_message, write_columns
from tandemq.client.parts import Part, RowsPart, SegmentPart
from tandemq.client.receipts import domain_number, message_id
from tandemq.client.waits import FOREVER, to_wait
from tandemq.v1.message_pb2 import DeliveredMessage, DeliveredSegment, MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch

GIVEN: dict[str, tuple[Any, Any]] = {
    "priority": (9, 0),
    "persistent": (True, False),
    "ttl": (timedelta(milliseconds=1_500), timedelta(days=1)),
    "delay": (timedelta(seconds=2), timedelta(milliseconds=1)),
    "deliver_at": (datetime(2027, 1, 2, 3, 4, 5, 678_000, UTC), datetime(2030, 1, 1, tzinfo=UTC)),
    "content_type": ("text/plain", "x"),
    "correlation_id": ("c-1", "c-2"),
    "reply_to": ("answers", "others"),
    "group_id": ("g-1", "g-2"),
    "properties": ({"n": 1, "t": "x"}, {"f": True, "d": 1.5, "b": b"raw"}),
}


def segment_of(rows: list[Any], **fields: Any) -> SegmentPart:
    batch = MessageBatch(payloads=[b"%d" % number for number in range(len(rows))])
    write_columns(batch, rows, [1] * len(rows))
    body = EnqueueBatch(queue="q", messages=batch).SerializeToString()
    return SegmentPart(DeliveredSegment(batch=body, **{"first_index": 5, **fields}), 7)


def rows_of(rows: list[Any]) -> RowsPart:
    return RowsPart([DeliveredMessage(message=to_message(b"%d" % at, row)) for at, row in enumerate(rows)])


def without_nothing(part: Part, place: int) -> dict[str, Any]:
    """A column stands for every message of a batch: where it says nothing, nothing was given."""
    return {
        name: value
        for name, value in part.attributes(place).items()
        if value != {} and (name, value) != ("priority", 4)
    }


@pytest.mark.parametrize("pack", [segment_of, rows_of], ids=["segment", "rows"])
@pytest.mark.parametrize("name", GIVEN)
def test_each_attribute_comes_back_to_whom_it_was_given(pack: Any, name: str) -> None:
    first, second = GIVEN[name]
    for rows in ([{name: first}], [{}, {name: first}, {name: second}, {}], [{name: first}, {name: second}]):
        part = pack(rows)
        assert [without_nothing(part, place) for place in range(len(rows))] == rows
        assert part.payloads == [b"%d" % number for number in range(len(rows))]


@pytest.mark.parametrize("pack", [segment_of, rows_of], ids=["segment", "rows"])
def test_all_attributes_come_back_together_and_none_where_none_was_given(pack: Any) -> None:
    everything = {name: first for name, (first, _) in GIVEN.items()}
    assert without_nothing(pack([everything]), 0) == everything
    assert pack([{}, {}]).attributes(1) == {}


@pytest.mark.parametrize("name", GIVEN)
def test_each_column_with_one_entry_is_for_all(name: str) -> None:
    """As a sender of another language may pack what all messages of a batch have in common."""
    for value in GIVEN[name]:
        batch = MessageBatch(payloads=[b"0", b"1", b"2"])
        write_columns(batch, [{name: value}], [1])
        part = SegmentPart(DeliveredSegment(batch=EnqueueBatch(messages=batch).SerializeToString()), 7)
        assert [without_nothing(part, place) for place in range(3)] == [{name: value}] * 3


def test_a_column_with_one_entry_is_for_all() -> None:
    batch = MessageBatch(payloads=[b"x", b"y"], group_ids=["g"], priorities=[7], persistence=[1])
    part = SegmentPart(DeliveredSegment(batch=EnqueueBatch(messages=batch).SerializeToString(), delivery_counts=[3]), 7)
    assert [part.attributes(place) for place in (0, 1)] == [{"priority": 7, "persistent": False, "group_id": "g"}] * 2
    assert [part.delivery_count(place) for place in (0, 1)] == [3, 3]
    assert part.redelivered() == 2


def test_a_slice_says_where_its_messages_stand() -> None:
    dense = segment_of([{}, {}, {}], epoch=3, log_index=9, first_ordinal=4, enqueue_time_ms=1_500)
    assert [dense.index(place) for place in range(3)] == [5, 6, 7]
    assert (dense.ranges(), dense.redelivered(), dense.delivery_count(2)) == ([(5, 3)], 0, 1)
    assert [dense.id(place) for place in range(3)] == [message_id(7, 3, 9, 4 + place) for place in range(3)]
    assert dense.enqueue_time_ms(2) == 1_500
    sparse = segment_of(
        [{}, {}, {}], indexes=[5, 6, 9], ordinals=[0, 1, 4], delivery_counts=[1, 2, 1], epoch=3, log_index=9
    )
    assert [sparse.index(place) for place in range(3)] == [5, 6, 9]
    assert (sparse.ranges(), sparse.redelivered()) == ([(5, 2), (9, 1)], 1)
    assert sparse.id(2) == message_id(7, 3, 9, 4)
    rows = RowsPart(
        [DeliveredMessage(index=index, id=b"%d" % index, delivery_count=count) for index, count in ((4, 1), (5, 2))]
    )
    assert ([rows.index(0), rows.index(1)], rows.ranges(), rows.redelivered()) == ([4, 5], [(4, 2)], 1)
    assert (rows.id(1), rows.delivery_count(1)) == (b"5", 2)


def test_the_id_of_a_message_has_its_domain_epoch_log_index_and_ordinal() -> None:
    found = message_id(0x01020304, 0x1_0506_0708, 0x090A_0B0C_0D0E, 0x0F10)
    assert found.hex() == "0102030405060708090a0b0c0d0e0f10"
    assert message_id(0, 1, 2, 3) == b""
    assert (domain_number(""), domain_number("main") > 0, domain_number("main") < 1 << 32) == (0, True, True)
    assert domain_number("main") != domain_number("other")


@pytest.mark.parametrize(
    ("given", "wait"),
    [
        (None, timedelta()),
        (0, timedelta()),
        (1, timedelta(seconds=1)),
        (0.25, timedelta(milliseconds=250)),
        (-1, FOREVER),
        (timedelta(seconds=3), timedelta(seconds=3)),
        (timedelta(), timedelta()),
        (FOREVER, FOREVER),
        (FOREVER.total_seconds(), FOREVER),
    ],
)
def test_a_wait_is_none_for_ever_or_so_long(given: Any, wait: timedelta) -> None:
    assert to_wait(given) == wait


@pytest.mark.parametrize(
    "given", [-2, -0.5, timedelta(seconds=-1), FOREVER + timedelta(milliseconds=1), FOREVER.total_seconds() + 1]
)
def test_what_is_no_wait_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="a wait is -1"):
        to_wait(given)


def test_ids_of_what_came_from_another_manager_are_those_that_it_made() -> None:
    here, there = segment_of([{}, {}], epoch=3, log_index=8), segment_of([{}, {}], epoch=3, log_index=8, id_domain=9)
    assert here.id(1) == message_id(7, 3, 8, 1)
    assert there.id(1) == message_id(9, 3, 8, 1)

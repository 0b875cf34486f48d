"""Every attribute of a message by every way of sending: as a row of the unary call, and as a column of a batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandemq.client import aio
from tandemq.client.outgoing import attributes_bytes, to_message, to_property, write_columns
from tandemq.v1 import message_pb2
from tandemq.v1 import queue_service_pb2 as pb
from tests.unit.client.fake import QUEUE, FakeMember, Ledger, serving

AT = datetime(2027, 1, 2, 3, 4, 5, 678_900, UTC)
AT_MS = 1_798_859_045_679
"""Rounded up: never before the moment that was named."""
COLUMNS: dict[str, tuple[Any, str, Any, Any]] = {
    "priority": (9, "priorities", 9, 4),
    "persistent": (True, "persistence", 2, 0),
    "ttl": (timedelta(milliseconds=1_500), "ttls_ms", 1_500, 0),
    "delay": (timedelta(seconds=2), "delays_ms", 2_000, 0),
    "deliver_at": (AT, "deliver_at_ms", AT_MS, 0),
    "content_type": ("text/plain", "content_types", "text/plain", ""),
    "correlation_id": ("c-1", "correlation_ids", "c-1", ""),
    "reply_to": ("answers", "reply_tos", "answers", ""),
    "group_id": ("g-1", "group_ids", "g-1", ""),
    "dedup_id": ("d-1", "dedup_ids", "d-1", ""),
    "properties": (
        {"n": 1},
        "properties",
        message_pb2.Properties(entries={"n": message_pb2.PropertyValue(integer=1)}),
        message_pb2.Properties(),
    ),
}
"""Attribute: a value, its column, what stands there for it, and what stands for a message without it."""


@pytest.fixture
async def member() -> AsyncIterator[FakeMember]:
    async with FakeMember() as started:
        yield started


def columns_of(batch: message_pb2.MessageBatch) -> dict[str, list[Any]]:
    return {field.name: list(value) for field, value in batch.ListFields() if field.name != "payloads"}


async def by_send(producer: aio.Producer, payload: bytes, attributes: Any) -> None:
    await producer.send(payload, **attributes)


async def by_send_nowait(producer: aio.Producer, payload: bytes, attributes: Any) -> None:
    await producer.send_nowait(payload, **attributes)


async def by_send_many(producer: aio.Producer, payload: bytes, attributes: Any) -> None:
    await producer.send_many([payload], **attributes)


@pytest.mark.parametrize("send", [by_send, by_send_nowait, by_send_many])
async def test_a_producer_writes_each_attribute_into_its_column_and_no_other(
    member: FakeMember, send: Callable[[aio.Producer, bytes, Any], Any]
) -> None:
    member.produce = [serving(member, Ledger())]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        for name, (value, _, _, _) in COLUMNS.items():
            await send(producer, name.encode(), {name: value})
        await send(producer, b"none", {})
    batches = [pb.ProduceRequest.FromString(frame).batch.messages for frame in member.produced[0].frames[1:]]
    assert [list(batch.payloads) for batch in batches] == [[name.encode()] for name in COLUMNS] + [[b"none"]]
    expected = [{column: [written]} for _, column, written, _ in COLUMNS.values()]
    assert [columns_of(batch) for batch in batches] == [*expected, {}]


@pytest.mark.parametrize("name", COLUMNS)
def test_beside_messages_that_have_it_the_others_have_what_stands_for_none(name: str) -> None:
    value, column, written, none = COLUMNS[name]
    batch = message_pb2.MessageBatch()
    write_columns(batch, [None, {name: value}, {}], [2, 1, 3])  # type: ignore[misc,list-item]  # the key is a variable
    assert columns_of(batch) == {column: [none, none, written, none, none, none]}


def test_columns_that_nobody_uses_are_not_there() -> None:
    batch = message_pb2.MessageBatch(payloads=[b"x", b"y"])
    write_columns(batch, [None, {}], [1, 1])
    assert columns_of(batch) == {}


def test_as_a_row_each_attribute_has_its_field() -> None:
    row = to_message(b"x", {name: value for name, (value, *_) in COLUMNS.items()})  # type: ignore[arg-type]  # keys of Attributes
    assert (row.payload, row.priority, row.persistent) == (b"x", 9, True)
    assert (row.ttl.ToMilliseconds(), row.delay.ToMilliseconds(), row.deliver_at.ToMilliseconds()) == (
        1_500,
        2_000,
        AT_MS,
    )
    assert (row.content_type, row.correlation_id, row.reply_to) == ("text/plain", "c-1", "answers")
    assert (row.group_id, row.dedup_id, row.properties["n"].integer) == ("g-1", "d-1", 1)


def test_what_is_not_given_is_left_to_the_queue_and_what_is_given_as_nothing_is_said() -> None:
    assert to_message(b"x", {}) == message_pb2.Message(payload=b"x")
    said = to_message(b"x", {"priority": 0, "persistent": False})
    assert (said.HasField("priority"), said.HasField("persistent")) == (True, True)
    batch = message_pb2.MessageBatch()
    write_columns(
        batch, [{"priority": 0, "persistent": False}, {"delay": timedelta(0)}, {"ttl": timedelta(0)}], [1, 1, 1]
    )
    assert columns_of(batch) == {
        "priorities": [0, 4, 4],
        "persistence": [1, 0, 0],
        "delays_ms": [0, 0, 0],
        "ttls_ms": [0, 0, 1],  # 0 would be none at all, and this one is over at once
    }


@pytest.mark.parametrize(
    ("value", "field"), [(True, "flag"), ("t", "text"), (7, "integer"), (1.5, "number"), (b"d", "data")]
)
def test_a_property_keeps_its_type(value: Any, field: str) -> None:
    found = to_property(value)
    assert (found.WhichOneof("value"), getattr(found, field)) == (field, value)


def test_attributes_count_for_the_size_of_a_batch() -> None:
    assert attributes_bytes({}) == 16
    assert attributes_bytes({"group_id": "g" * 100}) > 116
    with pytest.raises(TypeError):
        attributes_bytes({"group_id": 7})  # type: ignore[typeddict-item]  # that is the point


@pytest.mark.parametrize("many", [False, True])
async def test_by_one_call_each_message_carries_its_own(member: FakeMember, many: bool) -> None:
    seen: list[pb.EnqueueRequest] = []

    async def enqueue(request: bytes, _context: Any) -> bytes:
        seen.append(pb.EnqueueRequest.FromString(request))
        results = [pb.EnqueueResult(index=number + 1) for number in range(len(seen[-1].messages))]
        return pb.EnqueueResponse(header=member.header(), results=results).SerializeToString()

    member.unary[QUEUE + "Enqueue"] = enqueue
    async with aio.connect(member.endpoint) as client:
        if many:
            await client.enqueue("q", [b"plain", aio.Outgoing(b"x", {"group_id": "g-1"})])
        else:
            await client.send("q", b"plain")
            await client.send("q", b"x", group_id="g-1")
    rows = [(row.payload, row.group_id) for request in seen for row in request.messages]
    assert rows == [(b"plain", ""), (b"x", "g-1")]

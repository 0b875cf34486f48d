"""An Enqueue request becomes the body of a record, or is refused before it has cost anything."""

from __future__ import annotations

import asyncio

import pytest

from replica.core.messages.bodies import batch_of, row_of
from replica.machine import Limits, Refused
from replica.services.messages.enqueue import SLICE_PROPERTIES, columns_and_body, problem_of_size
from tandemq.v1.common_pb2 import REASON_MESSAGE_TOO_LARGE
from tandemq.v1.message_pb2 import Message, PropertyValue
from tandemq.v1.queue_service_pb2 import EnqueueBatch

LIMITS = Limits()


def numbered(count: int) -> dict[str, PropertyValue]:
    return {str(number): PropertyValue(integer=number) for number in range(count)}


def test_a_request_that_no_batch_can_be_is_refused_unparsed() -> None:
    problem = problem_of_size(bytes(16 << 20), LIMITS)
    assert problem is not None
    assert problem.reason == REASON_MESSAGE_TOO_LARGE


async def test_slices_make_the_same_body() -> None:
    messages = [Message(payload=b"%d" % at, properties=numbered(at % 30)) for at in range(1_500)]
    assert sum(len(each.properties) for each in messages) > 2 * SLICE_PROPERTIES
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watch = asyncio.create_task(others())
    columns, body = await columns_and_body("q", messages, LIMITS)
    watch.cancel()
    assert turns >= 2, "the loop was given back between slices"
    assert columns.count == len(messages)
    whole = EnqueueBatch(queue="q", messages=batch_of(messages))
    assert body == whole.SerializeToString(deterministic=True)
    stored = EnqueueBatch.FromString(body).messages
    assert [row_of(stored, at) for at in range(len(messages))] == messages


async def test_too_many_messages_are_refused_before_they_are_copied() -> None:
    small = Limits(batch_messages_max=2)
    with pytest.raises(Refused, match="3 messages in a batch; it may have 1 to 2"):
        await columns_and_body("q", [Message()] * 3, small)


async def test_a_body_over_the_limit_is_refused() -> None:
    rows = [Message(payload=bytes(2_000_000))]
    with pytest.raises(Refused, match="the limit is 2000000"):
        await columns_and_body("q", rows, Limits(batch_bytes_max=2_000_000))

"""An Enqueue request becomes the body of a record, or is refused before it has cost anything."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replica.core.messages.bodies import batch_of, row_of
from replica.machine import Limits, Refused
from replica.machine.plan.content import PROPERTIES_MAX
from replica.services.messages.enqueue import SLICE_PROPERTIES, columns_and_body, problem_of_maps, problem_of_size
from replica.services.weighing import ANSWER, has_huge_column, has_huge_map
from tandemq.v1.common_pb2 import REASON_BAD_REQUEST, REASON_MESSAGE_TOO_LARGE
from tandemq.v1.message_pb2 import Message, MessageBatch, Properties, PropertyValue
from tandemq.v1.queue_service_pb2 import EnqueueBatch, EnqueueRequest, ProduceRequest, ReplyRequest

LIMITS = Limits()


def numbered(count: int) -> dict[str, PropertyValue]:
    return {str(number): PropertyValue(integer=number) for number in range(count)}


def request_of(*messages: Message) -> bytes:
    return EnqueueRequest(queue="q", request_id=bytes(16), messages=messages).SerializeToString()


def test_a_map_that_is_far_too_large_is_refused_unparsed() -> None:
    before = Message(payload=b"J" * 10_000)
    assert problem_of_size(request_of(before, Message(properties=numbered(PROPERTIES_MAX))), LIMITS) is None
    problem = problem_of_size(request_of(before, Message(properties=numbered(PROPERTIES_MAX + 1)), before), LIMITS)
    assert problem is not None
    assert problem.reason == REASON_BAD_REQUEST
    assert "more than 256 properties" in problem.message


def test_an_answer_is_weighed_like_a_message() -> None:
    for more in (0, 1):
        answer = ReplyRequest(queue="J", lease_id=0x4A, message=Message(properties=numbered(PROPERTIES_MAX + more)))
        assert (problem_of_maps(answer.SerializeToString(), ANSWER) is not None) is bool(more)


def test_a_huge_map_among_columns_is_found_and_a_payload_that_looks_like_one_is_not() -> None:
    huge = MessageBatch(payloads=[b"x"], properties=[Properties(entries=numbered(20_000))])
    frame = ProduceRequest(batch=EnqueueBatch(queue="q", first_sequence=1, messages=huge)).SerializeToString()
    assert has_huge_column(frame)
    inside = MessageBatch(payloads=[b"x", frame], properties=[Properties(entries=numbered(PROPERTIES_MAX))])
    batch = EnqueueBatch(queue="q", first_sequence=1, messages=inside)
    assert not has_huge_column(ProduceRequest(batch=batch).SerializeToString())


@given(st.binary(max_size=60))
def test_bytes_that_are_no_frame_are_left_to_the_parser(garbage: bytes) -> None:
    assert not has_huge_column(b"\x4a\xff\xff\x7f\x0a\x00\x0a\x00\x0a" + garbage)


def test_a_request_that_no_batch_can_be_is_refused_unparsed() -> None:
    problem = problem_of_size(bytes(16 << 20), LIMITS)
    assert problem is not None
    assert problem.reason == REASON_MESSAGE_TOO_LARGE


@given(st.binary(max_size=60))
@example(b"\x1a\x80\x05")  # a field that says it is longer than the request
def test_bytes_that_are_no_request_are_left_to_the_parser(garbage: bytes) -> None:
    assert has_huge_map(garbage + b"\x4a" * (PROPERTIES_MAX + 1)) in (False, True)


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
    columns, body = await columns_and_body(EnqueueRequest(queue="q", messages=messages), LIMITS)
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
        await columns_and_body(EnqueueRequest(queue="q", messages=[Message()] * 3), small)


async def test_a_body_over_the_limit_is_refused() -> None:
    request = EnqueueRequest(queue="q", messages=[Message(payload=bytes(2_000_000))])
    with pytest.raises(Refused, match="the limit is 2000000"):
        await columns_and_body(request, Limits(batch_bytes_max=2_000_000))

"""A large request is refused by the counts of its outline, before a map of it is parsed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as AnyMessage
from hypothesis import example, given
from hypothesis import strategies as st

from replica.core.state.outcomes import Failed
from replica.machine import Limits
from replica.services.weighing import (
    COSTLY,
    LONG_BYTES,
    problem_of_commit,
    problem_of_frame,
    problem_of_reaction,
    problem_of_reply,
    problem_of_request,
    problem_of_unit,
)
from tandemq.peer.v1 import outline_pb2
from tandemq.v1.common_pb2 import REASON_BAD_REQUEST, REASON_TXN_TOO_LARGE
from tandemq.v1.message_pb2 import Message, MessageBatch, Properties, PropertyValue
from tandemq.v1.queue_service_pb2 import EnqueueBatch, EnqueueRequest, ProduceRequest, ReplyRequest
from tandemq.v1.reaction_service_pb2 import Reaction, ReactionCustom, ReactionUpdate, ReactRequest
from tandemq.v1.stage_service_pb2 import StageRequest
from tandemq.v1.transaction_service_pb2 import CommitRequest, QueueMessages, TransactRequest

LIMITS, FEW = Limits(), Limits(batch_messages_max=1_000)
LONG = bytes(LONG_BYTES)
"""Enough for a request to be looked at."""
OVERLONG = b"\xca\x00"
"""The tag of properties, in one byte more than it needs: parsers take it."""


def numbered(count: int) -> dict[str, PropertyValue]:
    return {str(number): PropertyValue(integer=number) for number in range(count)}


def rows(count: int) -> bytes:
    more = Message(properties=numbered(count))
    return EnqueueRequest(queue="q", messages=[Message(payload=LONG), more, Message()]).SerializeToString()


def answer(count: int) -> bytes:
    message = Message(payload=LONG, properties=numbered(count))
    return ReplyRequest(queue="q", lease_id=7, message=message).SerializeToString()


def batch(*counts: int) -> EnqueueBatch:
    columns = [Properties(entries=numbered(count)) for count in counts]
    return EnqueueBatch(queue="q", messages=MessageBatch(payloads=[LONG] * len(counts), properties=columns))


def frame(count: int) -> bytes:
    return ProduceRequest(batch=batch(1, count)).SerializeToString()


def part(count: int) -> bytes:
    return StageRequest(batch=batch(count, 1)).SerializeToString()


Judge = Callable[[bytes], Failed | None]


def of_request(data: bytes) -> Failed | None:
    return problem_of_request(data, LIMITS)


def of_frame(data: bytes) -> Failed | None:
    return problem_of_frame(data, LIMITS)


WAYS = [(rows, of_request), (answer, problem_of_reply), (frame, of_frame), (part, of_frame)]


@pytest.mark.parametrize(("made", "judge"), WAYS)
def test_far_too_many_properties_are_refused_unparsed(made: Callable[[int], bytes], judge: Judge) -> None:
    assert judge(made(300)) is None, "its exact count is refused afterwards, and a stream goes on"
    assert judge(made(COSTLY)) is None
    problem = judge(made(COSTLY + 1))
    assert problem is not None
    assert (problem.reason, problem.message) == (
        REASON_BAD_REQUEST,
        "a message has more than 256 properties; it may have 256",
    )


def test_a_tag_that_is_written_longer_than_it_need_be_is_counted() -> None:
    one = Message(properties=numbered(1)).SerializeToString()
    request = EnqueueRequest(messages=[Message(payload=LONG), Message.FromString(OVERLONG + one[1:])])
    assert len(request.messages[1].properties) == 1, "the parser takes it"
    hidden = (OVERLONG + one[1:]) * (COSTLY + 1)
    assert of_request(EnqueueRequest(messages=[Message(payload=LONG)]).SerializeToString() + _field(3, hidden))


def _field(number: int, data: bytes) -> bytes:
    size = len(data)
    return bytes([number << 3 | 2, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + data


@pytest.mark.parametrize(("made", "judge"), WAYS)
def test_payloads_that_look_like_properties_are_none(made: Callable[[int], bytes], judge: Judge) -> None:
    looks = b"".join(made(COSTLY + 1)[LONG_BYTES:] for _ in range(3))
    inside = looks + LONG
    message = Message(payload=inside, properties=numbered(COSTLY))
    columns = MessageBatch(payloads=[inside], properties=[Properties(entries=numbered(COSTLY))])
    fine = {
        rows: EnqueueRequest(messages=[message]),
        answer: ReplyRequest(message=message),
        frame: ProduceRequest(batch=EnqueueBatch(messages=columns)),
        part: StageRequest(batch=EnqueueBatch(messages=columns)),
    }
    assert judge(fine[made].SerializeToString()) is None  # type: ignore[index]  # one of the four


def test_more_rows_than_a_batch_may_have_are_counted_and_not_looked_at() -> None:
    more = Message(properties=numbered(COSTLY), payload=b"its row alone has too few")
    many = EnqueueRequest(
        messages=[more, *[Message(payload=bytes(200), properties=numbered(1))] * 1_000]
    ).SerializeToString()
    problem = problem_of_request(many, FEW)
    assert problem is not None
    assert problem.message == "1001 messages in a batch; it may have 1 to 1000"
    assert problem_of_request(many, LIMITS) is None
    column = MessageBatch(payloads=[LONG], properties=[Properties()] * 1_001)
    frame = ProduceRequest(batch=EnqueueBatch(messages=column)).SerializeToString()
    problem = problem_of_frame(frame, FEW)
    assert problem is not None
    assert problem.message == "properties has 1001 entries; a batch may have 1000 messages"
    assert problem_of_frame(frame, LIMITS) is None


def test_many_messages_with_few_properties_each_are_not_too_many() -> None:
    each = Message(payload=bytes(2_000), properties=numbered(200))
    assert of_request(EnqueueRequest(messages=[each] * 60).SerializeToString()) is None


def test_a_sum_has_the_field_of_its_outline() -> None:
    (outline,) = outline_pb2.EnqueueOutline.DESCRIPTOR.fields
    sum_of = outline_pb2.EnqueueSum.DESCRIPTOR.fields_by_name[outline.name]
    assert (sum_of.name, sum_of.number, sum_of.message_type) == (outline.name, outline.number, outline.message_type)
    assert (sum_of.is_repeated, outline.is_repeated) == (False, True), "so that its occurrences are merged"


def test_what_is_short_is_parsed_at_once() -> None:
    short = EnqueueRequest(messages=[Message(properties=numbered(COSTLY + 1))]).SerializeToString()
    assert of_request(short) is None, "it is refused by its exact counts afterwards"


@given(st.binary(max_size=60))
@example(b"\x1a\x80\x05")  # a field that says it is longer than the request
def test_bytes_that_are_no_request_are_left_to_the_parser(garbage: bytes) -> None:
    for data in (garbage + LONG, _field(1, b"q") + LONG + garbage):
        assert (of_request(data), problem_of_reply(data), of_frame(data)) == (None, None, None)


PAIRS = [
    (outline_pb2.FrameOutline, ProduceRequest),
    (outline_pb2.FrameOutline, StageRequest),
    (outline_pb2.BatchOutline, EnqueueBatch),
    (outline_pb2.ColumnsOutline, MessageBatch),
    (outline_pb2.PropertiesOutline, Properties),
    (outline_pb2.EnqueueOutline, EnqueueRequest),
    (outline_pb2.MessageOutline, Message),
    (outline_pb2.ReplyOutline, ReplyRequest),
    (outline_pb2.TransactOutline, TransactRequest),
    (outline_pb2.CommitOutline, CommitRequest),
]


@pytest.mark.parametrize(("outline", "real"), PAIRS)
def test_an_outline_has_the_names_and_numbers_of_what_it_outlines(
    outline: type[AnyMessage], real: type[AnyMessage]
) -> None:
    for field in outline.DESCRIPTOR.fields:
        there = real.DESCRIPTOR.fields_by_name[field.name]
        assert (field.number, field.is_repeated) == (there.number, there.is_repeated)
        if field.type == FieldDescriptor.TYPE_BYTES:
            assert there.message_type.GetOptions().map_entry


def unit(*counts: int) -> bytes:
    """A unit of work; one put for each number, of its properties."""
    puts = [QueueMessages(queue="q", messages=[Message(payload=LONG, properties=numbered(count))]) for count in counts]
    return TransactRequest(request_id=bytes(16), puts=puts).SerializeToString()


def test_a_unit_is_weighed_as_a_batch_is_and_by_its_queues() -> None:
    assert problem_of_unit(unit(1, COSTLY), LIMITS) is None
    far = problem_of_unit(unit(1, COSTLY + 1), LIMITS)
    assert far is not None
    assert far.reason == REASON_BAD_REQUEST
    queues = TransactRequest(puts=[QueueMessages()] * LONG_BYTES).SerializeToString()
    messages = TransactRequest(
        puts=[QueueMessages(messages=[Message()] * 501)] * 2 + [QueueMessages(queue="q" * LONG_BYTES)]
    )
    for request, what in ((queues, f"{LONG_BYTES} queues"), (messages.SerializeToString(), "1002 messages")):
        found = problem_of_unit(request, FEW)
        assert found is not None
        assert found.reason == REASON_TXN_TOO_LARGE
        assert what in found.message


def committing(*counts: int) -> bytes:
    """A commit; one put for each number, of its properties."""
    puts = [EnqueueRequest(messages=[Message(payload=LONG, properties=numbered(count))]) for count in counts]
    return CommitRequest(unit_id=bytes(16), puts=puts).SerializeToString()


def test_a_commit_is_weighed_by_its_puts() -> None:
    assert problem_of_commit(committing(1, COSTLY), LIMITS) is None
    far = problem_of_commit(committing(1, COSTLY + 1), LIMITS)
    assert far is not None
    assert far.reason == REASON_BAD_REQUEST
    calls = CommitRequest(puts=[EnqueueRequest()] * LONG_BYTES)
    messages = CommitRequest(
        puts=[EnqueueRequest(messages=[Message()] * 501)] * 2 + [EnqueueRequest(queue="q" * LONG_BYTES)]
    )
    for request, what in ((calls, f"{LONG_BYTES} calls"), (messages, "1002 messages")):
        found = problem_of_commit(request.SerializeToString(), FEW)
        assert found is not None
        assert found.reason == REASON_TXN_TOO_LARGE
        assert what in found.message


def test_a_change_is_weighed_by_its_properties() -> None:
    def request(count: int) -> bytes:
        update = ReactionUpdate(payload=LONG, set_properties=numbered(count))
        return ReactRequest(request_id=bytes(16), reaction=Reaction(update=update)).SerializeToString()

    assert problem_of_reaction(request(COSTLY)) is None
    found = problem_of_reaction(request(COSTLY + 1))
    assert found is not None
    assert found.reason == REASON_BAD_REQUEST


@pytest.mark.parametrize("name", ["update", "custom"])
def test_a_reactive_message_has_no_more_than_the_call_that_it_is(name: str) -> None:
    def reaction(count: int) -> Reaction:
        if name == "update":
            return Reaction(update=ReactionUpdate(payload=LONG, set_properties=numbered(count)))
        return Reaction(custom=ReactionCustom(payload=LONG, properties=numbered(count)))

    def sent(count: int) -> bytes:
        return EnqueueRequest(messages=[Message()], reaction=reaction(count)).SerializeToString()

    assert problem_of_request(sent(COSTLY), LIMITS) is None
    assert problem_of_request(sent(COSTLY + 1), LIMITS) is not None
    assert problem_of_reaction(ReactRequest(reaction=reaction(COSTLY)).SerializeToString()) is None
    assert problem_of_reaction(ReactRequest(reaction=reaction(COSTLY + 1)).SerializeToString()) is not None

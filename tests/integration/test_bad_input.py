"""What a client may get wrong in a request: every refusal says what, where and what to do, in one form, and the pair
serves on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from tandemq.errors import to_error
from tandemq.v1 import message_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.bad_input import (
    INVALID,
    MISSING,
    batch_of,
    consume_open,
    each_member,
    first_answer,
    new_queue,
    served_on,
)
from tests.integration.module_pair import module_pair
from tests.integration.support import Raw, new_id, new_name, refused
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

pair = module_pair()
serves_on = served_on()
member = each_member()
queue = new_queue()


# -- names and attributes ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R063")
async def test_an_unknown_queue_is_refused_by_every_call(member: Raw) -> None:
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "Enqueue": lambda: member.send("nowhere", b"x"),
        "Dequeue": lambda: member.receive("nowhere"),
        "Settle": lambda: member.ack("nowhere", service.DequeueResponse(lease_id=1, messages=[{"index": 1}])),
        "BrowsePage": lambda: member.queue.BrowsePage(service.BrowsePageRequest(queue="nowhere"), timeout=OUTER_S),
        "Browse": lambda: member.queue.Browse(service.BrowseRequest(queue="nowhere"), timeout=OUTER_S).read(),
        "GetQueue": lambda: member.admin.GetQueue(admin.GetQueueRequest(name="nowhere"), timeout=OUTER_S),
        "Update": lambda: member.admin.UpdateQueue(
            admin.UpdateQueueRequest(name="nowhere", request_id=new_id(), config={"annotation": "x"}), timeout=OUTER_S
        ),
        "Delete": lambda: member.admin.DeleteQueue(
            admin.DeleteQueueRequest(name="nowhere", request_id=new_id()), timeout=OUTER_S
        ),
        "Purge": lambda: member.admin.PurgeQueue(
            admin.PurgeQueueRequest(name="nowhere", request_id=new_id()), timeout=OUTER_S
        ),
        "Open": lambda: member.admin.OpenReplicatedQueue(
            admin.OpenReplicatedQueueRequest(name="nowhere", request_id=new_id()), timeout=OUTER_S
        ),
        "Consume": lambda: first_answer(member.queue.Consume, service.ConsumeRequest(open=consume_open("nowhere"))),
    }
    for call in calls.values():
        with refused("QUEUE_NOT_FOUND", MISSING, "nowhere"):
            await call()


async def test_an_unknown_queue_rejects_a_batch_and_not_the_stream(member: Raw, queue: str) -> None:
    call = member.queue.Produce(timeout=OUTER_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    assert (await call.read()).HasField("opened")
    await call.write(service.ProduceRequest(batch=batch_of("nowhere", 1, b"x")))
    reject = (await call.read()).reject
    assert (reject.queue, reject.first_sequence, reject.count) == ("nowhere", 1, 1)
    assert to_error(reject.error).reason == "QUEUE_NOT_FOUND"
    assert "nowhere" in reject.error.message
    await call.write(service.ProduceRequest(batch=batch_of(queue, 1, b"y")))
    assert (await call.read()).ack.first_index == 1
    call.cancel()


@pytest.mark.parametrize(
    "name", ["", "a b", "a//b", "/a", "a/..", ".", "SYSTEM.x", "ä", "x" * 256, "a\x00b", "a\nb"], ids=repr
)
async def test_a_bad_name_is_refused(member: Raw, name: str) -> None:
    with refused("BAD_NAME", INVALID, "queue name"):
        await member.create(name)


@pytest.mark.parametrize(
    ("message", "reason", "word"),
    [
        ({"properties": {str(n): {"flag": True} for n in range(257)}}, "BAD_REQUEST", "256"),
        ({"properties": {"tq_hops": {"integer": 1 << 62}}}, "BAD_REQUEST", "'tq_hops'"),
        ({"properties": {"x" * 1_025: {"flag": True}}}, "BAD_ATTRIBUTE", "1025 bytes"),
        *(({name: "x" * 1_025}, "BAD_ATTRIBUTE", name) for name in ("group_id", "correlation_id", "content_type")),
        ({"reply_to": "x" * 1_025}, "BAD_ATTRIBUTE", "reply_to"),
    ],
    ids=["properties", "tq_", "name", "group_id", "correlation_id", "content_type", "reply_to"],
)
async def test_what_may_not_stand_beside_a_payload(
    member: Raw, queue: str, message: dict[str, Any], reason: str, word: str
) -> None:
    with refused(reason, INVALID, word):
        request = service.EnqueueRequest(queue=queue, request_id=new_id(), messages=[message])
        await member.queue.Enqueue(request, timeout=OUTER_S)
    with refused(reason, INVALID, word):
        answer = service.ReplyRequest(queue=queue, request_id=new_id(), lease_id=1, index=1, message=message)
        await member.queue.Reply(answer, timeout=OUTER_S)
    call = member.queue.Produce(timeout=OUTER_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    assert (await call.read()).HasField("opened")
    batch = batch_of(queue, 1, b"x")
    for name, value in message.items():
        many = name == "properties"
        column = "properties" if many else f"{name}s"
        getattr(batch.messages, column).extend([message_pb2.Properties(entries=value)] if many else [value])
    await call.write(service.ProduceRequest(batch=batch))
    error = to_error((await call.read()).reject.error)
    assert (error.reason, word in error.message) == (reason, True), error
    await call.write(service.ProduceRequest(batch=batch_of(queue, 1, b"y")))
    assert (await call.read()).ack.first_index == 1
    call.cancel()


async def test_a_request_that_is_far_too_long_is_refused_unparsed(member: Raw) -> None:
    labels = {str(number): "" for number in range(200_000)}
    with refused("BAD_REQUEST", INVALID, "CreateQueueRequest may have 1048576"):
        request = admin.CreateQueueRequest(name=new_name(), request_id=new_id(), config={"labels": labels})
        await member.admin.CreateQueue(request, timeout=OUTER_S)


@pytest.mark.parametrize("letter", ["x", "ä"])
async def test_a_refusal_of_something_long_arrives_with_its_reason(member: Raw, queue: str, letter: str) -> None:
    long = letter * 100_000
    with refused("QUEUE_NOT_FOUND", MISSING, "... ("):
        await member.admin.GetQueue(admin.GetQueueRequest(name=long), timeout=OUTER_S)
    with refused("QUEUE_NOT_FOUND", MISSING, "... ("):
        await member.send(long, b"x")
    mask = {"paths": [long]}
    with refused("BAD_ATTRIBUTE", INVALID, "... ("):
        await member.admin.UpdateQueue(
            admin.UpdateQueueRequest(name=queue, request_id=new_id(), config={}, update_mask=mask), timeout=OUTER_S
        )


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"persistence": 99}, "persistence 99"),
        ({"replication": 99}, "replication 99"),
        ({"max_length": 0}, "max_length"),
        ({"max_message_bytes": 1 << 40}, "max_message_bytes"),
        ({"lease_duration": {"seconds": 1 << 30}}, "lease_duration"),
        ({"lease_duration": {"seconds": -1}}, "lease_duration"),
        ({"default_ttl": {"seconds": -1}}, "default_ttl"),
        ({"dead_letter_queue": "a b"}, "dead_letter_queue"),
    ],
    ids=str,
)
async def test_a_bad_attribute_is_refused(member: Raw, config: dict[str, Any], word: str) -> None:
    with refused("BAD_ATTRIBUTE", INVALID, word):
        await member.create(new_name(), **config)


@pytest.mark.parametrize(
    ("config", "word"),
    [({"domain": "nowhere"}, "nowhere"), ({"domain": "local", "replication": admin.REPLICATION_FULL}, "local")],
    ids=str,
)
async def test_a_domain_that_cannot_take_the_queue_is_refused(member: Raw, config: dict[str, Any], word: str) -> None:
    with refused("CONFIG_ERROR", grpc.StatusCode.FAILED_PRECONDITION, word):
        await member.create(new_name(), **config)


async def test_changing_what_cannot_be_changed_is_refused(member: Raw, queue: str) -> None:
    def update(path: str) -> admin.UpdateQueueRequest:
        return admin.UpdateQueueRequest(name=queue, request_id=new_id(), config={}, update_mask={"paths": [path]})

    with refused("READ_ONLY", INVALID, "domain"):
        await member.admin.UpdateQueue(update("domain"), timeout=OUTER_S)
    with refused("BAD_ATTRIBUTE", INVALID, "colour", "known are"):
        await member.admin.UpdateQueue(update("colour"), timeout=OUTER_S)
    with refused("BAD_REQUEST", INVALID, "name at least one"):
        await member.admin.UpdateQueue(admin.UpdateQueueRequest(name=queue, request_id=new_id()), timeout=OUTER_S)
    with refused("VERSION_MISMATCH", grpc.StatusCode.FAILED_PRECONDITION, "version 1, not 7"):
        request = update("annotation")
        request.expected_version = 7
        await member.admin.UpdateQueue(request, timeout=OUTER_S)


# -- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R161")
async def test_an_oversize_message_refuses_its_entry_only(member: Raw, queue: str) -> None:
    sent = await member.send(queue, b"small", b"x" * ((1 << 20) + 1), b"also small")
    assert [result.index for result in sent.results] == [1, 0, 2]
    error = to_error(sent.results[1].error)
    assert error.reason == "MESSAGE_TOO_LARGE"
    assert "max_message_bytes" in error.message
    assert await member.take(queue, 10) == [b"small", b"also small"]


async def test_an_oversize_batch_is_refused_whole(member: Raw, queue: str) -> None:
    with refused("MESSAGE_TOO_LARGE", INVALID, "limit is 4194304"):
        await member.send(queue, *[b"x" * (1 << 20)] * 5)
    call = member.queue.Produce(timeout=OUTER_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    assert (await call.read()).opened.max_batch_bytes == 4 << 20
    await call.write(service.ProduceRequest(batch=batch_of(queue, 1, *[b"x" * (1 << 20)] * 5)))
    assert to_error((await call.read()).reject.error).reason == "MESSAGE_TOO_LARGE"
    await call.write(service.ProduceRequest(batch=batch_of(queue, 1, b"y")))
    assert (await call.read()).ack.first_index == 1
    call.cancel()


async def test_a_request_beyond_the_transport_limit_is_refused_and_harms_nobody(member: Raw, queue: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as info:
        await member.send(queue, b"x" * (17 << 20))
    assert info.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # gRPC's own words, before a byte is parsed


async def test_an_empty_batch_and_one_of_too_many_are_refused(member: Raw, queue: str) -> None:
    with refused("BAD_REQUEST", INVALID, "1 to 10000"):
        await member.send(queue)
    with refused("BAD_REQUEST", INVALID, "1 to 10000"):
        await member.send(queue, *[b""] * 10_001)


# -- values that are not in the contract -------------------------------------------------------------------------------


async def test_an_unknown_priority_or_persistence_is_refused(member: Raw, queue: str) -> None:
    request = service.EnqueueRequest(queue=queue, request_id=new_id(), messages=[{"payload": b"x", "priority": 10}])
    with refused("BAD_ATTRIBUTE", INVALID, "priorities has 10", "highest is 9"):
        await member.queue.Enqueue(request, timeout=OUTER_S)
    call = member.queue.Produce(timeout=OUTER_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    await call.read()
    for column, value in (("priorities", 10), ("persistence", 99)):
        batch = batch_of(queue, 1, b"x")
        getattr(batch.messages, column).append(value)
        await call.write(service.ProduceRequest(batch=batch))
        error = to_error((await call.read()).reject.error)
        assert error.reason == "BAD_ATTRIBUTE"
        assert f"{column} has {value}" in error.message
    call.cancel()


async def test_columns_that_do_not_fit_the_payloads_are_refused(member: Raw, queue: str) -> None:
    call = member.queue.Produce(timeout=OUTER_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    await call.read()
    batch = batch_of(queue, 1, b"x", b"y", b"z")
    batch.messages.group_ids.extend(["g", "h"])
    await call.write(service.ProduceRequest(batch=batch))
    assert to_error((await call.read()).reject.error).reason == "BAD_REQUEST"
    call.cancel()


@pytest.mark.parametrize("value", [0, 99])
async def test_an_unknown_outcome_refuses_its_settlement(member: Raw, queue: str, value: int) -> None:
    await member.send(queue, b"x")
    got = await member.receive(queue)
    settlement = {"lease_id": got.lease_id, "ranges": [{"first": 1, "count": 1}], "outcome": value}
    request = service.SettleRequest(queue=queue, request_id=new_id(), settlements=[settlement])
    [result] = (await member.queue.Settle(request, timeout=OUTER_S)).results
    assert to_error(result.error).reason == "BAD_REQUEST"
    assert "outcome must be" in result.error.message
    assert not (await member.ack(queue, got)).results[0].HasField("error"), "still leased, and still to be settled"


async def test_an_unknown_settle_mode_is_refused(member: Raw, queue: str) -> None:
    await member.send(queue, b"x")
    with refused("BAD_REQUEST", INVALID, "settle_mode 99"):
        await member.receive(queue, settle_mode=99)
    with refused("BAD_REQUEST", INVALID, "settle_mode 99"):
        await first_answer(member.queue.Consume, service.ConsumeRequest(open=consume_open(queue, settle_mode=99)))
    assert await member.take(queue) == [b"x"]


async def test_an_unknown_delivery_format_is_refused(member: Raw, queue: str) -> None:
    with refused("BAD_REQUEST", INVALID, "format 99"):
        await first_answer(member.queue.Consume, service.ConsumeRequest(open=consume_open(queue, format=99)))


@pytest.mark.parametrize("seconds", [13 * 3600, -1, 1 << 40])
async def test_a_lease_of_impossible_length_is_refused(member: Raw, queue: str, seconds: int) -> None:
    """Found by these tests: the refusal came out of the loop that hands out messages, and the member stopped."""
    await member.send(queue, b"x")
    with refused("BAD_REQUEST", INVALID, "lease_duration"):
        await member.receive(queue, lease_duration={"seconds": seconds})
    opening = consume_open(queue, lease_duration={"seconds": seconds})
    with refused("BAD_REQUEST", INVALID, "lease_duration"):
        await first_answer(member.queue.Consume, service.ConsumeRequest(open=opening))
    assert await member.take(queue) == [b"x"]


async def test_times_beyond_any_calendar_harm_nobody(member: Raw, queue: str) -> None:
    far = {"seconds": 1 << 60}
    with refused("BAD_ATTRIBUTE", INVALID, "ttl"):
        messages = [{"payload": b"x", "ttl": far}]
        request = service.EnqueueRequest(queue=queue, request_id=new_id(), messages=messages)
        await member.queue.Enqueue(request, timeout=OUTER_S)
    await member.send(queue, b"x")
    assert len((await member.receive(queue, wait=far)).messages) == 1
    nothing = await member.receive(queue, wait={"seconds": -(1 << 60)})
    assert not nothing.messages


async def test_browsing_beyond_the_end_is_an_empty_page(member: Raw, queue: str) -> None:
    await member.send(queue, b"x")
    request = service.BrowsePageRequest(queue=queue, from_index=(1 << 64) - 1, max_messages=(1 << 32) - 1)
    page = await member.queue.BrowsePage(request, timeout=OUTER_S)
    assert (list(page.messages), page.next_index) == ([], 0)


@pytest.mark.parametrize("size", [0, 15, 17])
async def test_a_request_id_of_the_wrong_length_is_refused(member: Raw, queue: str, size: int) -> None:
    bad = b"x" * size
    for call in (
        lambda: member.send(queue, b"x", request_id=bad),
        lambda: member.receive(queue, request_id=bad),
        lambda: member.ack(queue, service.DequeueResponse(lease_id=1), request_id=bad),
        lambda: member.admin.DeleteQueue(admin.DeleteQueueRequest(name=queue, request_id=bad), timeout=OUTER_S),
    ):
        with refused("BAD_REQUEST", INVALID, "request_id must have 16 bytes"):
            await call()

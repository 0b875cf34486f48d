"""What a client may get wrong: every refusal says what, where and what to do, in one form, and the pair serves on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest

from chaos.cluster import Cluster
from tandemq import seen
from tandemq.errors import to_error
from tandemq.v1 import message_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import CALL_S, Raw, new_id, new_name, raw_to, refused, still_serves

pytestmark = pytest.mark.process

INVALID, MISSING = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
QUEUE, ADMIN = "/tandemq.v1.QueueService/", "/tandemq.v1.QueueAdminService/"
GARBAGE = b"\xff\xff\xff\xff garbage"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("pair"))
    asyncio.run(cluster.start())
    yield cluster
    asyncio.run(cluster.stop())


@pytest.fixture(autouse=True)
async def serves_on(pair: Cluster) -> AsyncIterator[None]:
    """Whatever a test does, the pair is as good as before."""
    pids = {name: child.pid for name, child in pair.children.items()}
    yield
    await still_serves(pair)
    assert {name: child.pid for name, child in pair.children.items()} == pids


@pytest.fixture(params=["a", "b"])
async def member(pair: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Raw]:
    """Each member in turn: one orders, one forwards."""
    async with raw_to(pair.endpoint(request.param)) as [raw]:
        yield raw


@pytest.fixture
async def queue(member: Raw) -> str:
    name = new_name()
    await member.create(name)
    return name


# -- names and attributes ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R063")
async def test_an_unknown_queue_is_refused_by_every_call(member: Raw) -> None:
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "Enqueue": lambda: member.send("nowhere", b"x"),
        "Dequeue": lambda: member.receive("nowhere"),
        "Settle": lambda: member.ack("nowhere", service.DequeueResponse(lease_id=1, messages=[{"index": 1}])),
        "BrowsePage": lambda: member.queue.BrowsePage(service.BrowsePageRequest(queue="nowhere"), timeout=CALL_S),
        "Browse": lambda: member.queue.Browse(service.BrowseRequest(queue="nowhere"), timeout=CALL_S).read(),
        "GetQueue": lambda: member.admin.GetQueue(admin.GetQueueRequest(name="nowhere"), timeout=CALL_S),
        "Update": lambda: member.admin.UpdateQueue(
            admin.UpdateQueueRequest(name="nowhere", request_id=new_id(), config={"annotation": "x"}), timeout=CALL_S
        ),
        "Delete": lambda: member.admin.DeleteQueue(
            admin.DeleteQueueRequest(name="nowhere", request_id=new_id()), timeout=CALL_S
        ),
        "Purge": lambda: member.admin.PurgeQueue(
            admin.PurgeQueueRequest(name="nowhere", request_id=new_id()), timeout=CALL_S
        ),
        "Open": lambda: member.admin.OpenReplicatedQueue(
            admin.OpenReplicatedQueueRequest(name="nowhere", request_id=new_id()), timeout=CALL_S
        ),
        "Consume": lambda: _first(member.queue.Consume, service.ConsumeRequest(open=_consume_open("nowhere"))),
    }
    for call in calls.values():
        with refused("QUEUE_NOT_FOUND", MISSING, "nowhere"):
            await call()


async def test_an_unknown_queue_rejects_a_batch_and_not_the_stream(member: Raw, queue: str) -> None:
    call = member.queue.Produce(timeout=CALL_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    assert (await call.read()).HasField("opened")
    await call.write(service.ProduceRequest(batch=_batch("nowhere", 1, b"x")))
    reject = (await call.read()).reject
    assert (reject.queue, reject.first_sequence, reject.count) == ("nowhere", 1, 1)
    assert to_error(reject.error).reason == "QUEUE_NOT_FOUND"
    assert "nowhere" in reject.error.message
    await call.write(service.ProduceRequest(batch=_batch(queue, 1, b"y")))
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
        await member.queue.Enqueue(request, timeout=CALL_S)
    with refused(reason, INVALID, word):
        answer = service.ReplyRequest(queue=queue, request_id=new_id(), lease_id=1, index=1, message=message)
        await member.queue.Reply(answer, timeout=CALL_S)
    call = member.queue.Produce(timeout=CALL_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    assert (await call.read()).HasField("opened")
    batch = _batch(queue, 1, b"x")
    for name, value in message.items():
        many = name == "properties"
        column = "properties" if many else f"{name}s"
        getattr(batch.messages, column).extend([message_pb2.Properties(entries=value)] if many else [value])
    await call.write(service.ProduceRequest(batch=batch))
    error = to_error((await call.read()).reject.error)
    assert (error.reason, word in error.message) == (reason, True), error
    await call.write(service.ProduceRequest(batch=_batch(queue, 1, b"y")))
    assert (await call.read()).ack.first_index == 1
    call.cancel()


async def test_a_request_that_is_far_too_long_is_refused_unparsed(member: Raw) -> None:
    labels = {str(number): "" for number in range(200_000)}
    with refused("BAD_REQUEST", INVALID, "CreateQueueRequest may have 1048576"):
        request = admin.CreateQueueRequest(name=new_name(), request_id=new_id(), config={"labels": labels})
        await member.admin.CreateQueue(request, timeout=CALL_S)


@pytest.mark.parametrize("letter", ["x", "ä"])
async def test_a_refusal_of_something_long_arrives_with_its_reason(member: Raw, queue: str, letter: str) -> None:
    long = letter * 100_000
    with refused("QUEUE_NOT_FOUND", MISSING, "... ("):
        await member.admin.GetQueue(admin.GetQueueRequest(name=long), timeout=CALL_S)
    with refused("QUEUE_NOT_FOUND", MISSING, "... ("):
        await member.send(long, b"x")
    mask = {"paths": [long]}
    with refused("BAD_ATTRIBUTE", INVALID, "... ("):
        await member.admin.UpdateQueue(
            admin.UpdateQueueRequest(name=queue, request_id=new_id(), config={}, update_mask=mask), timeout=CALL_S
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
        await member.admin.UpdateQueue(update("domain"), timeout=CALL_S)
    with refused("BAD_ATTRIBUTE", INVALID, "colour", "known are"):
        await member.admin.UpdateQueue(update("colour"), timeout=CALL_S)
    with refused("BAD_REQUEST", INVALID, "name at least one"):
        await member.admin.UpdateQueue(admin.UpdateQueueRequest(name=queue, request_id=new_id()), timeout=CALL_S)
    with refused("VERSION_MISMATCH", grpc.StatusCode.FAILED_PRECONDITION, "version 1, not 7"):
        request = update("annotation")
        request.expected_version = 7
        await member.admin.UpdateQueue(request, timeout=CALL_S)


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
    call = member.queue.Produce(timeout=CALL_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    assert (await call.read()).opened.max_batch_bytes == 4 << 20
    await call.write(service.ProduceRequest(batch=_batch(queue, 1, *[b"x" * (1 << 20)] * 5)))
    assert to_error((await call.read()).reject.error).reason == "MESSAGE_TOO_LARGE"
    await call.write(service.ProduceRequest(batch=_batch(queue, 1, b"y")))
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
        await member.queue.Enqueue(request, timeout=CALL_S)
    call = member.queue.Produce(timeout=CALL_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    await call.read()
    for column, value in (("priorities", 10), ("persistence", 99)):
        batch = _batch(queue, 1, b"x")
        getattr(batch.messages, column).append(value)
        await call.write(service.ProduceRequest(batch=batch))
        error = to_error((await call.read()).reject.error)
        assert error.reason == "BAD_ATTRIBUTE"
        assert f"{column} has {value}" in error.message
    call.cancel()


async def test_columns_that_do_not_fit_the_payloads_are_refused(member: Raw, queue: str) -> None:
    call = member.queue.Produce(timeout=CALL_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    await call.read()
    batch = _batch(queue, 1, b"x", b"y", b"z")
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
    [result] = (await member.queue.Settle(request, timeout=CALL_S)).results
    assert to_error(result.error).reason == "BAD_REQUEST"
    assert "outcome must be" in result.error.message
    assert not (await member.ack(queue, got)).results[0].HasField("error"), "still leased, and still to be settled"


async def test_an_unknown_settle_mode_is_refused(member: Raw, queue: str) -> None:
    await member.send(queue, b"x")
    with refused("BAD_REQUEST", INVALID, "settle_mode 99"):
        await member.receive(queue, settle_mode=99)
    with refused("BAD_REQUEST", INVALID, "settle_mode 99"):
        await _first(member.queue.Consume, service.ConsumeRequest(open=_consume_open(queue, settle_mode=99)))
    assert await member.take(queue) == [b"x"]


async def test_an_unknown_delivery_format_is_refused(member: Raw, queue: str) -> None:
    with refused("BAD_REQUEST", INVALID, "format 99"):
        await _first(member.queue.Consume, service.ConsumeRequest(open=_consume_open(queue, format=99)))


@pytest.mark.parametrize("seconds", [13 * 3600, -1, 1 << 40])
async def test_a_lease_of_impossible_length_is_refused(member: Raw, queue: str, seconds: int) -> None:
    """Found by these tests: the refusal came out of the loop that hands out messages, and the member stopped."""
    await member.send(queue, b"x")
    with refused("BAD_REQUEST", INVALID, "lease_duration"):
        await member.receive(queue, lease_duration={"seconds": seconds})
    opening = _consume_open(queue, lease_duration={"seconds": seconds})
    with refused("BAD_REQUEST", INVALID, "lease_duration"):
        await _first(member.queue.Consume, service.ConsumeRequest(open=opening))
    assert await member.take(queue) == [b"x"]


async def test_times_beyond_any_calendar_harm_nobody(member: Raw, queue: str) -> None:
    far = {"seconds": 1 << 60}
    with refused("BAD_ATTRIBUTE", INVALID, "ttl"):
        messages = [{"payload": b"x", "ttl": far}]
        request = service.EnqueueRequest(queue=queue, request_id=new_id(), messages=messages)
        await member.queue.Enqueue(request, timeout=CALL_S)
    await member.send(queue, b"x")
    assert len((await member.receive(queue, wait=far)).messages) == 1
    nothing = await member.receive(queue, wait={"seconds": -(1 << 60)})
    assert not nothing.messages


async def test_browsing_beyond_the_end_is_an_empty_page(member: Raw, queue: str) -> None:
    await member.send(queue, b"x")
    request = service.BrowsePageRequest(queue=queue, from_index=(1 << 64) - 1, max_messages=(1 << 32) - 1)
    page = await member.queue.BrowsePage(request, timeout=CALL_S)
    assert (list(page.messages), page.next_index) == ([], 0)


@pytest.mark.parametrize("size", [0, 15, 17])
async def test_a_request_id_of_the_wrong_length_is_refused(member: Raw, queue: str, size: int) -> None:
    bad = b"x" * size
    for call in (
        lambda: member.send(queue, b"x", request_id=bad),
        lambda: member.receive(queue, request_id=bad),
        lambda: member.ack(queue, service.DequeueResponse(lease_id=1), request_id=bad),
        lambda: member.admin.DeleteQueue(admin.DeleteQueueRequest(name=queue, request_id=bad), timeout=CALL_S),
    ):
        with refused("BAD_REQUEST", INVALID, "request_id must have 16 bytes"):
            await call()


# -- repetitions -------------------------------------------------------------------------------------------------------


async def test_a_replayed_request_has_one_effect_and_the_first_answer(pair: Cluster, queue: str) -> None:
    request_id = new_id()
    async with raw_to(*pair.endpoints) as members:
        for repetition, member in enumerate(members * 2):
            sent = await member.send(queue, b"1", b"2", request_id=request_id)
            # A replica may meet the record of the first call on its way: then its answer is that record's own.
            assert sent.duplicate == (repetition > 0) or member is members[1]
            assert [result.index for result in sent.results] == [1, 2]
            if repetition == 0:
                ids = [result.id for result in sent.results]
            assert [result.id for result in sent.results] == ids
        request_id = new_id()
        first = await members[0].receive(queue, 2, request_id=request_id)
        again = await members[1].receive(queue, 2, request_id=request_id)
        assert (first.lease_id, list(first.messages)) == (again.lease_id, list(again.messages))
        request_id = new_id()
        answers = [await member.ack(queue, first, request_id=request_id) for member in members]
        assert [(answer.duplicate, answer.results[0].settled) for answer in answers] == [(False, 2), (True, 2)]


async def test_a_request_id_under_other_content_is_refused(pair: Cluster, queue: str) -> None:
    request_id = new_id()
    async with raw_to(*pair.endpoints) as members:
        await members[0].send(queue, b"1", request_id=request_id)
        for member in members:
            with refused("REQUEST_MISMATCH", INVALID, request_id.hex(), "choose a new id"):
                await member.send(queue, b"2", request_id=request_id)
            with refused("REQUEST_MISMATCH", INVALID, request_id.hex()):
                await member.receive(queue, request_id=request_id)
            with refused("REQUEST_MISMATCH", INVALID, request_id.hex()):
                await member.admin.DeleteQueue(
                    admin.DeleteQueueRequest(name=queue, request_id=request_id), timeout=CALL_S
                )


async def test_sequences_that_do_not_follow_are_refused(member: Raw, queue: str) -> None:
    call = member.queue.Produce(timeout=CALL_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    await call.read()
    await call.write(service.ProduceRequest(batch=_batch(queue, 1, b"1", b"2")))
    assert (await call.read()).ack.count == 2
    await call.write(service.ProduceRequest(batch=_batch(queue, 5, b"5")))
    reject = (await call.read()).reject
    assert (to_error(reject.error).reason, reject.last_sequence) == ("SEQUENCE_GAP", 2)
    await call.write(service.ProduceRequest(batch=_batch(queue, 1, b"1", b"2")))
    repeated = (await call.read()).ack
    assert (repeated.duplicate, repeated.first_index, repeated.count) == (True, 1, 2)
    await call.write(service.ProduceRequest(batch=_batch(queue, 0, b"0")))
    assert to_error((await call.read()).reject.error).reason == "BAD_REQUEST"
    call.cancel()


# -- frames ------------------------------------------------------------------------------------------------------------


async def test_bytes_that_are_no_message_are_refused_by_every_unary_call(member: Raw) -> None:
    queue = ("Enqueue", "Dequeue", "Settle", "BrowsePage")
    verbs = [method.name for method in admin.DESCRIPTOR.services_by_name["QueueAdminService"].methods]
    for path in (*(QUEUE + name for name in queue), *(ADMIN + name for name in verbs)):
        with refused("BAD_REQUEST", INVALID, "the request is not a tandemq.v1."):
            await member.bytes_call(path, GARBAGE)
    with refused("BAD_REQUEST", INVALID, "BrowseRequest"):
        await member.channel.unary_stream(QUEUE + "Browse")(GARBAGE, timeout=CALL_S).read()


@pytest.mark.parametrize("stream", ["Produce", "Consume"])
async def test_bytes_that_are_no_frame_end_the_stream(member: Raw, queue: str, stream: str) -> None:
    with refused("BAD_REQUEST", INVALID, stream):
        await _first(member.channel.stream_stream(QUEUE + stream), GARBAGE)
    opened = {
        "Produce": service.ProduceRequest(open={"client_id": b"p", "queue": queue}),
        "Consume": service.ConsumeRequest(open=_consume_open(queue)),
    }[stream]
    call = member.channel.stream_stream(QUEUE + stream)(timeout=CALL_S)
    await call.write(opened.SerializeToString())
    await call.read()
    await call.write(GARBAGE)
    with refused("BAD_REQUEST", INVALID, f"{stream}Request"):
        await _to_the_end(call)


async def test_a_stream_without_its_first_frame_is_refused(member: Raw, queue: str) -> None:
    for stub, wrong in (
        (member.queue.Produce, service.ProduceRequest(batch=_batch(queue, 1, b"x"))),
        (member.queue.Produce, service.ProduceRequest()),
        (member.queue.Consume, service.ConsumeRequest(credit={"messages": 1})),
        (member.queue.Consume, service.ConsumeRequest()),
    ):
        with refused("BAD_REQUEST", INVALID, "first frame", "open"):
            await _first(stub, wrong)
    for stub in (member.queue.Produce, member.queue.Consume):
        call = stub(timeout=CALL_S)
        await call.done_writing()
        with refused("BAD_REQUEST", INVALID, "first frame", "open"):
            await _to_the_end(call)


async def test_a_second_open_is_refused(member: Raw, queue: str) -> None:
    for stub, frame in (
        (member.queue.Produce, service.ProduceRequest(open={"client_id": b"p", "queue": queue})),
        (member.queue.Consume, service.ConsumeRequest(open=_consume_open(queue))),
    ):
        call = stub(timeout=CALL_S)
        await call.write(frame)
        await call.read()
        await call.write(frame)
        with refused("BAD_REQUEST", INVALID, "open"):
            await _to_the_end(call)


@pytest.mark.parametrize("client_id", [b"", b"x" * 65])
async def test_a_client_id_of_impossible_length_is_refused(member: Raw, queue: str, client_id: bytes) -> None:
    with refused("BAD_REQUEST", INVALID, "1 to 64 bytes"):
        await _first(member.queue.Produce, service.ProduceRequest(open={"client_id": client_id, "queue": queue}))
    opening = _consume_open(queue)
    opening.client_id = client_id
    with refused("BAD_REQUEST", INVALID, "1 to 64 bytes"):
        await _first(member.queue.Consume, service.ConsumeRequest(open=opening))


# -- epochs ------------------------------------------------------------------------------------------------------------


async def test_a_client_that_saw_a_higher_epoch_is_not_served_by_an_older_master(pair: Cluster, queue: str) -> None:
    """The master reads its register before it serves anybody who has seen more than it knows."""
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        for member in members:
            header = (await member.send(queue, b"x")).header
            ahead = header.epoch + 5
            aborted = grpc.StatusCode.ABORTED
            with refused("STALE_EPOCH", aborted, str(ahead), str(header.epoch)) as caught:
                await member.send(queue, b"never", epoch=ahead)
            assert caught.error.metadata["epoch"] == str(header.epoch)
            assert caught.retry_info
            with refused("STALE_EPOCH", aborted, str(ahead)):
                await member.receive(queue, epoch=ahead)
            with refused("STALE_EPOCH", aborted, str(ahead)):
                await member.ack(queue, service.DequeueResponse(lease_id=1, messages=[{"index": 1}]), epoch=ahead)
            opening = service.ProduceRequest(open={"client_id": b"p", "queue": queue, "epoch": ahead})
            with refused("STALE_EPOCH", aborted, str(ahead)):
                await _first(member.queue.Produce, opening)
            with refused("STALE_EPOCH", aborted, str(ahead)):
                opening = _consume_open(queue, epoch=ahead)
                await _first(member.queue.Consume, service.ConsumeRequest(open=opening))
            assert (await member.send(queue, b"y", epoch=header.epoch)).header.epoch == header.epoch
        assert await members[0].take(queue, 10) == [b"x", b"y", b"x", b"y"]


async def test_a_request_without_an_epoch_of_its_own_tells_it_beside(pair: Cluster, queue: str) -> None:
    """Over a hop too; of another domain it says nothing; and what is no epoch is refused in words."""
    request = admin.GetQueueRequest(name=queue)
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        for member in members:
            epoch = (await member.admin.GetQueue(request, timeout=CALL_S)).header.epoch
            for told in (f"main={epoch}", f"main={epoch - 1}", f"other={epoch + 5}"):
                await member.admin.GetQueue(request, timeout=CALL_S, metadata=((seen.KEY, told),))
            ahead = ((seen.KEY, f"main={epoch + 5}"),)
            with refused("STALE_EPOCH", grpc.StatusCode.ABORTED, str(epoch + 5)):
                await member.admin.GetQueue(request, timeout=CALL_S, metadata=ahead)
            with refused("STALE_EPOCH", grpc.StatusCode.ABORTED, str(epoch + 5)):
                create = admin.CreateQueueRequest(name=queue, request_id=new_id())
                await member.admin.CreateQueue(create, timeout=CALL_S, metadata=ahead)
            for wrong in ("main", "main=", "=3", "main=-1", "main=x", f"main={1 << 64}", "main=" + "1" * 5_000):
                with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, seen.KEY, "DOMAIN=EPOCH"):
                    await member.admin.GetQueue(request, timeout=CALL_S, metadata=((seen.KEY, wrong),))


# -- helpers -----------------------------------------------------------------------------------------------------------


def _batch(queue: str, first: int, *payloads: bytes) -> service.EnqueueBatch:
    return service.EnqueueBatch(queue=queue, first_sequence=first, messages={"payloads": payloads})


def _consume_open(queue: str, **fields: Any) -> service.ConsumeOpen:
    return service.ConsumeOpen(queue=queue, client_id=b"c", **fields)


async def _first(stub: Any, frame: Any) -> Any:
    """The answer to the first frame of a stream."""
    call = stub(timeout=CALL_S)
    await call.write(frame)
    return await _to_the_end(call)


async def _to_the_end(call: Any) -> Any:
    """Reads until the stream ends; raises how it ended."""
    while await call.read() is not grpc.aio.EOF:
        pass
    raise AssertionError(f"ended in {await call.code()}")

"""What senders are told of their messages, at either member, and after a failover: levels, handles, answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from chaos.cluster import Cluster
from tandemq.v1 import common_pb2
from tandemq.v1 import pair_service_pb2 as pair_service
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import Raw, gone, new_id, new_name, raw_to, refused, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process
shared = pytest.mark.asyncio(loop_scope="module")

ACCEPTED, STORED = common_pb2.COMPLETION_ACCEPTED, common_pb2.COMPLETION_STORED
RECEIVED, REPLIED = common_pb2.COMPLETION_RECEIVED, common_pb2.COMPLETION_REPLIED
STATE, EXISTS = grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ALREADY_EXISTS


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def members(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[Raw]]:
    async with stopped_at_end(patient(tmp_path_factory.mktemp("pair"))) as cluster:
        await cluster.start()
        async with raw_to(*cluster.endpoints) as raws:
            yield raws


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Of its own, for who takes its master away."""
    async with stopped_at_end(patient(tmp_path)) as cluster:
        await cluster.start()
        yield cluster


async def made(member: Raw, kind: str, **config: Any) -> str:
    name = new_name(kind.lower())
    await member.create(name, queue_type=admin.QueueType.Value(f"QUEUE_TYPE_{kind}"), **config)
    return name


async def check(member: Raw, queue: str, *handles: bytes) -> list[service.CompletionStatus]:
    request = service.CheckCompletionRequest(queue=queue, handles=handles)
    return list((await member.queue.CheckCompletion(request, timeout=OUTER_S)).statuses)


async def wait(member: Raw, queue: str, *handles: bytes, seconds: float = 5.0) -> list[service.CompletionStatus]:
    request = service.WaitCompletionRequest(queue=queue, handles=handles)
    request.wait.FromMilliseconds(int(seconds * 1000))
    return list((await member.queue.WaitCompletion(request, timeout=OUTER_S)).statuses)


async def reply(member: Raw, queue: str, got: service.DequeueResponse, body: bytes, **more: Any) -> Any:
    (message,) = got.messages
    more = {"request_id": new_id(), **more}
    request = service.ReplyRequest(
        queue=queue, lease_id=got.lease_id, index=message.index, message={"payload": body}, **more
    )
    return await member.queue.Reply(request, timeout=OUTER_S)


@pytest.mark.requirement("R015", "R024")
@shared
async def test_one_way_is_answered_before_it_is_ordered(members: list[Raw]) -> None:
    for member in members:
        queue = await made(member, "ONE_WAY", max_length=1)
        await member.send(queue, b"known here")  # a member that has not heard of the queue's type answers when stored
        assert await member.take(queue) == [b"known here"]
        sent = await member.send(queue, b"first", wait={"seconds": 5})
        assert [(result.index, result.completion, result.handle) for result in sent.results] == [(0, ACCEPTED, b"")]
        assert sent.header.copies == 0
        await member.send(queue, b"too many")  # accepted; its sender does not hear that it found no room

        async def told(member: Raw = member, queue: str = queue) -> bool:
            page = await member.pair.ListEvents(pair_service.ListEventsRequest(), timeout=OUTER_S)
            return any(event.facts.get("queue") == queue and "QUEUE_FULL" in event.text for event in page.events)

        await until(told, "an event of what was refused later")
        assert await member.take(queue, 2) == [b"first"]
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND):
            await member.send("nowhere", b"x")
        await member.admin.UpdateQueue(_disabled(queue), timeout=OUTER_S)
    with refused("ENQUEUE_DISABLED", STATE):
        await members[0].send(queue, b"x")  # the master knows at once


def _disabled(queue: str) -> admin.UpdateQueueRequest:
    return admin.UpdateQueueRequest(name=queue, request_id=new_id(), config={"enqueue_enabled": False})


@pytest.mark.requirement("R016", "R022", "R025")
@shared
async def test_a_handle_completes_when_the_message_is_received_whoever_is_asked(members: list[Raw]) -> None:
    a, b = members
    queue = await made(a, "ONE_WAY_ACK")
    sent = await b.send(queue, b"x", b"y")
    first, second = (result.handle for result in sent.results)
    assert {result.completion for result in sent.results} == {STORED}
    assert not sent.results[0].completed
    got = await a.receive(queue, 1)
    for member in members:
        assert [status.completed for status in await check(member, queue, first, second)] == [False, False]
    waits = [asyncio.create_task(wait(member, queue, first)) for member in members]
    await a.ack(queue, got)
    for told in await asyncio.gather(*waits):
        assert [(each.completion, each.final_state) for each in told] == [(RECEIVED, service.FINAL_STATE_CONSUMED)]
    for member in members:
        told = await check(member, queue, first, second, b"?" * 16)
        assert [each.completed for each in told] == [True, False, False]
        assert told[2].error.reason == common_pb2.REASON_INVALID_HANDLE
        assert not (await wait(member, queue, second, seconds=0.05))[0].completed


@pytest.mark.requirement("R016", "R024")
@shared
async def test_enqueue_waits_for_the_level_of_the_type(members: list[Raw]) -> None:
    a, b = members
    queue = await made(a, "ONE_WAY_ACK")
    for member in members:
        sending = asyncio.create_task(member.send(queue, b"x", wait={"seconds": 5}))
        assert await a.take(queue) == [b"x"]
        (result,) = (await sending).results
        assert (result.completion, result.completed, result.final_state) == (
            RECEIVED,
            True,
            service.FINAL_STATE_CONSUMED,
        )
    (result,) = (await b.send(queue, b"x", wait={"nanos": 50_000_000})).results
    assert (result.completion, result.completed) == (STORED, False)


@pytest.mark.requirement("R018", "R019", "R027")
@shared
async def test_a_request_is_answered_at_either_member(members: list[Raw]) -> None:
    a, b = members
    queue = await made(a, "TWO_WAY")
    for asking, answering in ((a, b), (b, a)):
        sending = asyncio.create_task(asking.send(queue, b"question", wait={"seconds": 5}))
        got = await answering.receive(queue, 1, wait={"seconds": 5})
        identity = new_id()
        await reply(answering, queue, got, b"answer", request_id=identity)
        (result,) = (await sending).results
        assert (result.completion, result.final_state) == (REPLIED, service.FINAL_STATE_REPLIED)
        assert result.reply.payload == b"answer"
        for member in members:
            (told,) = await check(member, queue, result.handle)
            assert (told.reply.payload, told.completed) == (b"answer", True)
            assert (await reply(member, queue, got, b"answer", request_id=identity)).duplicate
            with refused("ALREADY_REPLIED", EXISTS):
                await reply(member, queue, got, b"another answer")


@pytest.mark.requirement("R018")
@shared
async def test_a_request_is_neither_taken_at_once_nor_acknowledged(members: list[Raw]) -> None:
    a, b = members
    queue = await made(a, "TWO_WAY")
    await a.send(queue, b"question")
    for member in members:
        with refused("REPLY_REQUIRED", STATE):
            await member.receive(queue, 1, settle_mode=service.SETTLE_MODE_IMMEDIATE)
    got = await b.receive(queue, 1)
    (result,) = (await b.ack(queue, got)).results
    assert result.error.reason == common_pb2.REASON_REPLY_REQUIRED
    other = await made(a, "ONE_WAY_ACK")
    await a.send(other, b"x")
    with refused("NOT_TWO_WAY", STATE):
        await reply(a, other, await a.receive(other, 1), b"answer")


@pytest.mark.requirement("R018", "R025")
async def test_handles_and_answers_survive_the_loss_of_the_master(pair: Cluster) -> None:
    async with raw_to(*pair.endpoints) as (a, b):
        await _lose_the_master(pair, a, b)


async def _lose_the_master(pair: Cluster, a: Raw, b: Raw) -> None:
    queue = await made(a, "TWO_WAY")
    sent = await a.send(queue, b"1", b"2")
    answered, pending = (result.handle for result in sent.results)
    got = await a.receive(queue, 1)
    await reply(a, queue, got, b"kept")
    waiting = asyncio.create_task(wait(b, queue, pending, seconds=20))
    await gone(pair, "a")
    (told,) = await until(lambda: check(b, queue, answered), "an answer from the new master")
    assert told.reply.payload == b"kept"
    with refused("ALREADY_REPLIED", EXISTS):
        await reply(b, queue, got, b"late")
    got = await b.receive(queue, 1, wait={"seconds": 5})
    await reply(b, queue, got, b"new")
    (told,) = await waiting
    assert told.reply.payload == b"new"


@pytest.mark.requirement("R026", "R028")
@shared
async def test_a_watch_tells_of_each_message_once_in_the_order_of_the_ends(members: list[Raw]) -> None:
    a, b = members
    queue, other = await made(a, "ONE_WAY_ACK"), await made(a, "TWO_WAY")
    sent = await a.send(queue, b"1", b"2", b"3")
    asked = await a.send(other, b"question")
    handles = [result.handle for result in sent.results]
    calls = [member.queue.WatchCompletions(timeout=OUTER_S) for member in members]
    for call in calls:
        await call.write(service.WatchCompletionsRequest(queue=queue, handles=handles))
        await call.write(service.WatchCompletionsRequest(queue=other, handles=[asked.results[0].handle]))
        await call.done_writing()
    got = await a.receive(queue, 3)
    for index in (2, 1):
        settlement = {"lease_id": got.lease_id, "ranges": [{"first": index, "count": 1}], "outcome": 1}
        await a.queue.Settle(service.SettleRequest(queue=queue, request_id=new_id(), settlements=[settlement]))
    await reply(b, other, await b.receive(other, 1), b"answer")
    settlement = {"lease_id": got.lease_id, "ranges": [{"first": 3, "count": 1}], "outcome": 3}
    await a.queue.Settle(service.SettleRequest(queue=queue, request_id=new_id(), settlements=[settlement]))
    for call in calls:
        told = [(frame.queue, status) async for frame in call for status in frame.statuses]
        mine = [(status.handle, status.completed) for name, status in told if name == queue]
        assert mine == [(handles[1], True), (handles[0], True), (handles[2], True)]
        assert [status.reply.payload for name, status in told if name == other] == [b"answer"]


@shared
async def test_a_consumer_answers_over_its_stream(members: list[Raw]) -> None:
    a, b = members
    queue = await made(a, "TWO_WAY")
    (sent,) = (await a.send(queue, b"question")).results
    call = b.queue.Consume(timeout=OUTER_S)
    await call.write(service.ConsumeRequest(open={"queue": queue, "client_id": b"c"}))
    await call.write(service.ConsumeRequest(credit={"messages": 10, "bytes": 1 << 20}))
    deliveries: Any = None
    while deliveries is None:
        frame = await call.read()
        deliveries = frame.deliveries if frame.HasField("deliveries") else None
    answer = {"lease_id": deliveries.lease_id, "index": 1, "message": {"payload": b"answer"}}
    bad = answer | {"settle_id": 4, "message": {"ttl": {"seconds": 1 << 62}}}
    await call.write(service.ConsumeRequest(reply=bad))
    for settle_id, body in ((1, b"answer"), (2, b"answer"), (3, b"other")):
        await call.write(service.ConsumeRequest(reply=answer | {"settle_id": settle_id, "message": {"payload": body}}))
    results: dict[int, service.SettleResult] = {}
    while len(results) < 4:
        frame = await call.read()
        if frame.HasField("settled"):
            results[frame.settled.settle_id] = frame.settled.results[0]
    assert [results[number].settled for number in (1, 2, 3)] == [1, 1, 0]
    assert results[3].error.reason == common_pb2.REASON_ALREADY_REPLIED
    assert results[4].error.reason == common_pb2.REASON_BAD_ATTRIBUTE
    (told,) = await check(a, queue, sent.handle)
    assert told.reply.payload == b"answer"
    call.cancel()


@pytest.mark.requirement("R018")
@shared
async def test_a_request_that_nobody_answers_ends(members: list[Raw]) -> None:
    a, b = members
    queue = await made(a, "TWO_WAY", reply_timeout={"seconds": 1})
    (result,) = (await b.send(queue, b"question", wait={"seconds": 5})).results
    assert (result.completed, result.final_state) == (True, service.FINAL_STATE_REPLY_TIMEOUT)


@pytest.mark.requirement("R025")
@shared
async def test_bad_calls_are_refused(members: list[Raw]) -> None:
    for member in members:
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND):
            await check(member, "nowhere", b"x" * 16)
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT):
            await check(member, "nowhere")


@shared
async def test_an_answer_also_goes_to_the_queue_that_its_request_named(members: list[Raw]) -> None:
    a, b = members
    queue, answers = await made(a, "TWO_WAY"), await made(a, "ONE_WAY_QUEUED_ACK")
    messages = [{"payload": b"request", "reply_to": answers, "correlation_id": "mine"}, {"payload": b"plain"}]
    sent = await a.queue.Enqueue(
        service.EnqueueRequest(queue=queue, request_id=new_id(), messages=messages), timeout=OUTER_S
    )
    got = await b.receive(queue, 1)
    bad = service.ReplyRequest(queue=queue, request_id=new_id(), lease_id=got.lease_id, index=got.messages[0].index)
    bad.message.ttl.seconds = 1 << 62
    with refused("BAD_ATTRIBUTE", grpc.StatusCode.INVALID_ARGUMENT, "ten years"):
        await b.queue.Reply(bad, timeout=OUTER_S)
    assert [(await reply(b, queue, got, b"answer")).duplicate for _ in range(2)] == [False, True]
    found = (await a.receive(answers, 9, wait={"seconds": 5})).messages
    assert [(each.message.payload, each.message.correlation_id) for each in found] == [(b"answer", "mine")]
    assert found[0].message.properties["tq_reply_of"].data == sent.results[0].handle
    with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "would be a request again"):
        again = [{"payload": b"round and round", "reply_to": queue}]
        request = service.EnqueueRequest(queue=queue, request_id=new_id(), messages=again)
        await b.queue.Enqueue(request, timeout=OUTER_S)

"""The SDK's handles, callbacks, watches and calls on a pair, and what becomes of them when the master dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from chaos.cluster import Cluster
from tandemq.client.aio import Client, Final, Handle, Reached
from tandemq.errors import AlreadyExists, NotFound, TimedOut
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import gone, new_name, sdk, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process
shared = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    async with stopped_at_end(patient(tmp_path_factory.mktemp("pair"))) as cluster:
        await cluster.start()
        async with sdk(cluster) as made:
            yield made


async def made(client: Client, kind: str, **config: Any) -> str:
    name = new_name(kind.lower())
    await client.create_queue(name, admin.QueueConfig(queue_type=admin.QueueType.Value(f"QUEUE_TYPE_{kind}"), **config))
    return name


async def answering(client: Client, queue: str, count: int) -> None:
    async with client.consumer(queue) as consumer:
        for _ in range(count):
            request = await anext(consumer)
            await consumer.reply(request, request.payload.upper(), content_type="text/plain")


@pytest.mark.requirement("R015", "R016", "R017", "R022", "R024", "R025")
@shared
async def test_what_each_type_tells_its_sender(client: Client) -> None:
    for kind, reached, completed in (
        ("ONE_WAY_QUEUED_ACK", Reached.STORED, True),
        ("ONE_WAY_ACK", Reached.STORED, False),
        ("TWO_WAY", Reached.STORED, False),
    ):
        handle = await client.send(await made(client, kind), b"x")
        assert (handle.completion.reached, handle.completion.completed) == (reached, completed)
        assert (await handle.check()).completed == completed
    queue = await made(client, "ONE_WAY_ACK")
    handle = await client.send(queue, b"x")
    await (await client.dequeue(queue)).ack()
    completion = await client.handle(queue, handle.value).wait(OUTER_S)
    assert (completion.reached, completion.final, completion.succeeded) == (Reached.RECEIVED, Final.CONSUMED, True)
    with pytest.raises(NotFound, match="no message of the queue"):
        await client.handle(queue, b"?" * 16).check()


@pytest.mark.requirement("R018", "R019", "R027")
@shared
async def test_a_call_gets_its_answer(client: Client) -> None:
    queue = await made(client, "TWO_WAY")
    server = asyncio.create_task(answering(client, queue, 1))
    answer = await client.call(queue, b"hello", 10)
    assert (answer.payload, answer.attributes.get("content_type")) == (b"HELLO", "text/plain")
    await server
    with pytest.raises(TimedOut, match="no answer yet"):
        await client.call(queue, b"hello", 0.05)
    batch = await client.dequeue(queue)
    assert not await client.reply(queue, batch.lease_id, batch[0].index, b"late")
    with pytest.raises(AlreadyExists):
        await client.reply(queue, batch.lease_id, batch[0].index, b"later")


@shared
async def test_a_request_that_was_answered_within_the_wait_can_be_asked_for(client: Client) -> None:
    queue = await made(client, "TWO_WAY")
    server = asyncio.create_task(answering(client, queue, 1))
    (receipt,) = await client.enqueue(queue, [b"hello"], wait=10)
    await server
    completion = await client.handle(queue, receipt.handle).check()
    assert completion.reply is not None
    assert completion.reply.payload == b"HELLO"


@shared
async def test_a_receiver_says_its_wait_in_seconds_as_a_sender_does(client: Client) -> None:
    queue = await made(client, "ONE_WAY_ACK")
    assert len(await client.dequeue(queue, wait=0)) == len(await client.dequeue(queue, wait=0.02)) == 0
    receiving = asyncio.create_task(client.dequeue(queue, wait=-1))
    await client.send(queue, b"x")
    async with asyncio.timeout(OUTER_S):
        (delivery,) = await receiving
    assert delivery.payload == b"x"
    with pytest.raises(ValueError, match="-1"):
        await client.dequeue(queue, wait=-2)


@pytest.mark.requirement("R026", "R028")
async def test_callbacks_and_watches_go_on_after_a_failover(pair: Cluster) -> None:
    async with sdk(pair) as client:
        await _lose_the_master(pair, client)


async def _lose_the_master(pair: Cluster, client: Client) -> None:
    queue = await made(client, "TWO_WAY")
    told: asyncio.Queue[bytes] = asyncio.Queue()
    handles: list[Handle] = [
        await client.send(
            queue,
            b"%d" % number,
            on_completion=lambda _handle, found: told.put_nowait(found.reply.payload if found.reply else b""),
        )
        for number in range(6)
    ]
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def watch() -> None:
        async for found in client.completions(queue, handles):
            assert found.reply is not None
            seen.put_nowait(found.reply.payload)

    watching = asyncio.create_task(watch())
    waiting = asyncio.create_task(client.wait_completions(queue, [handle.value for handle in handles], 60))
    await answering(client, queue, 3)
    first = [[await queued.get() for _ in range(3)] for queued in (told, seen)]
    await gone(pair, "a")
    await answering(client, queue, 3)
    await watching
    assert [found.reply.payload for found in await waiting if found.reply] == [b"%d" % number for number in range(6)]
    rest = [[await queued.get() for _ in range(3)] for queued in (told, seen)]
    for three, others in zip(first, rest, strict=True):
        assert sorted(three + others) == [b"%d" % number for number in range(6)]
    assert told.empty()
    assert seen.empty()
    assert [(await client.handle(queue, handle.value).check()).completed for handle in handles] == [True] * 6


@pytest.mark.requirement("R026")
@shared
async def test_a_callback_hears_that_the_queue_is_gone(client: Client) -> None:
    queue = await made(client, "ONE_WAY_ACK")
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    await client.send(queue, b"x", on_completion=lambda _handle, found: told.set_result(found))
    await client.delete_queue(queue)
    found = await asyncio.wait_for(told, OUTER_S)
    assert isinstance(found.error, NotFound)

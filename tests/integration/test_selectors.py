"""Filters through real members: the same at master and replica, over a call, a stream and a browse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from chaos.cluster import Cluster
from tandemq import Outgoing, Where, aio
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import Raw, new_id, new_name, raw_to, refused
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process
MANY = 50_000


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with patient(tmp_path).running() as cluster:
        yield cluster


def parcels() -> list[Outgoing]:
    colours = ("red", "blue", "red", "green")
    return [
        Outgoing(colour.encode(), {"properties": {"colour": colour, "n": n}, "correlation_id": f"c-{n}"})
        for n, colour in enumerate(colours)
    ]


async def test_both_members_find_what_a_filter_names(pair: Cluster) -> None:
    for member in ("a", "b"):
        async with aio.connect(pair.endpoint(member)) as client:
            queue = new_name()
            await client.create_queue(queue)
            sent = await client.enqueue(queue, parcels())
            async for message in client.browse(queue, where="n >= 2"):
                assert message.index in (3, 4)
            got = await client.dequeue(queue, 10, where="colour = 'red'")
            assert [(message.payload, message.index) for message in got] == [(b"red", 1), (b"red", 3)]
            await got.release()
            got = await client.dequeue(queue, 10, where=Where(ids=(sent[3].id,)))
            assert [message.payload for message in got] == [b"green"]
            await got.ack()
            assert not await client.dequeue(queue, where=Where(ids=(sent[3].id,)))
            async with client.consumer(queue, where=Where(correlation_id="c-1")) as consumer:
                delivery = await anext(consumer)
                assert delivery.payload == b"blue"
                delivery.ack()
            async with client.consumer(queue, where="colour = 'late'") as consumer:
                waiting = consumer.__anext__()
                await client.enqueue(queue, [Outgoing(b"late", {"properties": {"colour": "late"}})])
                assert (await waiting).payload == b"late"


async def test_a_filter_that_cannot_be_read_is_refused_everywhere(pair: Cluster) -> None:
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        queue = new_name()
        await members[0].create(queue)
        for member in members:
            for call in (_dequeue, _browse, _consume):
                with refused("BAD_SELECTOR", grpc.StatusCode.INVALID_ARGUMENT, "expected", "the end"):
                    await call(member, queue)


async def _dequeue(member: Raw, queue: str) -> Any:
    return await member.receive(queue, filter={"selector": "a = "})


async def _browse(member: Raw, queue: str) -> Any:
    request = service.BrowsePageRequest(queue=queue, filter={"selector": "a = "})
    return await member.queue.BrowsePage(request, timeout=OUTER_S)


async def _consume(member: Raw, queue: str) -> Any:
    call = member.queue.Consume(timeout=OUTER_S)
    opening = {"queue": queue, "client_id": new_id(), "filter": {"selector": "a = "}}
    await call.write(service.ConsumeRequest(open=opening))
    return await call.read()


async def test_both_members_know_a_dedup_id(pair: Cluster) -> None:
    """By one call and by a stream, at either member: the second message is told the first one's index."""
    async with aio.connect(pair.endpoint("a")) as first, aio.connect(pair.endpoint("b")) as second:
        queue = new_name()
        await first.create_queue(queue)
        [sent] = await first.enqueue(queue, [Outgoing(b"1", {"dedup_id": "order-1"})])
        [again] = await second.enqueue(queue, [Outgoing(b"1", {"dedup_id": "order-1"})])
        assert (sent.duplicate, again.duplicate, again.index) == (False, True, sent.index)
        async with second.producer(queue) as producer:
            streamed = await producer.send(b"1", dedup_id="order-1")
            fresh = await producer.send(b"2", dedup_id="order-2")
        assert (streamed.duplicate, streamed.index) == (True, sent.index)
        assert (fresh.duplicate, fresh.index) == (False, 2)
        got = await first.dequeue(queue, 10)
        assert [message.payload for message in got] == [b"1", b"2"]


async def _looks(client: aio.Client, queue: str, how: str) -> None:
    """At all of it, in vain."""
    if how == "browse":
        assert not [message async for message in client.browse(queue, where="colour = 'none'")]
    else:
        assert not await client.dequeue(queue, where="colour = 'none'")


@pytest.mark.parametrize("how", ["browse", "dequeue"])
async def test_others_are_served_while_a_selector_looks_through_a_queue(pair: Cluster, how: str) -> None:
    """One call after another: it takes at most half of the master's time."""
    queue, other_queue = new_name(), new_name("other")
    async with aio.connect(pair.target) as client, aio.connect(pair.target) as other:
        for name in (queue, other_queue):
            await client.create_queue(name)
        for _ in range(MANY // 1_000):
            await client.enqueue(queue, [Outgoing(b"x", {"properties": {"colour": "red"}})] * 1_000)
        looking = asyncio.ensure_future(_looks(client, queue, how))
        answered = 0
        while not looking.done():
            await other.enqueue(other_queue, [b"x"])
            answered += 1
        await looking
        assert answered > MANY // 10_000, "of 25 turns"

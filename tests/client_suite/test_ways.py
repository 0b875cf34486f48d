"""The same client code on every way to a manager: in its process, by a Unix socket, TCP, a replica, a single one,
by macro queues, and by proxies of another pair's queues.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tandemq import Outgoing, aio
from tandemq.client.reactions import Cancel
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.client_suite.by_proxies import NOT_OFFERED, ByProxies
from tests.client_suite.operations import OPERATIONS, bodies, numbered, reasons
from tests.client_suite.ways import NAMES, Way, all_ways
from tests.integration.support import new_name

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

LIMIT_BYTES = 1 << 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ways(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Way]]:
    """One pair, one single manager, one inside: for all tests of this file."""
    folder: Path = tmp_path_factory.mktemp("ways")
    async with all_ways(folder) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(ways: dict[str, Way]) -> AsyncIterator[dict[str, aio.Client]]:
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(way.connect()) for name, way in ways.items()}


@pytest.fixture(params=NAMES)
def way(ways: dict[str, Way], request: pytest.FixtureRequest) -> Way:
    return ways[request.param]


@pytest.fixture
def client(clients: dict[str, aio.Client], way: Way) -> aio.Client:
    return clients[way.name]


@pytest.mark.requirement("R001", "R007", "R008", "R035", "R097", "R141")
@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_is_the_same_on_every_way(client: aio.Client, name: str) -> None:
    operation, queue = OPERATIONS[name], new_name(name)
    prepared = await operation.prepare(client, queue)
    answer = await operation.act(client, queue, prepared)
    await operation.check(client, queue, prepared, answer)


@pytest.mark.requirement("R054", "R058")
async def test_a_proxy_refuses_by_name_what_it_does_not_offer(clients: dict[str, aio.Client]) -> None:
    """M11: each row of what the suite asks the other pair itself."""
    client: Any = clients["proxy"]
    assert isinstance(client, ByProxies)
    await client.create_queue(queue := new_name())
    near = client.near
    calls = {
        "create_queue": near.create_queue(queue),
        "update_queue": near.update_queue(queue, admin.QueueConfig(annotation="x"), ["annotation"]),
        "delete_queue": near.delete_queue(queue),
        "purge_queue": near.purge_queue(queue),
        "move_messages": near.move_messages(queue, "elsewhere"),
        "redrive_queue": near.redrive_queue(queue),
        "delete_messages": near.delete_messages(queue, "tq_index = 1"),
        "react": near.react(queue, "tq_index = 1", Cancel()),
        "in_unit": near.in_unit(lambda unit: unit.enqueue(queue, [b"x"])),
    }
    assert {name: await reasons(call) for name, call in calls.items()} == {
        name: [row.reason] for name, row in NOT_OFFERED.items() if row.reason
    }
    assert queue not in [info.name for info in await near.list_queues()]
    assert await bodies(client, queue) == []


async def test_replies_say_how_many_copies_there_are(client: aio.Client, way: Way) -> None:
    queue = new_name()
    await client.create_queue(queue)
    [receipt] = await client.enqueue(queue, [b"x"], min_copies=way.copies)
    assert receipt.copies == way.copies


@pytest.mark.requirement("R003")
async def test_any_bytes_come_out_as_they_went_in(client: aio.Client) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    queue = new_name()
    await client.create_queue(queue)
    sent = [b"", b"\x00", bytes(range(256)), "ü\r\n\x1b".encode(), chance.randbytes(LIMIT_BYTES)]
    sent += [chance.randbytes(chance.randrange(4096)) for _ in range(50)]
    async with client.producer(queue) as producer:
        await producer.send_many(sent[::2])
    await client.enqueue(queue, sent[1::2])
    expected = sent[::2] + sent[1::2]
    assert await bodies(client, queue) == expected, f"seed {seed}"
    async with client.consumer(queue) as consumer:
        received = [(await anext(consumer)).payload for _ in expected[:20]]
    received += [message.payload for message in await client.dequeue(queue, 99)]
    assert received == expected, f"seed {seed}"


@pytest.mark.requirement("R053")
async def test_no_second_consumer_gets_a_message(client: aio.Client, way: Way) -> None:
    queue = new_name()
    await client.create_queue(queue)
    await client.enqueue(queue, numbered(100))
    async with way.connect() as other:
        taken: list[bytes] = []
        for place in range(20):
            mode = "immediate" if place % 4 < 2 else "lease"
            batch = await (client, other)[place % 2].dequeue(queue, 5, mode=mode, lease=timedelta(minutes=5))
            taken += [message.payload for message in batch]
        assert taken == numbered(100)
        assert len(await other.dequeue(queue, 1)) == 0


@pytest.mark.requirement("R053")
async def test_a_client_that_goes_away_gives_back_what_it_did_not_take(client: aio.Client, way: Way) -> None:
    queue = new_name()
    await client.create_queue(queue)
    await client.enqueue(queue, numbered(10))
    async with way.connect() as other, other.consumer(queue) as consumer:
        await (await anext(consumer)).ack_async()
    got = await client.dequeue(queue, 10, wait=timedelta(seconds=10))
    assert [message.payload for message in got] == numbered(10)[1:]


@pytest.mark.requirement("R004")
async def test_one_client_administers_another_sends_a_third_receives_and_a_fourth_does_all(way: Way) -> None:
    """Whoever administers, or has one of the other roles, does not count as another one; who has all counts in each."""
    queue = new_name()

    async def has(producers: int, consumers: int) -> None:
        info = await asking.get_queue(queue)
        if way.name != "replica":  # the master answers, of the clients that are attached to it
            assert (info.producers, info.consumers) == (producers, consumers)

    async with way.connect() as administrator, way.connect() as sender, way.connect() as receiver:
        asking = administrator
        await administrator.create_queue(queue)
        await has(0, 0)
        async with sender.producer(queue) as producer:
            await producer.send(b"1")
            await has(1, 0)
        async with receiver.consumer(queue) as consumer:
            assert (await anext(consumer)).payload == b"1"
            await has(0, 1)
        assert (await administrator.get_queue(queue)).enqueued_total == 1
    async with way.connect() as client:
        asking = client
        await client.purge_queue(queue)
        async with client.producer(queue) as producer, client.consumer(queue) as consumer:
            await producer.send(b"own")
            await (await anext(consumer)).ack_async()
            await has(1, 1)
        await client.enqueue(queue, [b"2"])
        assert [message.payload for message in await client.dequeue(queue, 2)][-1] == b"2"
        await client.delete_queue(queue)


@pytest.mark.requirement("R050")
@pytest.mark.parametrize("wait", [None, 5.0])
async def test_messages_and_raw_bytes_are_sent_with_a_wait_and_without(client: aio.Client, wait: float | None) -> None:
    queue = new_name()
    await client.create_queue(queue)
    await client.enqueue(queue, [b"raw", Outgoing(b"message", {"correlation_id": "c"})], wait=wait)
    async with client.producer(queue, full_wait=wait) as producer:
        await producer.send(b"raw")
        await producer.send(b"message", correlation_id="c")
    seen = [(message.payload, dict(message.attributes)) async for message in client.browse(queue)]
    assert seen == [(b"raw", {}), (b"message", {"correlation_id": "c"})] * 2


@pytest.mark.requirement("R051")
async def test_messages_are_asked_for_ahead_and_each_request_gets_its_own(client: aio.Client) -> None:
    """Each request is a handle that completes later: with the messages that are there by then, or empty at its end."""
    queue = new_name()
    await client.create_queue(queue)
    asked = [asyncio.ensure_future(client.dequeue(queue, wait=timedelta(seconds=15))) for _ in range(5)]
    short = await client.dequeue(queue, wait=timedelta(milliseconds=50))
    assert not short, "its own wait ended, not theirs"
    assert not any(each.done() for each in asked)
    await client.enqueue(queue, numbered(5))
    got = [[message.payload for message in each] for each in await asyncio.gather(*asked)]
    assert sorted(got) == [[payload] for payload in numbered(5)]


@pytest.mark.requirement("R034")
async def test_a_queue_says_whether_it_is_replicated(client: aio.Client, way: Way) -> None:
    queue = new_name()
    await client.create_queue(queue)
    expected = admin.REPLICATION_FULL if way.copies == 2 else admin.REPLICATION_NONE
    assert (await client.get_queue(queue)).config.replication == expected

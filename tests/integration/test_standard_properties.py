"""R192: every message has the standard properties, whichever way it is sent; any queue is source and destination."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from tandemq import aio
from tests.integration.module_pair import module_client, module_pair
from tests.integration.sending import WAYS
from tests.integration.support import new_name
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.requirement("R192")]

pair = module_pair()
client = module_client()

GIVEN: aio.Attributes = {"reply_to": "answers", "ttl": timedelta(hours=1), "priority": 7, "correlation_id": "c-1"}


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_of_sending_carries_reply_to_and_expiry(
    client: aio.Client, way: Callable[..., Awaitable[None]]
) -> None:
    queue, before = new_name(), datetime.now(UTC) - timedelta(minutes=1)
    await client.create_queue(queue)
    await way(client, queue, b"with", GIVEN)
    await way(client, queue, b"without", {})
    browsed = [message async for message in client.browse(queue)]
    received = await client.dequeue(queue, 2, wait=OUTER_S)
    for messages in (sorted(browsed, key=lambda each: each.index), sorted(received, key=lambda each: each.index)):
        first, second = messages
        assert first.attributes == GIVEN
        assert second.attributes == {}, "what a producer leaves out is nobody else's choice"
        for place, message in enumerate(messages, start=1):
            assert (message.index, message.queue, len(message.id)) == (place, queue, 16)
            assert before < message.enqueue_time < datetime.now(UTC) + timedelta(minutes=1)
        assert first.id != second.id
    await received.ack()


@pytest.mark.parametrize("way", WAYS)
async def test_a_message_whose_time_is_over_is_gone(client: aio.Client, way: Callable[..., Awaitable[None]]) -> None:
    queue = new_name()
    await client.create_queue(queue)
    await way(client, queue, b"short", {"ttl": timedelta(milliseconds=1)})
    await way(client, queue, b"long", {"ttl": timedelta(hours=1)})

    async def left() -> bool:
        return [message.payload async for message in client.browse(queue)] == [b"long"]

    await until(left, "that the first one has expired")
    assert (await client.get_queue(queue)).expired_total == 1


async def test_a_queue_is_source_and_destination_of_the_same_and_of_others(client: aio.Client) -> None:
    """A worker takes from a queue and answers into the queue that the message names, which is that same queue."""
    queue = new_name()
    await client.create_queue(queue)
    await client.enqueue(queue, [aio.Outgoing(b"question", {"reply_to": queue, "correlation_id": "7"})])
    taken = await client.dequeue(queue, wait=OUTER_S)
    (question,) = taken
    answer = aio.Outgoing(b"answer", {"correlation_id": question.attributes["correlation_id"]})
    await client.transact([taken], {question.attributes["reply_to"]: [answer]})
    (found,) = [message async for message in client.browse(queue)]
    assert (found.payload, found.index, found.attributes) == (b"answer", 2, {"correlation_id": "7"})
    async with client.unit() as unit:
        (again,) = await unit.dequeue(queue, wait=OUTER_S)
        await unit.enqueue(queue, [again.payload * 2])
    assert [message.payload async for message in client.browse(queue)] == [b"answeranswer"]

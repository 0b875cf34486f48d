"""What a queue with PRODUCER replication does not take, at a real pair: each call is refused by name, and harmless."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import MappingProxyType

import pytest

from tandemq import Outgoing, aio
from tandemq.client.filtering import Where
from tandemq.client.reactions import Cancel, MoveTo
from tandemq.errors import TandemqError
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_name

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()

PRODUCER, FULL = (
    admin.QueueConfig(replication=replication) for replication in (admin.REPLICATION_PRODUCER, admin.REPLICATION_FULL)
)
ORDERED = admin.QueueConfig(group_mode=admin.GROUP_MODE_ORDERED)


async def taken_in_unit(client: aio.Client, queue: str) -> None:
    async with client.unit() as unit:
        await unit.dequeue(queue)


async def moved_to(client: aio.Client, queue: str) -> None:
    other = new_name()
    await client.create_queue(other)
    await client.enqueue(other, [b"x"])
    await client.move_messages(other, queue)


async def attached(client: aio.Client, queue: str) -> None:
    async with client.consumer(queue, where="n > 2") as consumer:
        await anext(consumer)


async def moved_by_a_reaction(client: aio.Client, queue: str) -> None:
    other = new_name()
    await client.create_queue(other, admin.QueueConfig(reactions_enabled=True))
    await client.enqueue(other, [Outgoing(b"x", {"correlation_id": "c"})])
    await client.react(other, Where(correlation_id="c"), MoveTo(queue))


Call = Callable[[aio.Client, str], Awaitable[object]]
REFUSED: MappingProxyType[str, tuple[str, Call]] = MappingProxyType(
    {
        "a ttl": ("BAD_ATTRIBUTE", lambda client, q: client.enqueue(q, [Outgoing(b"x", {"ttl": timedelta(1)})])),
        "a priority": ("BAD_ATTRIBUTE", lambda client, q: client.enqueue(q, [Outgoing(b"x", {"priority": 9})])),
        "FULL from PRODUCER": ("READ_ONLY", lambda client, q: client.update_queue(q, FULL, ["replication"])),
        "a group mode": ("CONFIG_ERROR", lambda client, q: client.update_queue(q, ORDERED, ["group_mode"])),
        "a filter": ("CONFIG_ERROR", attached),
        "Dequeue": ("CONFIG_ERROR", lambda client, q: client.dequeue(q)),
        "a get in a unit": ("CONFIG_ERROR", taken_in_unit),
        "React": ("REACTION_DISABLED", lambda client, q: client.react(q, "n > 2", Cancel())),
        "a reaction that moves to it": ("CONFIG_ERROR", moved_by_a_reaction),
        "purge": ("CONFIG_ERROR", lambda client, q: client.purge_queue(q)),
        "a move from it": ("CONFIG_ERROR", lambda client, q: client.move_messages(q, q)),
        "a move to it": ("CONFIG_ERROR", moved_to),
        "removal": ("CONFIG_ERROR", lambda client, q: client.delete_messages(q, "n > 2")),
    }
)


@pytest.fixture
async def queue(client: aio.Client) -> str:
    name = new_name()
    await client.create_queue(name, PRODUCER)
    await client.enqueue(name, [b"1", b"2"])
    return name


@pytest.mark.parametrize("what", REFUSED)
async def test_what_would_let_the_sides_differ_is_refused_by_name(client: aio.Client, queue: str, what: str) -> None:
    reason, call = REFUSED[what]
    with pytest.raises(TandemqError) as refused:
        await call(client, queue)
    assert refused.value.reason == reason
    assert refused.value.definite
    assert [message.payload async for message in client.browse(queue)] == [b"1", b"2"]


@pytest.mark.requirement("R101")
async def test_a_queue_of_another_replication_gets_no_sides_later(client: aio.Client) -> None:
    name = new_name()
    await client.create_queue(name)
    assert (await client.get_queue(name)).config.replication == admin.REPLICATION_FULL, "where nothing is said"
    with pytest.raises(TandemqError, match="READ_ONLY"):
        await client.update_queue(name, PRODUCER, ["replication"])


async def test_a_unit_sends_to_both_sides(client: aio.Client) -> None:
    name = new_name()
    await client.create_queue(name, PRODUCER)
    async with client.unit() as unit:
        await unit.enqueue(name, [b"1", b"2"])
    assert [message.payload async for message in client.browse(name)] == [b"1", b"2"]

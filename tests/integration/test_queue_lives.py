"""A queue's states, other names, defaults and clients, on a pair of real processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.errors import TandemqError
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import new_name, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import until

pytestmark = pytest.mark.process


@pytest.fixture
async def clients(pair: Cluster) -> AsyncIterator[list[aio.Client]]:
    """One at each member, and it stays there."""
    at_a, at_b = (aio.connect(endpoint, follow_master=False) for endpoint in pair.endpoints)
    async with at_a as a, at_b as b:
        yield [a, b]


async def refused(call: object) -> str:
    with pytest.raises(TandemqError) as caught:
        await call  # type: ignore[misc]  # a coroutine
    return caught.value.reason


@pytest.mark.requirement("R009", "R040", "R041", "R042", "R092", "R093", "R095")
async def test_r095_a_queue_goes_through_its_states_whichever_member_is_asked(clients: list[aio.Client]) -> None:
    a, b = clients
    name = new_name()
    made = await a.create_queue(name, configuring=True)
    assert made.state == admin.QUEUE_STATE_CONFIGURING
    assert await refused(b.enqueue(name, [b"early"])) == "INVALID_STATE"
    assert await refused(b.dequeue(name)) == "INVALID_STATE"
    assert await refused(b.open_queue(name)) == "INVALID_STATE"
    assert (await b.configure_queue(name)).state == admin.QUEUE_STATE_CONFIGURED
    assert await refused(a.configure_queue(name)) == "INVALID_STATE"
    two_way = admin.QueueConfig(queue_type=admin.QUEUE_TYPE_TWO_WAY)
    assert await refused(a.update_queue(name, two_way, ["queue_type"])) == "READ_ONLY"
    opened = await b.open_queue(name)
    assert list(opened.open_members) == ["a", "b"]
    await b.enqueue(name, [b"kept"])
    assert (await a.close_queue(name)).state == admin.QUEUE_STATE_CLOSED
    for client in clients:
        assert await refused(client.enqueue(name, [b"late"])) == "INVALID_STATE"
    await a.open_queue(name)
    assert [message.payload for message in await b.dequeue(name)] == [b"kept"]


@pytest.mark.requirement("R042")
async def test_r042_close_sends_consumers_of_both_members_away(clients: list[aio.Client]) -> None:
    for client in clients:
        name = new_name()
        await client.create_queue(name)
        await client.enqueue(name, [b"one"])
        consumer = client.consumer(name)
        (await anext(aiter(consumer))).ack()
        await clients[1].close_queue(name)
        assert await refused(anext(aiter(consumer))) == "INVALID_STATE"


@pytest.mark.requirement("R143")
async def test_r143_an_alias_serves_producers_consumers_and_administrators(clients: list[aio.Client]) -> None:
    a, b = clients
    name, other = new_name(), new_name("alias")
    await a.create_queue(name)
    assert list((await b.create_alias(other, name)).aliases) == [other]
    assert await refused(a.create_queue(other)) == "ALIAS_EXISTS"
    assert await refused(a.create_alias(other, name)) == "ALIAS_EXISTS"
    assert await refused(a.create_alias(name, name)) == "QUEUE_EXISTS"
    assert await refused(a.create_alias(new_name(), other)) == "BAD_NAME"
    producer = b.producer(other)
    await producer.send(b"by the alias")
    await producer.close()
    consumer = b.consumer(other)
    async for message in consumer:
        assert message.payload == b"by the alias"
        await a.delete_alias(other)  # what was delivered is still settled
        message.ack()
        break
    await consumer.close()
    assert (await a.get_queue(name)).length == 0
    assert await refused(a.get_queue(other)) == "QUEUE_NOT_FOUND"
    await a.create_alias(other, name)
    await b.enqueue(other, [b"again"])
    assert [message.payload async for message in a.browse(other)] == [b"again"]
    await b.delete_queue(other)
    assert await refused(a.get_queue(name)) == "QUEUE_NOT_FOUND"


@pytest.mark.requirement("R046", "R047", "R156")
async def test_r047_defaults_are_the_pairs_and_of_new_queues_alone(clients: list[aio.Client]) -> None:
    a, b = clients
    before = new_name()
    await a.create_queue(before)
    defaults = await b.get_defaults()
    assert defaults.profile == "safe"
    changed = await b.update_defaults(
        admin.QueueConfig(max_length=77), ["max_length"], expected_version=defaults.version
    )
    assert changed.version == defaults.version + 1
    stale = a.update_defaults(admin.QueueConfig(max_length=5), ["max_length"], expected_version=defaults.version)
    assert await refused(stale) == "VERSION_MISMATCH"
    after = await a.create_queue(new_name())
    assert after.config.max_length == 77
    assert (await a.get_queue(before)).config.max_length == defaults.config.max_length
    await a.update_defaults(admin.QueueConfig(), ["max_length"])
    assert (await b.get_defaults()).config.max_length == defaults.config.max_length


async def test_a_queue_in_use_at_either_member_is_not_deleted_if_unused(clients: list[aio.Client]) -> None:
    for user in clients:
        for kind in ("producer", "consumer"):
            name = new_name()
            await clients[0].create_queue(name)
            attached = user.producer(name) if kind == "producer" else user.consumer(name)
            if kind == "producer":
                await attached.send(b"x")  # type: ignore[union-attr]
            else:
                await user.enqueue(name, [b"x"])
                (await anext(aiter(attached))).ack()  # type: ignore[arg-type]
            assert await refused(clients[1].delete_queue(name, if_unused=True)) == "INVALID_STATE"
            await attached.close()

            async def gone(name: str = name) -> bool:
                try:
                    await clients[1].delete_queue(name, if_unused=True)
                except TandemqError as error:
                    return error.reason != "INVALID_STATE"
                return True

            await until(gone, "the queue is deleted once its client has gone")


@pytest.mark.requirement("R163")
async def test_r163_a_waiting_receiver_is_released_when_receiving_is_disabled(clients: list[aio.Client]) -> None:
    a, b = clients
    name = new_name()
    await a.create_queue(name)
    consumer = b.consumer(name)
    await a.enqueue(name, [b"first"])
    (await anext(aiter(consumer))).ack()
    await a.update_queue(name, admin.QueueConfig(dequeue_enabled=False), ["dequeue_enabled"])
    assert await refused(anext(aiter(consumer))) == "DEQUEUE_DISABLED"


@pytest.mark.requirement("R020", "R046")
async def test_r046_profile_classic_gives_what_the_first_design_says(tmp_path: Path) -> None:
    async with stopped_at_end(patient(tmp_path, profile="classic")) as cluster:
        await cluster.start()
        async with aio.connect(cluster.endpoints[1]) as client:
            assert (await client.get_defaults()).profile == "classic"
            config = (await client.create_queue("q")).config
            assert config.queue_type == admin.QUEUE_TYPE_ONE_WAY
            assert (config.max_length, config.max_bytes, config.max_deliveries) == (1000, 0, 0)
            assert config.persistence == admin.PERSISTENCE_CONDITIONAL
            assert config.empty_idle_expiry.ToMilliseconds() == 24 * 3_600_000
            assert config.default_settle == service.SETTLE_MODE_IMMEDIATE
            assert config.HasField("dead_letter_queue")
            assert not config.dead_letter_queue
            assert config.remote_clients_allowed
            await client.enqueue("q", [b"gone at delivery"])

            async def received() -> bool:
                return [message.payload for message in await client.dequeue("q")] == [b"gone at delivery"]

            await until(received, "the message is there")
            assert (await client.get_queue("q")).length == 0

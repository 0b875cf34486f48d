"""How streams come in: so many at one time, and at a bounded pace once a herd comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from replica.manager import Manager
from replica.node.standing import AT_ONCE, LET_IN_S, OPENING_MAX, Door, OpeningStream, Streams
from tandemq import embedded
from tandemq.config import ManagerConfig
from tandemq.errors import NotFound
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.support.until import until


async def test_a_herd_is_let_in_at_a_bounded_pace() -> None:
    """A few come in at once; of a herd, one in each LET_IN_S."""
    door, loop, herd = Door(), asyncio.get_running_loop(), 50
    began_s = loop.time()
    await asyncio.gather(*(door.pace() for _ in range(AT_ONCE + herd)))
    assert loop.time() - began_s >= (herd - 1) * LET_IN_S


async def test_no_more_are_being_opened_than_there_are_places() -> None:
    places = Door().places["main"]
    entries = []
    for _ in range(OPENING_MAX):
        await places.acquire()
        entries.append(OpeningStream(places, 0.0))
    waiting = asyncio.create_task(places.acquire())
    await asyncio.sleep(0)
    assert not waiting.done()
    entries[0].leave()
    entries[0].leave()  # a place is given back once
    await waiting
    assert places.locked()


async def test_one_more_than_the_limit_is_refused_by_name() -> None:
    node: Any = SimpleNamespace(on_tick=[])
    streams = Streams(node, 1)
    with streams.counted():
        problem = streams.problem()
        assert problem is not None
        assert (problem.reason, problem.metadata) == (Reason.REASON_TOO_MANY_WAITERS, {"limit": "1"})
    assert streams.problem() is None
    with pytest.raises(ZeroDivisionError), streams.counted():
        raise ZeroDivisionError
    assert streams.count == 0


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    config = ManagerConfig(member="here", data_dir=str(tmp_path), server_required=False)
    async with embedded.open_manager(config) as opened:
        yield opened


def streams_of(manager: Manager) -> Streams:
    assert manager._members is not None
    return manager._members.streams


def places_of(manager: Manager, queue: str) -> asyncio.Semaphore:
    assert manager._members is not None
    return streams_of(manager).door.places[manager._members.of_queue(queue).shared.name]


def attached(manager: Manager) -> int:
    """Consumers that the queues know."""
    assert manager._members is not None
    return sum(domain.consumers.count for domain in manager._members.by_name.values())


async def test_a_stream_comes_in_by_the_door(manager: Manager) -> None:
    """It is counted as soon as it comes, and waits while others are being opened."""
    streams = streams_of(manager)
    async with embedded.connect(manager) as client:
        await client.create_queue("q")
        places = places_of(manager, "q")
        for _ in range(OPENING_MAX):
            await places.acquire()
        consumer = client.consumer("q")
        taking = asyncio.create_task(anext(consumer))
        await until(lambda: streams.count == 1)
        await client.enqueue("q", [b"x"])
        assert (attached(manager), taking.done()) == (0, False)
        for _ in range(OPENING_MAX):
            places.release()
        (await taking).ack()
        assert attached(manager) == 1
        assert not places.locked()  # it gave its place back
        await consumer.close()
    await until(lambda: streams.count == 0)


async def test_streams_of_a_manager_come_in_at_the_doors_pace(manager: Manager) -> None:
    streams, loop, late_s = streams_of(manager), asyncio.get_running_loop(), 0.2
    async with embedded.connect(manager) as client, client.consumer("q") as consumer:
        await client.create_queue("q")
        await client.enqueue("q", [b"x"])
        began_s = loop.time()
        streams.door._free_at_s = began_s + late_s  # as after a herd
        (await anext(consumer)).ack()
        assert loop.time() - began_s >= late_s


async def test_who_waits_for_a_queue_that_expires_is_sent_away(manager: Manager) -> None:
    """No call deletes it, and no frame is due to its consumer."""
    async with embedded.connect(manager) as client, client.consumer("q") as consumer:
        await client.create_queue("q")
        waiting = asyncio.create_task(anext(consumer))
        await until(lambda: attached(manager) == 1, "it waits")
        expiry = QueueConfig(empty_idle_expiry=Duration(nanos=1_000_000))
        with suppress(NotFound):  # it may be gone before this is answered
            await client.update_queue("q", expiry, ["empty_idle_expiry"])
        with pytest.raises(NotFound, match="was deleted"):
            await waiting

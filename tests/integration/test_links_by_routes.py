"""Messages that go by managers in between: each sends on what is not for it, once and in order, whatever dies (X2, X5).
Three real pairs in a row: east knows west alone, and north nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.filtering import Where
from tandemq.client.reactions import Cancel
from tandemq.config_links import Links
from tandemq.errors import TandemqError
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.integration.support import new_name, payloads, roles, stopped_at_end
from tests.integration.two_pairs import is_empty, there
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process


class Three(NamedTuple):
    """In the order in which messages pass them."""

    east: Cluster
    west: Cluster
    north: Cluster


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    found = three(tmp_path_factory.mktemp("pairs"))
    for each in found:
        asyncio.run(each.start())
    yield found
    for each in found:
        asyncio.run(each.stop())


def three(directory: Path) -> Three:
    north = patient(directory / "north", pair="north")
    of_west: dict[str, Any] = {}
    west = patient(directory / "west", pair="west", settings=dict.fromkeys("ab", of_west))
    of_east = {"links": Links(managers=known(west=west), routes=("north=west", "round=west", "lost=nobody"))}
    east = patient(directory / "east", pair="east", settings=dict.fromkeys("ab", of_east))
    of_west["links"] = Links(managers=known(north=north, east=east), routes=("round=east",))
    return Three(east, west, north)


def known(**clusters: Cluster) -> tuple[str, ...]:
    return tuple(f"{name}={each}" for name, cluster in clusters.items() for each in cluster.endpoints)


@pytest.mark.requirement("R204")
async def test_x5_a_manager_in_between_sends_on_what_is_not_for_it(pairs: Three) -> None:
    """Its own queue of that name gets nothing of it. A reaction goes the same way, behind what it is for."""
    orders = new_name()
    async with (
        aio.connect(pairs.east.target) as east,
        aio.connect(pairs.west.target) as west,
        aio.connect(pairs.north.target) as north,
    ):
        await west.create_queue(orders)
        await north.create_queue(orders, QueueConfig(reactions_enabled=True))
        name = f"//north/{orders}"
        late = tandemq.Outgoing(b"late", {"correlation_id": "late"})
        done = await east.transact([], {name: [b"0", b"1", b"2", late]}, forward=True)
        (receipts,) = done.values()
        got = await there(north, orders, 4)
        assert [each.payload for each in got] == [b"0", b"1", b"2", b"late"]
        assert {each.properties["tq_hops"] for each in got} == {2}
        assert [each.properties["tq_source_id"] for each in got] == [each.id for each in receipts]
        assert {each.properties["tq_source"] for each in got} == {"east/main"}
        await east.react(name, Where(correlation_id="late"), Cancel(), forward=True)

        async def gone() -> bool:
            return await payloads(north, orders) == [b"0", b"1", b"2"]

        await until(gone, "the reaction has acted at north")
        assert await is_empty(west, orders)
        await until(lambda: is_empty(east, "SYSTEM.XMIT/north"), "west has all of it")
        await until(lambda: is_empty(west, "SYSTEM.XMIT/north"), "north has all of it")
        (link,) = (each for each in await east.list_transmissions() if each.target == "north")
        assert (link.via, link.addresses) == ("west", (*pairs.west.endpoints,))


async def test_x5_what_the_last_one_refuses_for_ever_is_a_dead_letter_there(pairs: Three) -> None:
    async with aio.connect(pairs.east.target) as east, aio.connect(pairs.north.target) as north:
        await east.transact([], {"//north/nowhere": [b"x"]}, forward=True)
        dead = (await there(north, "SYSTEM.DEAD", 1))[-1]
        assert (dead.payload, dead.properties["tq_dead_letter_reason"]) == (b"x", "QUEUE_NOT_FOUND")


async def test_x5_routes_that_lead_in_a_circle_end_at_whoever_has_it_then(pairs: Three) -> None:
    async with aio.connect(pairs.east.target) as east:
        await east.transact([], {"//round/orders": [b"x"]}, forward=True)
        (dead,) = await there(east, "SYSTEM.DEAD", 1)
        assert dead.properties["tq_dead_letter_reason"] == "LOOP_LIMIT"
        assert dead.properties["tq_origin_queue"] == "//round/orders"


async def test_a_route_by_a_manager_that_nobody_knows_is_refused_at_the_put(pairs: Three) -> None:
    async with aio.connect(pairs.east.target) as east:
        with pytest.raises(TandemqError, match=r"MANAGER_NOT_FOUND.*nobody"):
            await east.transact([], {"//lost/orders": [b"x"]}, forward=True)


@pytest.mark.requirement("R204")
async def test_whatever_dies_in_between_each_message_arrives_once_and_in_order(tmp_path: Path) -> None:
    """The masters of all three pairs, while messages go."""
    found = three(tmp_path)
    async with AsyncExitStack() as stack:
        for each in found:
            await stack.enter_async_context(stopped_at_end(each))
            await each.start()
        async with (
            aio.connect(found.east.target, timeout=OUTER_S) as east,
            aio.connect(found.north.target, timeout=OUTER_S) as north,
        ):
            await north.create_queue("orders")
            sent = [b"%d" % number for number in range(60)]
            async with east.producer("//north/orders", forward=True) as producer:
                for part, each in enumerate((found.west, found.east, found.north)):
                    await producer.send_many(sent[part * 20 : part * 20 + 20])
                    master, _ = await roles(each)
                    each.kill(master)
            got = await there(north, "orders", len(sent))
            assert [each.payload for each in got] == sent
            await until(lambda: is_empty(east, "SYSTEM.XMIT/north"), "nothing waits at east")
            assert await payloads(north, "orders") == sent

"""A macro queue of a pair with a member at a manager that is cut off, slow, hangs, has another queue by that name, is
replaced by another manager at its address, or is not there at all: it is named, and the member here goes on (M7, M11).

The other manager is reached through Toxiproxy. What comes of a call that does not wait shows that nobody was held up.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from chaos.cluster import Cluster
from chaos.toxic_relays import ToxicRelay, ToxicRelays
from tandemq import aio
from tandemq.client.macros import FarMember, FarState, MacroPolicy
from tandemq.config_links import Links
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, QueueConfig
from tests.integration.support import new_name
from tests.support.clusters import patient
from tests.support.toxiproxy import toxiproxy_program
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

FEW = 20
AWAY_COUNT = 999
AT_ONCE = 50


class World(NamedTuple):
    """East is a pair; west and the stranger are single managers, and east knows where west is."""

    east: aio.Client
    west: aio.Client
    stranger: aio.Client
    managers: tuple[Cluster, Cluster]
    relays: ToxicRelays
    address: str


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("hurt")
    address, nobody = free_address(), free_address()
    relays = ToxicRelays(toxiproxy_program(), free_address(), folder / "toxiproxy.log")
    west = patient(folder / "west", members=("west",), settings={"west": {"advertise": address}})
    stranger = patient(folder / "stranger", members=("stranger",))
    links = Links(managers=(f"west={address}", f"nobody={nobody}"))
    east = patient(folder / "east", pair="east", settings={name: {"links": links} for name in ("a", "b")})
    relays.start()
    try:
        async with west.running(), stranger.running(), east.running():
            relays.open(address, west.endpoints[0], "west")
            async with (
                aio.connect(east.target, timeout=OUTER_S) as near,
                aio.connect(west.endpoints[0], timeout=OUTER_S, follow_master=False) as far,
                aio.connect(stranger.target, timeout=OUTER_S) as other,
            ):
                yield World(near, far, other, (west, stranger), relays, address)
    finally:
        relays.close()


@pytest.fixture
def relay(world: World) -> ToxicRelay:
    """The way to west, whatever became of it in the test before."""
    api = world.relays.server.api
    for name in api.names():
        api.find(name).destroy()
    return world.relays.open(world.address, world.managers[0].endpoints[0], "west")


class Queues(NamedTuple):
    """A macro queue, its member here, and the name of its member there."""

    macro: str
    own: str
    far: str


async def made(world: World, there: int = 9) -> Queues:
    queues = Queues(new_name("macro"), new_name("own"), new_name("far"))
    await world.west.create_queue(queues.far)
    await world.east.create_queue(queues.own)
    await world.east.create_proxy(f"{queues.far}.proxy", f"//west/{queues.far}")
    await world.east.create_macro(queues.macro, policy=MacroPolicy.PRIORITIZED)
    await world.east.add_macro_member(queues.macro, queues.own, priority=5)
    await world.east.add_macro_member(queues.macro, f"{queues.far}.proxy", priority=there)
    await takes(world, queues, b"before")
    return queues


async def takes(world: World, queues: Queues, payload: bytes) -> None:
    """What is sent there comes out here."""
    await world.west.enqueue(queues.far, [payload])
    got = await world.east.dequeue(queues.macro, wait=OUTER_S)
    assert (got.payloads, got.queue) == ([payload], f"{queues.far}.proxy")
    await got.ack()


async def stands(world: World, queues: Queues, *states: FarState) -> FarMember:
    """Once it does; somebody has to wait for that."""
    found: list[FarMember] = []

    async def is_so() -> bool:
        assert not await world.east.dequeue(queues.macro)
        (far,) = [each.far for each in (await world.east.get_macro(queues.macro)).members if each.target]
        assert far is not None
        found.append(far)
        return far.state in states

    await until(is_so, f"the member there is {' or '.join(states)}")
    return found[-1]


async def goes_on(world: World, queues: Queues) -> None:
    """The member here gives at each call, and none of them waits."""
    wanted = [b"%d" % number for number in range(FEW)]
    await world.east.enqueue(queues.own, wanted)
    got = []
    for _ in wanted:
        batch = await world.east.dequeue(queues.macro)
        got += batch.payloads
        await batch.ack()
    assert got == wanted


async def test_a_network_cut_between_the_managers(world: World, relay: ToxicRelay) -> None:
    queues = await made(world)
    relay.silence()
    shown = await stands(world, queues, FarState.AWAY)
    assert "MANAGER_UNREACHABLE" in shown.why or "UNREACHABLE" in shown.why or "DEADLINE" in shown.why
    await goes_on(world, queues)
    await world.west.enqueue(queues.far, [b"meanwhile"])
    relay.heal()
    got = await world.east.dequeue(queues.macro, wait=OUTER_S)
    assert got.payloads == [b"meanwhile"]
    await got.ack()
    assert (await world.west.get_queue(queues.far)).length == 0


async def test_a_manager_that_answers_slowly_is_late_and_holds_up_nobody(world: World, relay: ToxicRelay) -> None:
    queues = await made(world)
    await world.west.enqueue(queues.far, [b"slowly"])
    relay.delay(0.15)
    shown = await stands(world, queues, FarState.LATE, FarState.HEARD)
    if shown.state is FarState.LATE:
        assert shown.why == "no answer in 250 ms"
    await world.east.enqueue(queues.own, [b"here"])
    got = [await world.east.dequeue(queues.macro, wait=OUTER_S) for _ in range(2)]
    assert sorted(each.payloads[0] for each in got) == [b"here", b"slowly"]
    for each in got:
        await each.ack()
    await goes_on(world, queues)
    relay.heal()
    await takes(world, queues, b"soon")


async def test_a_manager_that_hangs(world: World, relay: ToxicRelay) -> None:
    del relay
    queues, west = await made(world), world.managers[0]
    west.pause("west")
    try:
        shown = await stands(world, queues, FarState.LATE, FarState.AWAY)
        assert shown.why
        await goes_on(world, queues)
    finally:
        west.resume("west")
    await takes(world, queues, b"again")


@pytest.mark.requirement("R077")
async def test_another_queue_by_that_name(world: World, relay: ToxicRelay) -> None:
    """Of another type: its messages are requests, which nobody here may answer."""
    del relay
    queues = await made(world)
    await world.west.delete_queue(queues.far)
    shown = await stands(world, queues, FarState.AWAY)
    assert shown.why.startswith("QUEUE_NOT_FOUND")
    await world.west.create_queue(queues.far, QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY))
    await world.west.enqueue(queues.far, [b"who answers?"])
    shown = await stands(world, queues, FarState.MISFIT)
    assert shown.why.startswith("CONFIG_MISMATCH: it is TWO_WAY")
    await goes_on(world, queues)
    assert (await world.west.get_queue(queues.far)).length == 1


async def test_another_manager_at_its_address(world: World, relay: ToxicRelay) -> None:
    """It has a queue of that name, of which nothing is taken, and into which nothing goes; callers are not refused."""
    del relay
    queues, api = await made(world), world.relays.server.api
    proxy = f"{queues.far}.proxy"
    await world.stranger.create_queue(queues.far)
    await world.stranger.enqueue(queues.far, [b"not meant"])
    api.find("west").destroy()
    relay = world.relays.open(world.address, world.managers[1].endpoints[0], "stranger")
    sending = asyncio.ensure_future(world.east.enqueue(proxy, [b"kept for west"]))

    async def is_named() -> bool:
        return (await world.east.get_proxy(proxy)).why.startswith("WRONG_PAIR")

    await until(is_named, "the proxy says who answers")
    shown = await stands(world, queues, FarState.AWAY)
    assert shown.why.startswith("WRONG_PAIR")
    assert "stranger" in shown.why
    await goes_on(world, queues)
    assert not sending.done(), "it is repeated until its manager is back"
    assert [message.payload async for message in world.stranger.browse(queues.far)] == [b"not meant"]
    api.find("stranger").destroy()
    relay = world.relays.open(world.address, world.managers[0].endpoints[0], "west")
    await sending
    got = await world.east.dequeue(queues.macro, wait=OUTER_S)
    assert got.payloads == [b"kept for west"]
    await got.ack()
    assert relay.hurts() == []


@pytest.mark.requirement("R077")
@pytest.mark.slow
async def test_of_a_thousand_members_999_are_away(world: World, relay: ToxicRelay) -> None:
    """Each of them is named, all before the one that is here, and no call finds that one held up."""
    del relay
    east, macro, own = world.east, new_name("macro"), new_name("own")
    for proxy in await east.list_proxies():  # of the tests before: there may be 1,000
        await east.delete_proxy(proxy.name)
    await east.create_queue(own)
    await east.create_macro(macro, policy=MacroPolicy.PRIORITIZED)
    names = [f"{macro}.{number}" for number in range(AWAY_COUNT)]
    for first in range(0, AWAY_COUNT, AT_ONCE):
        some = names[first : first + AT_ONCE]
        await asyncio.gather(*(east.create_proxy(name, f"//nobody/{name}") for name in some))
        await asyncio.gather(*(east.add_macro_member(macro, name, priority=9) for name in some))
    await east.add_macro_member(macro, own, priority=0)

    async def are_away() -> bool:
        found = [each.far for each in (await east.get_macro(macro)).members if each.far is not None]
        return len(found) == AWAY_COUNT and all(each.state is FarState.AWAY and each.why for each in found)

    await until(are_away, "each is away, and says why")
    await goes_on(world, Queues(macro, own, ""))

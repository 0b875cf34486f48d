"""What becomes of messages and reactions that go by a manager in between, or by another name of their target. Real
managers, in this process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from chaos.ports import PortRange
from replica.machine.state.system_names import DEAD
from tandemq import Outgoing
from tandemq.client import aio
from tandemq.client.filtering import Where
from tandemq.client.reactions import Cancel
from tandemq.config import ManagerConfig
from tandemq.config_links import Links
from tandemq.embedded import open_manager
from tandemq.errors import NotFound
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.support.until import until
from tests.unit.replica.services.links.linked import config_of

pytestmark = pytest.mark.slow

XMIT = "SYSTEM.XMIT/north"
NARROW = QueueConfig(max_message_bytes=1_000)
LARGE = b"x" * 2_000


class Knows(NamedTuple):
    """What one manager is given: others by the name that it calls them by, and whose messages go by which of these."""

    managers: Mapping[str, str]
    routes: tuple[str, ...] = ()


ROW = {
    "east": Knows({"west": "west"}, ("north=west",)),
    "west": Knows({"north": "north", "east": "east"}),
    "north": Knows({"west": "west"}, ("east=west",)),
}


@asynccontextmanager
async def running(directory: Path, known: Mapping[str, Knows]) -> AsyncIterator[list[aio.Client]]:
    """A client of each."""
    with ExitStack() as ports:
        configs = {name: config_of(directory, name, ports.enter_context(PortRange())) for name in known}
        async with AsyncExitStack() as stack:
            clients = []
            for name, each in known.items():
                config = msgspec.structs.replace(configs[name], links=_links(each, configs))
                await stack.enter_async_context(open_manager(config))
                clients.append(await stack.enter_async_context(aio.connect(config.listen_client)))
            yield clients


def _links(known: Knows, configs: Mapping[str, ManagerConfig]) -> Links:
    managers = tuple(f"{name}={configs[manager].listen_client}" for name, manager in known.managers.items())
    return Links(managers=managers, routes=known.routes)


async def _dead(client: aio.Client) -> list[tuple[bytes, object, object]]:
    try:
        return [
            (each.payload, each.properties["tq_dead_letter_reason"], each.properties["tq_origin_queue"])
            async for each in client.browse(DEAD)
        ]
    except NotFound:
        return []


async def _payloads(client: aio.Client, queue: str) -> list[bytes]:
    return [each.payload async for each in client.browse(queue)]


async def _are(client: aio.Client, queue: str, *wanted: bytes) -> None:
    async def there() -> bool:
        return await _payloads(client, queue) == list(wanted)

    await until(there, f"{wanted} in {queue}")


async def test_x5_what_the_queue_in_between_refuses_for_ever_is_a_dead_letter_there_and_holds_up_nothing(
    tmp_path: Path,
) -> None:
    """It is refused under the name of that queue, which is none of the batch: the link stood for ever."""
    async with running(tmp_path, ROW) as (east, west, north):
        for queue in ("a", "b"):
            await north.create_queue(queue)
        await east.transact([], {"//north/a": [b"0"]}, forward=True)
        await _are(north, "a", b"0")
        await west.update_queue(XMIT, NARROW, ["max_message_bytes"])
        await east.transact([], {"//north/a": [b"1", LARGE, b"2"], "//north/b": [b"3", LARGE, b"4"]}, forward=True)
        await _are(north, "a", b"0", b"1", b"2")
        await _are(north, "b", b"3", b"4")
        assert await _dead(west) == [(LARGE, "MESSAGE_TOO_LARGE", f"//north/{name}") for name in ("a", "b")]


async def test_x5_who_sends_on_may_be_the_target_by_another_name(tmp_path: Path) -> None:
    """It is given full names, and refuses the queues that these lead to."""
    known = {"east": Knows({"gate": "west"}, ("west=gate",)), "west": Knows({})}
    async with running(tmp_path, known) as (east, west):
        await west.create_queue("orders", NARROW)
        sent = {"//west/orders": [b"1", LARGE, b"2"], "//west/absent": [b"x"]}
        await east.transact([], sent, forward=True)
        await _are(west, "orders", b"1", b"2")

        async def buried() -> bool:
            return len(await _dead(west)) == 2

        await until(buried, "both that have no place are dead letters")
        assert sorted(await _dead(west)) == [
            (b"x", "QUEUE_NOT_FOUND", "//west/absent"),
            (LARGE, "MESSAGE_TOO_LARGE", "//west/orders"),
        ]


async def test_x5_what_is_refused_behind_an_alias_is_a_dead_letter_and_holds_up_nothing(tmp_path: Path) -> None:
    """The target names the queue, and the batch has its alias."""
    async with running(tmp_path, {"east": Knows({"west": "west"}), "west": Knows({})}) as (east, west):
        await west.create_queue("orders", NARROW)
        await west.create_alias("trips", "orders")
        await east.transact([], {"//west/trips": [b"1", LARGE, b"2"]}, forward=True)
        await _are(west, "orders", b"1", b"2")
        assert await _dead(west) == [(LARGE, "MESSAGE_TOO_LARGE", "trips")]


async def test_v17_who_asked_hears_of_what_was_done_behind_a_manager_that_does_not_know_him(tmp_path: Path) -> None:
    """West has nothing to report; north has, and knows the way."""
    known = ROW | {"west": Knows({"north": "north"}), "north": Knows({"east": "east"})}
    async with running(tmp_path, known) as (east, _, north):
        await north.create_queue("orders", QueueConfig(reactions_enabled=True))
        await east.create_queue("replies")
        await east.transact([], {"//north/orders": [Outgoing(b"1", {"correlation_id": "c"})]}, forward=True)
        await _are(north, "orders", b"1")
        done = await east.react(
            "//north/orders", Where(correlation_id="c"), Cancel(), report_to="replies", forward=True
        )
        assert done.forwarded == XMIT

        async def reported() -> bool:
            return (await east.get_queue("replies")).length == 1

        await until(reported, "what it came to at north")
        (report,) = [each async for each in east.browse("replies")]
        assert (report.properties["tq_outcome"], report.properties["tq_applied"]) == ("APPLIED", 1)


async def test_x5_a_domain_of_the_target_is_no_affair_of_the_manager_in_between(tmp_path: Path) -> None:
    """It has none of that name, and takes the message into its main one."""
    async with running(tmp_path, ROW) as (east, west, _):
        await east.transact([], {"//north:billing/orders": [b"1"]}, forward=True)

        async def waits() -> bool:
            return {each.target: each.messages for each in await west.list_transmissions()} == {"north:billing": 1}

        await until(waits, "north, which has no such domain yet, is waited for by west")
        (link,) = await east.list_transmissions()

        async def has_left() -> bool:
            return (await east.get_queue(link.queue)).length == 0

        await until(has_left, "east has done its part")
        assert (link.target, link.via) == ("north:billing", "west")


async def test_x5_a_reaction_that_goes_round_ends_after_eight_managers_and_says_so(tmp_path: Path) -> None:
    known = {
        "east": Knows({"west": "west"}, ("north=west",)),
        "west": Knows({"east": "east"}, ("north=east",)),
    }
    async with running(tmp_path, known) as (east, _):
        await east.create_queue("replies")
        done = await east.react(
            "//north/orders", Where(correlation_id="c"), Cancel(), report_to="replies", forward=True
        )
        assert done.forwarded == XMIT

        async def reported() -> bool:
            return (await east.get_queue("replies")).length == 1

        await until(reported, "it is refused")
        (report,) = [each async for each in east.browse("replies")]
        assert (report.properties["tq_outcome"], report.properties["tq_dead_letter_reason"]) == (
            "REFUSED",
            "LOOP_LIMIT",
        )
        ((_, reason, origin),) = await _dead(east)
        assert (reason, origin) == ("LOOP_LIMIT", "//north/orders")


async def test_x5_two_managers_may_be_each_others_way(tmp_path: Path) -> None:
    """Names are full, so each sends on what is not for it."""
    known = {
        "east": Knows({"west": "west", "north": "north"}, ("north=west", "west=north")),
        "west": Knows({"north": "north"}),
        "north": Knows({"west": "west"}),
    }
    async with running(tmp_path, known) as (east, west, north):
        for each, name in ((west, b"west"), (north, b"north")):
            await each.create_queue("orders")
            await east.transact([], {f"//{name.decode()}/orders": [name]}, forward=True)
        await _are(west, "orders", b"west")
        await _are(north, "orders", b"north")


async def test_x2_a_link_whose_manager_nobody_knows_any_more_takes_messages_and_waits(tmp_path: Path) -> None:
    """The first message alone is refused (MANAGER_NOT_FOUND): a name may be known again."""
    with PortRange() as one, PortRange() as other:
        west_config, east_config = config_of(tmp_path, "west", other), config_of(tmp_path, "east", one)
        knows = msgspec.structs.replace(east_config, links=_links(Knows({"west": "west"}), {"west": west_config}))
        async with open_manager(west_config), aio.connect(west_config.listen_client) as west:
            await west.create_queue("orders")
            async with open_manager(knows), aio.connect(knows.listen_client) as east:
                await east.transact([], {"//west/orders": [b"1"]}, forward=True)
                await _are(west, "orders", b"1")
            async with open_manager(east_config), aio.connect(east_config.listen_client) as east:
                await east.transact([], {"//west/orders": [b"2"]}, forward=True)

                async def says_why() -> bool:
                    (link,) = await east.list_transmissions()
                    return link.why.startswith("MANAGER_NOT_FOUND") and link.messages == 1

                await until(says_why, "it waits")
            async with open_manager(knows):
                await _are(west, "orders", b"1", b"2")

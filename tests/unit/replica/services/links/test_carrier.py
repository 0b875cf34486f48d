"""What becomes of a batch for another manager of which a message was lost (X4). Real managers, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from chaos.ports import PortRange
from replica.services.links import carrier
from tandemq import Outgoing
from tandemq.client import aio
from tandemq.config import ManagerConfig, member_ports
from tandemq.config_links import Links
from tandemq.embedded import open_manager
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.support.until import until

XMIT = "SYSTEM.XMIT/west"
WRITER = "xmit/east/local@east/west"
DURABLE, VOLATILE = {"persistent": True}, {"persistent": False}
DISABLED, ENABLED = QueueConfig(enqueue_enabled=False), QueueConfig(enqueue_enabled=True)


class Managers(NamedTuple):
    """Without peers: a stop loses every volatile message. East knows where west is."""

    east: ManagerConfig
    west: ManagerConfig


@pytest.fixture
def managers(tmp_path: Path) -> Iterator[Managers]:
    with PortRange() as one, PortRange() as other:
        west = _config(tmp_path, "west", other)
        links = Links(managers=(f"west={west.listen_client}",))
        yield Managers(_config(tmp_path, "east", one, links), west)


def _config(directory: Path, member: str, ports: PortRange, links: Links | None = None) -> ManagerConfig:
    client, peer, http = (f"127.0.0.1:{port}" for port in member_ports(ports.base_port, 0))
    return ManagerConfig(
        member=member,
        data_dir=str(directory / member),
        listen_client=client,
        listen_peer=peer,
        listen_http=http,
        links=links or Links(),
    )


async def _batch_taken(managers: Managers, messages: list[Outgoing], west: aio.Client) -> str:
    """East has a batch for a queue of west that lets nothing in, and stops. Says which history its domain has."""
    await west.create_queue("orders", DISABLED)
    async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
        await east.transact([], {"//west/orders": messages}, forward=True)

        async def taken() -> str:
            found = await east.get_batches(XMIT, "xmit")
            return found.position.history_id if [each.number for each in found.batches] == [1] else ""

        return await until(taken, "the batch is leased")


async def _empty(client: aio.Client) -> bool:
    return (await client.get_queue(XMIT)).length == 0


async def _last_number(client: aio.Client) -> int:
    found = await client.writer_state(WRITER)
    return found.batch if found is not None else 0


async def _payloads(client: aio.Client) -> list[bytes]:
    return [message.payload async for message in client.browse("orders")]


@pytest.mark.slow
async def test_x4_what_is_left_of_a_batch_that_is_there_is_acknowledged(managers: Managers) -> None:
    """East died between the unit at west and its own acknowledgement, and a volatile message of the batch with it."""
    messages = [Outgoing(b"volatile", VOLATILE), Outgoing(b"durable", DURABLE)]
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        history = await _batch_taken(managers, messages, west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        await west.transact([], {"orders": messages}, writer=WRITER, number=1, query_id=history)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await until(lambda: _empty(east), "what is left is acknowledged")
            assert (await east.get_queue(XMIT)).volatile_lost_total == 1
            await east.transact([], {"//west/orders": [b"behind it"]}, forward=True)
            await until(lambda: _empty(east), "the next message is acknowledged")
        assert await _payloads(west) == [b"volatile", b"durable", b"behind it"], "each once"
        assert await _last_number(west) == 2


@pytest.mark.slow
async def test_x4_what_is_left_of_a_batch_that_is_not_there_goes_under_the_next_number(
    managers: Managers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "DOUBT_S", 0.5)  # so long it is waited for a call that may be under way
    messages = [Outgoing(b"1", DURABLE), Outgoing(b"volatile", VOLATILE), Outgoing(b"2", DURABLE)]
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await _batch_taken(managers, messages, west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await east.transact([], {"//west/orders": [Outgoing(b"3", DURABLE)]}, forward=True)
            await until(lambda: _empty(east), "everything is acknowledged")
        assert await _payloads(west) == [b"1", b"2", b"3"], "in order"
        assert await _last_number(west) >= 2


@pytest.mark.slow
async def test_x4_a_batch_of_which_nothing_is_left_is_no_obstacle(
    managers: Managers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "DOUBT_S", 0.5)
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await _batch_taken(managers, [Outgoing(b"volatile", VOLATILE)], west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await east.transact([], {"//west/orders": [b"behind it"]}, forward=True)
            await until(lambda: _empty(east), "everything is acknowledged")
        assert await _payloads(west) == [b"behind it"]
        assert await _last_number(west) == 2, "its number is not taken again"


@pytest.mark.slow
async def test_x3_a_number_of_somebody_else_of_this_name_acknowledges_nothing(
    managers: Managers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left stays until the name is free: the other one's numbers say nothing of these batches."""
    said: list[str] = []
    monkeypatch.setattr(carrier, "NOTE_S", 0.0)
    monkeypatch.setattr(carrier.Carrier, "_note", lambda _self, _text, why: said.append(why))
    messages = [Outgoing(b"volatile", VOLATILE), Outgoing(b"durable", DURABLE)]
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await _batch_taken(managers, messages, west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        await west.create_queue("theirs")
        await west.transact([], {"theirs": [b"x"]}, writer=WRITER, number=7, query_id="another history")
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await until(lambda: any("belongs to another manager" in why for why in said), "the agent has seen it")
            assert (await east.get_queue(XMIT)).length == 1
        assert await _payloads(west) == []

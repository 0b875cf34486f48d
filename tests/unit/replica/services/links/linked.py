"""Two managers in this process, and a batch that one of them has for the other. Not a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from chaos.ports import PortRange
from tandemq import Outgoing
from tandemq.client import aio
from tandemq.config import ManagerConfig, member_ports
from tandemq.config_links import Links
from tandemq.embedded import open_manager
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.support.until import until

XMIT = "SYSTEM.XMIT/west"
WRITER = "xmit/east/local@east/west"
DISABLED, ENABLED = QueueConfig(enqueue_enabled=False), QueueConfig(enqueue_enabled=True)


class Managers(NamedTuple):
    """Without peers: a stop loses every volatile message. East knows where west is."""

    east: ManagerConfig
    west: ManagerConfig


@contextmanager
def two_managers(directory: Path) -> Iterator[Managers]:
    """Not running yet."""
    with PortRange() as one, PortRange() as other:
        west = config_of(directory, "west", other)
        links = Links(managers=(f"west={west.listen_client}",))
        yield Managers(config_of(directory, "east", one, links), west)


def config_of(directory: Path, member: str, ports: PortRange, links: Links | None = None) -> ManagerConfig:
    client, peer, http = (f"127.0.0.1:{port}" for port in member_ports(ports.base_port, 0))
    return ManagerConfig(
        member=member,
        data_dir=str(directory / member),
        listen_client=client,
        listen_peer=peer,
        listen_http=http,
        links=links or Links(),
    )


async def batch_taken(managers: Managers, messages: list[Outgoing], west: aio.Client) -> str:
    """East has a batch for a queue of west that lets nothing in, and stops. Says which history its domain has."""
    await west.create_queue("orders", DISABLED)
    async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
        await east.transact([], {"//west/orders": messages}, forward=True)

        async def taken() -> str:
            found = await east.get_batches(XMIT, "xmit")
            return found.position.history_id if [each.number for each in found.batches] == [1] else ""

        return await until(taken, "the batch is leased")


async def is_empty(client: aio.Client) -> bool:
    return (await client.get_queue(XMIT)).length == 0


async def payloads(client: aio.Client) -> list[bytes]:
    return [message.payload async for message in client.browse("orders")]

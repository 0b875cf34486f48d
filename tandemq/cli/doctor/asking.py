"""Asks members, witnesses and their HTTP ports whatever the doctor wants to know, each once and for a bounded time; it
judges no answer.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import grpc
import grpc.aio
from google.protobuf.json_format import MessageToDict

from tandemq.cli.doctor.local import reachable_host
from tandemq.cli.opening import directory, open_channel
from tandemq.cli.view import CHANNEL_OPTIONS, OWN_DOMAIN, MemberView, PairView, heard, look, problem_of
from tandemq.config import ConfigError, parse_address

if TYPE_CHECKING:
    from typing import Any

    from tandemq.twin.looking import SeenTwins
    from tandemq.v1 import macro_service_pb2 as macro_pb
    from tandemq.v1 import manager_admin_service_pb2 as manager_pb
    from tandemq.v1 import queue_admin_service_pb2 as admin_pb
    from tandemq.witness.v1 import witness_service_pb2 as witness_pb

EVENTS_MAX, QUEUES_MAX, TWINS_MAX = 2_000, 1_000, 50
METRICS_BYTES_MAX = 8 << 20
MAIN = "main"


class LinkOf(NamedTuple):
    """What waits in one domain for one target."""

    domain: str  # empty: the main one
    link: admin_pb.Transmission


class Asked(NamedTuple):
    """What everybody said."""

    view: PairView
    managers: dict[str, manager_pb.GetManagerResponse]  # by member
    witnesses: dict[str, witness_pb.ListRegistersResponse | str]  # by endpoint; a text says why there is no answer
    tcp: dict[str, bool]  # addresses of the peers' own ports and of etcd: somebody takes connections there
    transmissions: tuple[LinkOf, ...] = ()  # as the masters of their domains see them
    sided: tuple[admin_pb.QueueInfo, ...] = ()  # queues with PRODUCER replication, as its master sees them
    twins: tuple[SeenTwins, ...] = ()  # what those that have ever begun have said of themselves
    macros: tuple[macro_pb.MacroQueue, ...] = ()  # of the main domain, as its master sees them


async def ask(endpoints: Sequence[str], witnesses: Sequence[str], addresses: Sequence[str], timeout_s: float) -> Asked:
    """Everything, at the same time. Raises nothing for whoever is away."""
    view, registers, tcp = await asyncio.gather(
        look(endpoints, timeout_s),
        asyncio.gather(*(_registers(each, timeout_s) for each in witnesses)),
        asyncio.gather(*(_accepts(each, timeout_s) for each in addresses)),
    )
    here = [member for member in view.members if member.reachable]
    said = await asyncio.gather(*(_manager(member.endpoint, timeout_s) for member in here))
    managers = {member.name: answer for member, answer in zip(here, said, strict=True) if answer is not None}
    return Asked(
        view,
        managers,
        dict(zip(witnesses, registers, strict=True)),
        dict(zip(addresses, tcp, strict=True)),
        await _transmissions(here[0].endpoint, _domains(here), timeout_s) if here else (),
        sided := await _sided(here[0].endpoint, timeout_s) if here else (),
        await _twins(here[0].endpoint, timeout_s) if sided else (),
        await _macros(here[0].endpoint, timeout_s) if here else (),
    )


async def _manager(endpoint: str, timeout_s: float) -> manager_pb.GetManagerResponse | None:
    from tandemq.v1 import manager_admin_service_pb2 as pb
    from tandemq.v1.manager_admin_service_pb2_grpc import ManagerAdminServiceStub

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        try:
            return await heard(ManagerAdminServiceStub(channel).GetManager(pb.GetManagerRequest(), timeout=timeout_s))
        except grpc.aio.AioRpcError:
            return None


def _domains(here: Sequence[MemberView]) -> list[str]:
    """Empty: the one that the manager takes for its main one. What each member has for itself is not asked about."""
    names = dict.fromkeys(domain.name for member in here for domain in member.domains)
    return ["", *(name for name in names if name not in (MAIN, OWN_DOMAIN))]


async def _transmissions(endpoint: str, domains: Sequence[str], timeout_s: float) -> tuple[LinkOf, ...]:
    found = await asyncio.gather(*(_transmissions_of(endpoint, domain, timeout_s) for domain in domains))
    return tuple(LinkOf(domain, each) for domain, links in zip(domains, found, strict=True) for each in links)


async def _transmissions_of(endpoint: str, domain: str, timeout_s: float) -> tuple[admin_pb.Transmission, ...]:
    from tandemq.v1 import queue_admin_service_pb2 as pb
    from tandemq.v1.queue_admin_service_pb2_grpc import QueueAdminServiceStub

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        try:
            stub = QueueAdminServiceStub(channel)
            answer = await heard(stub.ListTransmissions(pb.ListTransmissionsRequest(domain=domain), timeout=timeout_s))
        except grpc.aio.AioRpcError:
            return ()  # without a master nobody knows; the check of roles says so
    return tuple(answer.transmissions)


async def _sided(endpoint: str, timeout_s: float) -> tuple[admin_pb.QueueInfo, ...]:
    """Of the first QUEUES_MAX queues."""
    from tandemq.v1 import queue_admin_service_pb2 as pb
    from tandemq.v1.queue_admin_service_pb2_grpc import QueueAdminServiceStub

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        try:
            stub = QueueAdminServiceStub(channel)
            answer = await heard(stub.ListQueues(pb.ListQueuesRequest(page_size=QUEUES_MAX), timeout=timeout_s))
        except grpc.aio.AioRpcError:
            return ()  # as above
    return tuple(queue for queue in answer.queues if queue.sides)


async def _twins(endpoint: str, timeout_s: float) -> tuple[SeenTwins, ...]:
    """Of the first TWINS_MAX names."""
    from tandemq.client import aio
    from tandemq.errors import TandemqError
    from tandemq.twin.looking import look as look_at
    from tandemq.twin.looking import names

    try:
        async with aio.connect(
            endpoint, timeout=timeout_s, attempt_timeout=timeout_s, credentials=directory()
        ) as client:
            return tuple([await look_at(client, name) for name in (await names(client))[:TWINS_MAX]])
    except TandemqError:
        return ()  # as above


async def _macros(endpoint: str, timeout_s: float) -> tuple[macro_pb.MacroQueue, ...]:
    """The first page; each alone, for a list says nothing of tables of weights."""
    from tandemq.v1 import macro_service_pb2 as pb
    from tandemq.v1.macro_service_pb2_grpc import MacroServiceStub

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        stub = MacroServiceStub(channel)
        try:
            listed = await heard(stub.ListMacros(pb.ListMacrosRequest(), timeout=timeout_s))
            said = [
                await heard(stub.GetMacro(pb.GetMacroRequest(name=each.name), timeout=timeout_s))
                for each in listed.macros
            ]
        except grpc.aio.AioRpcError:
            return ()  # as above
    return tuple(each.macro for each in said)


async def _registers(endpoint: str, timeout_s: float) -> witness_pb.ListRegistersResponse | str:
    from tandemq.witness.v1 import witness_service_pb2 as pb
    from tandemq.witness.v1.witness_service_pb2_grpc import WitnessServiceStub

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        try:
            return await heard(WitnessServiceStub(channel).ListRegisters(pb.ListRegistersRequest(), timeout=timeout_s))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return "a gRPC server answers there, but it is no witness"
            return problem_of(error, timeout_s)


async def _accepts(address: str, timeout_s: float) -> bool:
    try:
        where = parse_address(address, "address")
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(reachable_host(where.host), where.port)
    except (OSError, ConfigError, TimeoutError):
        return False
    writer.close()
    return True


# -- for the bundle ----------------------------------------------------------------------------------------------------


async def status_of(endpoint: str, timeout_s: float) -> dict[str, Any]:
    """Everything that a member says of itself. Raises AioRpcError."""
    from tandemq.v1 import pair_service_pb2 as pb
    from tandemq.v1.pair_service_pb2_grpc import PairServiceStub

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        return as_dict(
            await heard(PairServiceStub(channel).GetPairStatus(pb.GetPairStatusRequest(), timeout=timeout_s))
        )


async def manager_of(endpoint: str, timeout_s: float) -> dict[str, Any]:
    """Its version, limits and counts. Raises AioRpcError."""
    from tandemq.v1 import manager_admin_service_pb2 as pb
    from tandemq.v1.manager_admin_service_pb2_grpc import ManagerAdminServiceStub

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        return as_dict(
            await heard(ManagerAdminServiceStub(channel).GetManager(pb.GetManagerRequest(), timeout=timeout_s))
        )


async def queues_of(endpoint: str, timeout_s: float) -> dict[str, Any]:
    """Names, attributes and counts of the first queues; no message. Raises AioRpcError."""
    from tandemq.v1 import queue_admin_service_pb2 as pb
    from tandemq.v1.queue_admin_service_pb2_grpc import QueueAdminServiceStub

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        request = pb.ListQueuesRequest(page_size=QUEUES_MAX)
        return as_dict(await heard(QueueAdminServiceStub(channel).ListQueues(request, timeout=timeout_s)))


async def events_of(endpoint: str, timeout_s: float) -> list[dict[str, Any]]:
    """The newest events of a member, oldest first. Raises AioRpcError."""
    from tandemq.v1 import pair_service_pb2 as pb
    from tandemq.v1.pair_service_pb2_grpc import PairServiceStub

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        request = pb.ListEventsRequest(limit=EVENTS_MAX)
        answer = await heard(PairServiceStub(channel).ListEvents(request, timeout=timeout_s))
    return [as_dict(event) for event in answer.events]


def as_dict(message: Any) -> dict[str, Any]:
    """As the .proto names its fields, with those that have no value."""
    found: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return found


def metrics_of(address: str, timeout_s: float, credentials: Path | None = None, name: str = "") -> bytes:
    """The page /metrics. `credentials`, `name`: where the port has TLS, the member's own, and its name in DNS. Raises
    OSError, HTTPException or ConfigError; BadCredentials.
    """
    where = parse_address(address, "listen_http")
    connection = http.client.HTTPConnection(reachable_host(where.host), where.port, timeout=timeout_s)
    try:
        if credentials is not None:
            from tandemq.credentials.files import client_context

            plain = socket.create_connection((connection.host, connection.port), timeout=timeout_s)
            connection.sock = client_context(credentials).wrap_socket(plain, server_hostname=name)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"HTTP status {answer.status}")
        return answer.read(METRICS_BYTES_MAX)
    finally:
        connection.close()

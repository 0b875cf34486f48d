"""The ports of a manager: clients, peer, HTTP, and what health checks are answered. Binds and serves; decides nothing.

A manager without listeners (`server_required = false`) is reached by `direct` alone, in its own process.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # ships no types

from replica.listen.direct import DirectServer
from replica.listen.http import HttpServer
from replica.listen.unix_socket import UnixSocket
from replica.node.members import MESSAGE_BYTES_MAX
from replica.peer.keepalive import keepalive
from replica.peer.wire import add_peer_service
from tandemq.channels import PLAIN
from tandemq.config import parse_address
from tandemq.edge.descriptors import own_limit, shares
from tandemq.edge.guard import FloodGuard
from tandemq.edge.options import EDGE_OPTIONS, bounded
from tandemq.edge.reflection import Reflection
from tandemq.errors import error_of
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from replica.listen.http_tls import HttpTls
    from replica.peer.link import PeerServicer
    from tandemq.config import ManagerConfig
    from tandemq.credentials.files import Credentials

SERVER_OPTIONS = (
    *EDGE_OPTIONS,
    ("grpc.http2.min_ping_interval_without_data_ms", 300),
    ("grpc.keepalive_time_ms", 20_000),
)
PEER_FRAME_BYTES_MAX = 32 << 20
STOP_S = 0.2
ANY = MappingProxyType({"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"})  # noqa: S104  # compared with, not bound
"""Addresses that stand for all of a machine, and one of these."""


class Served(NamedTuple):
    """What a manager offers on its ports."""

    handlers: Sequence[grpc.GenericRpcHandler]
    """For clients in this process."""
    guarded: Sequence[grpc.GenericRpcHandler]
    """The same for others, who are asked about where there are certificates."""
    peer: PeerServicer | None
    """None: there is no peer."""
    ready: Callable[[], tuple[bool, dict[str, Any]]]
    collectors: Callable[[], Sequence[Collector]]
    """Called from another thread, at the first scrape."""
    door: TokenDoor | None = None
    """What takes tokens; None: there is no port for them."""
    observes: Callable[[str], bool] = bool
    """Whether that one may read metrics, where the HTTP port asks; called from another thread."""


class TokenDoor(Protocol):
    """Stands before all that is offered at one port; see replica.services.bearer."""

    def behind(self, handler: grpc.GenericRpcHandler) -> grpc.GenericRpcHandler:
        """The same, for whoever it lets in."""
        ...


class Ports:
    """Sockets of one manager."""

    def __init__(self, config: ManagerConfig, credentials: Credentials | None = None) -> None:
        self.config = config
        self.credentials = credentials
        self.bound: dict[str, int] = {}
        """Port numbers by name, once they are open."""
        self.direct: DirectServer | None = None
        """For clients in this process."""
        self._servers: list[grpc.aio.Server] = []
        self._socket: UnixSocket | None = None
        self._http: HttpServer | None = None
        self._health: health.aio.HealthServicer | None = None
        self._guard: FloodGuard | None = None

    @property
    def own_address(self) -> str:
        """Where this process reaches its own client port, once it is open: host:port, or unix:/path."""
        if not self.config.listen_client:
            return f"unix:{self.config.listen_unix}"
        host = self.config.listen_client.rpartition(":")[0].strip("[]")
        port = self.bound.get("client", 0)
        return f"{ANY.get(host, host)}:{port}"

    async def open(self, served: Served) -> None:
        """Bind and serve. Raises TandemqError (PORT_IN_USE) for a port that somebody else has."""
        config = self.config
        self.direct = DirectServer(served.handlers)
        if not config.server_required:
            return
        room = shares(own_limit())
        to_clients = ("grpc.max_send_message_length", MESSAGE_BYTES_MAX)
        clients = _server(MESSAGE_BYTES_MAX, room.clients // self._listeners(), (*SERVER_OPTIONS, to_clients))
        clients.add_generic_rpc_handlers(list(served.guarded))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, clients)
        names = [each.service_name() for each in served.handlers if isinstance(each, grpc.ServiceRpcHandler)]
        names.append(health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        clients.add_generic_rpc_handlers([Reflection(names)])
        self._servers.append(clients)
        if served.door is not None:
            room_here = room.clients // self._listeners()
            bearers = _server(MESSAGE_BYTES_MAX, room_here, (*SERVER_OPTIONS, to_clients))
            offered = [*served.guarded, _health_handler(self._health), Reflection(names)]
            bearers.add_generic_rpc_handlers([served.door.behind(each) for each in offered])
            self.bound["bearer"] = self._bind(bearers, config.listen_bearer, asks=False)
            self._servers.append(bearers)
        if config.listen_client:
            self.bound["client"] = self._bind(clients, config.listen_client)
        if config.listen_unix:
            self._socket = UnixSocket(config.listen_unix, int(config.listen_unix_mode, 8))
            self._socket.bind(lambda address: self._bind(clients, address))
        if served.peer is not None:
            peers = _server(PEER_FRAME_BYTES_MAX, room.peer, peer_options(config.timers.lost_ms))
            add_peer_service(served.peer, peers)
            self.bound["peer"] = self._bind(peers, config.listen_peer)
            self._servers.append(peers)
        host, _, port = config.listen_http.rpartition(":")
        try:
            self._http = HttpServer(host.strip("[]"), int(port), served.ready, served.collectors, self._tls(served))
        except OSError as error:
            raise _port_error(config.listen_http, error) from error
        self.bound["http"] = self._http.port
        self._http.start()
        for server in self._servers:
            await server.start()
        self._guard = FloodGuard(port for name, port in self.bound.items() if name != "http")
        self._guard.start()

    async def report_health(self, *, master: bool, readable: bool) -> None:
        """What health checks answer from now on."""
        if self._health is None:
            return
        serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        await self._health.set("", serving)
        await self._health.set("tandemq.v1.QueueService", serving if master else not_serving)
        await self._health.set("tandemq.v1.readable", serving if readable else not_serving)

    async def close(self, grace_s: float = STOP_S) -> None:
        """Stop serving and free the ports. Calls under way may end within that time, clients' before the peer's."""
        if self._guard is not None:
            self._guard.stop()
        if self._socket is not None:
            self._socket.close()
        if self.direct is not None:
            await self.direct.close(grace_s)
        for server in self._servers:
            await server.stop(grace_s)
        if self._http is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._http.stop)
        self._servers, self._http, self._health, self._socket, self._guard = [], None, None, None, None

    def _tls(self, served: Served) -> HttpTls | None:
        """Of the HTTP port, where others reach it; on this host agents and probes speak as ever."""
        if self.credentials is None or parse_address(self.config.listen_http, "manager.listen_http").loopback:
            return None
        from replica.listen.http_tls import HttpTls  # with a library that others do without

        return HttpTls(self.credentials, served.observes)

    def _listeners(self) -> int:
        """How many sockets take clients: gRPC counts the connections of each by itself."""
        config = self.config
        by_name = 2 if config.listen_client.startswith("localhost:") else bool(config.listen_client)  # IPv4 and IPv6
        return max(1, by_name + bool(config.listen_unix) + bool(config.listen_bearer))

    def _bind(self, server: grpc.aio.Server, address: str, *, asks: bool = True) -> int:
        """`asks`: for a certificate, where this manager has one."""
        try:
            port = self._add(server, address, asks=asks)
        except RuntimeError as error:
            raise _port_error(address, error) from error
        if not port:
            raise _port_error(address, OSError(errno.EADDRINUSE, "address in use"))
        return port

    def _add(self, server: grpc.aio.Server, address: str, *, asks: bool) -> int:
        """A socket of this host stays plain: its mode says who may."""
        if self.credentials is None or address.startswith(PLAIN):
            return server.add_insecure_port(address)
        from tandemq.credentials.channels import port_credentials

        return server.add_secure_port(address, port_credentials(self.credentials, asks=asks))


def _health_handler(health_of: health.aio.HealthServicer) -> grpc.GenericRpcHandler:
    """As `add_HealthServicer_to_server` makes it, for somebody to stand before it."""
    of = (health_pb2.HealthCheckRequest.FromString, health_pb2.HealthCheckResponse.SerializeToString)
    methods = {
        "Check": grpc.unary_unary_rpc_method_handler(health_of.Check, *of),
        "Watch": grpc.unary_stream_rpc_method_handler(health_of.Watch, *of),
    }
    name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    return grpc.method_handlers_generic_handler(name, methods)


def peer_options(lost_ms: int) -> list[tuple[str, int]]:
    """Of the peer's port: either side of that connection notices in the same time that the other one is gone."""
    return list(dict((*SERVER_OPTIONS, *keepalive(lost_ms))).items())


def _server(message_bytes_max: int, connections_max: int, options: Iterable[tuple[str, int]]) -> grpc.aio.Server:
    limits = (("grpc.max_receive_message_length", message_bytes_max), bounded(connections_max))
    return grpc.aio.server(options=[*options, *limits])


def _port_error(address: str, error: Exception) -> Exception:
    name = Reason.Name(Reason.REASON_PORT_IN_USE).removeprefix("REASON_")
    return error_of(name, f"cannot listen on {address}: {error}; stop whoever uses it, or choose another port")

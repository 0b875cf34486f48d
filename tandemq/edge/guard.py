"""Ends connections that flood a gRPC port of this process; what a flood is, `tandemq.edge.waste` decides.

Once a second it asks the kernel what each connection has received, which is cheap; only where that is much it asks
gRPC (channelz, which counts anyway) what came of it. gRPC has no call that ends one connection: its socket is shut.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from tandemq.edge.waste import Account, Counted

if TYPE_CHECKING:
    from grpc_channelz.v1 import channelz_pb2  # type: ignore[import-untyped]  # ships no types

log = logging.getLogger("tandemq.edge")

LOOK_S = 1.0
SUSPECT_BYTES_PER_S = 128 << 10
"""Below it a flood costs less than a hundredth of a core, and nobody asks what it is."""
DESCRIPTORS = "/proc/self/fd"
_RECEIVED_AT = 128
"""Where tcpi_bytes_received is in struct tcp_info (linux/tcp.h, since 4.1): 8 bytes."""
_INFO_BYTES = _RECEIVED_AT + 8


class Peer(NamedTuple):
    """The other end of a connection."""

    host: str
    port: int


class FloodGuard:
    """Over the listening ports of this process. Does nothing where there is no /proc, and says so."""

    def __init__(self, ports: Iterable[int]) -> None:
        self.ports = frozenset(ports)
        self.ended = 0
        """Connections that it ended."""
        self._task: asyncio.Task[None] | None = None
        self._received: dict[Peer, int] = {}
        self._accounts: dict[Peer, Account] = {}

    def start(self) -> None:
        """Look on, in the running event loop, until `stop`."""
        if not (sys.platform == "linux" and Path(DESCRIPTORS).is_dir()):
            log.warning("floods are not ended here: there is no %s", DESCRIPTORS)
            return
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(_tell)

    def stop(self) -> None:
        """No more looks. May be repeated."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.look(LOOK_S)

    def look(self, passed_s: float) -> None:
        """Once over all connections."""
        open_now = dict(self._connections())
        before, self._received = self._received, {peer: received for peer, (_, received) in open_now.items()}
        limit = SUSPECT_BYTES_PER_S * passed_s
        suspects = {
            peer
            for peer, received in self._received.items()
            if peer in self._accounts or received - before.get(peer, 0) > limit
        }
        self._accounts = {peer: account for peer, account in self._accounts.items() if peer in self._received}
        if not suspects:
            return
        for peer, counted in self._counts(suspects):
            account = self._accounts.get(peer)
            if account is None:
                # All that it has received and no message paid for is looked at, from its first byte on.
                account = self._accounts[peer] = Account(Counted(0, 0, 0, 0, 0))
            why = account.flood(counted, passed_s)
            if why:
                self._end(peer, open_now[peer][0], why)
            elif counted.received - before.get(peer, 0) <= limit and not account.waste_bytes and not account.failed:
                del self._accounts[peer]

    def _connections(self) -> Iterator[tuple[Peer, tuple[int, int]]]:
        for name in os.listdir(DESCRIPTORS):  # noqa: PTH208  # names are wanted, not paths
            with contextlib.suppress(OSError), _borrowed(int(name)) as sock:
                here = sock.getsockname()
                if isinstance(here, tuple) and here[1] in self.ports:  # a socket file has a path for a name
                    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                    if len(info) == _INFO_BYTES:
                        [received] = struct.unpack_from("=Q", info, _RECEIVED_AT)
                        yield _peer(*sock.getpeername()[:2]), (int(name), received)

    def _counts(self, suspects: set[Peer]) -> Iterator[tuple[Peer, Counted]]:
        from grpc_channelz.v1 import channelz, channelz_pb2

        asked = channelz.ChannelzServicer
        for server in asked.GetServers(channelz_pb2.GetServersRequest(), None).server:
            more, first = True, 0
            while more:
                page = asked.GetServerSockets(
                    channelz_pb2.GetServerSocketsRequest(server_id=server.ref.server_id, start_socket_id=first), None
                )
                for ref in page.socket_ref:
                    first = ref.socket_id + 1
                    peer = _peer_of(ref.name)
                    if peer in suspects:
                        with contextlib.suppress(ValueError):  # it has gone meanwhile
                            found = asked.GetSocket(channelz_pb2.GetSocketRequest(socket_id=ref.socket_id), None)
                            yield peer, self._counted(peer, found.socket.data)
                more = not page.end and len(page.socket_ref) > 0

    def _counted(self, peer: Peer, data: channelz_pb2.SocketData) -> Counted:
        return Counted(
            self._received[peer],
            data.messages_received,
            data.streams_started,
            data.streams_succeeded,
            data.streams_failed,
        )

    def _end(self, peer: Peer, descriptor: int, why: str) -> None:
        """Unless the descriptor is another connection's by now."""
        with contextlib.suppress(OSError), _borrowed(descriptor) as sock:
            if _peer(*sock.getpeername()[:2]) == peer:
                sock.shutdown(socket.SHUT_RDWR)
                self.ended += 1
                log.warning("the connection from %s port %d is ended: %s", peer.host, peer.port, why)


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A descriptor of somebody else as a socket; it stays open. Raises OSError where it is none of TCP."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, descriptor)  # room for addresses of both families
    try:
        yield sock
    finally:
        sock.detach()


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("floods are not ended any more", exc_info=error)


def _peer(host: str, port: int) -> Peer:
    return Peer(host.removeprefix("::ffff:"), port)


def _peer_of(name: str) -> Peer:
    """From channelz' name of a socket, as `chttp2 ipv6:%5B::1%5D:4242`."""
    host, _, port = unquote(name).rpartition(":")
    host = host.partition(" ")[2].removeprefix("ipv4:").removeprefix("ipv6:").strip("[]")
    return _peer(host, int(port) if port.isdigit() else 0)


__all__ = ["FloodGuard"]

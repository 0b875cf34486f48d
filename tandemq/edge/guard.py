"""Ends connections that flood a gRPC port of this process; what a flood is, `tandemq.edge.waste` decides.

Once a second it asks the kernel what each connection has received; only where that is much it asks gRPC (channelz,
which counts anyway) what came of it. gRPC has no call that ends one connection: its socket is shut.

All of it is done in the event loop, two milliseconds at a time: a connection costs 10 to 30 us, and there may be
65,000.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from tandemq.edge.waste import Account, Counted

if TYPE_CHECKING:
    from grpc_channelz.v1 import channelz_pb2  # type: ignore[import-untyped]  # ships no types

log = logging.getLogger("tandemq.edge")

LOOK_S = 1.0
SLICE_S, PAUSE_S = 0.002, 0.006
"""The guard holds the loop for about so long, and then leaves it to the others: at most a quarter of a core."""
SUSPECT_BYTES_PER_S = 128 << 10
"""Below it a flood costs less than a hundredth of a core, and nobody asks what it is."""
WATCHED_BYTES = SUSPECT_BYTES_PER_S // 16
"""Of a connection that was suspect once: it is asked again after this many, however slowly they come."""
PAGE_SOCKETS = 50
"""That gRPC names at a time: about half a millisecond."""
DESCRIPTORS = "/proc/self/fd"
_RECEIVED_AT = 128
"""Where tcpi_bytes_received is in struct tcp_info (linux/tcp.h, since 4.1): 8 bytes."""
_INFO_BYTES = _RECEIVED_AT + 8
_RECEIVED = struct.Struct("=Q")


class Connection(NamedTuple):
    """Both ends: one remote port may have a connection to each port and each address of this machine."""

    host: str
    port: int
    here_host: str
    here_port: int


class Seen(NamedTuple):
    """Where a connection is, and what it had received."""

    descriptor: int
    received: int


@dataclass(slots=True)
class Watched:
    """A connection that was suspect once."""

    socket_id: int
    """That of channelz: finding it means to go through all sockets, asking it does not."""
    account: Account
    unasked_s: float = 0.0


class FloodGuard:
    """Over the listening ports of this process. Does nothing where there is no /proc, and says so."""

    def __init__(self, ports: Iterable[int]) -> None:
        self.ports = frozenset(ports)
        self.ended = 0
        """Connections that it ended."""
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[Connection, Seen] = {}
        self._watched: dict[Connection, Watched] = {}
        self._servers: list[int] | None = None

    def start(self) -> None:
        """Look on, in the running event loop, until `stop`; called when the servers of these ports have started."""
        if not (sys.platform == "linux" and Path(DESCRIPTORS).is_dir()):
            log.warning("floods are not ended here: there is no %s", DESCRIPTORS)
            return
        self._servers = _servers()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(_log_failure)

    def stop(self) -> None:
        """No more looks. May be repeated."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        last_s = loop.time()
        while True:
            await asyncio.sleep(max(SLICE_S, last_s + LOOK_S - loop.time()))
            passed_s, last_s = loop.time() - last_s, loop.time()
            await self.look(passed_s)

    async def look(self, passed_s: float) -> None:
        """Once over all connections."""
        turn = _Turn()
        before, self._seen = self._seen, await self._connections(turn)
        self._watched = {at: each for at, each in self._watched.items() if at in self._seen}
        for each in self._watched.values():
            each.unasked_s += passed_s
        limit = SUSPECT_BYTES_PER_S * passed_s
        suspects = []
        for connection, seen in self._seen.items():
            last, watched = before.get(connection), self._watched.get(connection)
            since_asked = seen.received - watched.account.last.received if watched is not None else 0
            if seen.received - (last.received if last is not None else 0) > limit or since_asked > WATCHED_BYTES:
                suspects.append(connection)
            if turn.is_over():
                await turn.over()
        await self._find({connection for connection in suspects if connection not in self._watched}, turn, passed_s)
        for connection in suspects:
            if connection in self._watched:
                self._judge(connection, self._watched[connection])
                await turn.over()

    def _judge(self, connection: Connection, watched: Watched) -> None:
        # What it has received is read before its messages are: no message that pays for bytes is missed.
        seen = self._seen[connection]
        received = self._received(connection, seen.descriptor)
        data = None if received is None else _socket(watched.socket_id)
        if received is None or data is None or received < watched.account.last.received:
            del self._watched[connection]  # it has gone, or it is another one between the same ends
            return
        counts = data.socket.data
        counted = Counted(
            received, counts.messages_received, counts.streams_started, counts.streams_succeeded, counts.streams_failed
        )
        why = watched.account.flood(counted, watched.unasked_s)
        watched.unasked_s = 0.0
        if why:
            self._end(connection, seen.descriptor, why)

    async def _connections(self, turn: _Turn) -> dict[Connection, Seen]:
        found: dict[Connection, Seen] = {}
        with os.scandir(DESCRIPTORS) as names:  # not a list: the loop goes on between two of them
            for name in names:
                self._add(int(name.name), found)
                if turn.is_over():
                    await turn.over()
        return found

    def _add(self, descriptor: int, found: dict[Connection, Seen]) -> None:
        """As `_borrowed`, written out: this is done for each descriptor once a second."""
        try:
            sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, descriptor)
        except OSError:
            return  # a file
        try:
            here = sock.getsockname()
            if isinstance(here, tuple) and here[1] in self.ports:  # a socket file has a path for a name
                received = _received_of(sock)
                if received is not None:
                    found[_connection(sock.getpeername(), here)] = Seen(descriptor, received)
        except OSError:
            pass  # it listens, or has just been closed
        finally:
            sock.detach()

    async def _find(self, wanted: Collection[Connection], turn: _Turn, passed_s: float) -> None:
        """Which sockets of channelz these are; they are watched from now on."""
        missing = set(wanted)
        remotes = {(each.host, each.port) for each in missing}
        if missing and self._servers is None:
            self._servers = _servers()
        for server_id in self._servers or () if missing else ():
            more, first = True, 0
            while more and missing:
                page = _page(server_id, first)
                if page is None:
                    break  # the server has been stopped
                for ref in page.socket_ref:
                    first = ref.socket_id + 1
                    if _remote_of(ref.name) in remotes and (data := _socket(ref.socket_id)) is not None:
                        connection = _connection_of(data.socket)
                        if connection in missing:
                            missing.remove(connection)
                            # All that it has received and no message paid for is looked at, from its first byte on.
                            account = Account(Counted(0, 0, 0, 0, 0))
                            self._watched[connection] = Watched(ref.socket_id, account, passed_s)
                        await turn.over()
                more = not page.end and len(page.socket_ref) > 0
                await turn.over()

    def _received(self, connection: Connection, descriptor: int) -> int | None:
        """None: the descriptor is another connection's by now, or nobody's."""
        with contextlib.suppress(OSError), _borrowed(descriptor) as sock:
            if _connection(sock.getpeername(), sock.getsockname()) == connection:
                return _received_of(sock)
        return None

    def _end(self, connection: Connection, descriptor: int, why: str) -> None:
        """Unless the descriptor is another connection's by now."""
        with contextlib.suppress(OSError), _borrowed(descriptor) as sock:
            if _connection(sock.getpeername(), sock.getsockname()) == connection:
                sock.shutdown(socket.SHUT_RDWR)
                self.ended += 1
                log.warning("the connection from %s port %d is ended: %s", connection.host, connection.port, why)


class _Turn:
    """A share of the loop: SLICE_S at a time, and PAUSE_S for everybody else."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._until_s = self._time() + SLICE_S

    def is_over(self) -> bool:
        return self._time() >= self._until_s

    async def over(self) -> None:
        """Nothing while it lasts."""
        if self.is_over():
            await asyncio.sleep(PAUSE_S)
            self._until_s = self._time() + SLICE_S


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A descriptor of somebody else as a socket; it stays open. Raises OSError where it is none of TCP."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, descriptor)  # room for addresses of both families
    try:
        yield sock
    finally:
        sock.detach()


def _received_of(sock: socket.socket) -> int | None:
    """Bytes; None where the kernel does not count them."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    return int(_RECEIVED.unpack_from(info, _RECEIVED_AT)[0]) if len(info) == _INFO_BYTES else None


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("floods are not ended any more", exc_info=error)


def _connection(there: Any, here: Any) -> Connection:
    """From the addresses that the kernel gives."""
    return Connection(_host(there[0]), there[1], _host(here[0]), here[1])


def _host(host: str) -> str:
    """One form for an IPv4 address, whichever kind of socket it came to."""
    return host.removeprefix("::ffff:")


def _connection_of(data: channelz_pb2.Socket) -> Connection:
    there, here = data.remote.tcpip_address, data.local.tcpip_address
    return Connection(_host_of(there.ip_address), there.port, _host_of(here.ip_address), here.port)


def _host_of(address: bytes) -> str:
    return (
        _host(socket.inet_ntop(socket.AF_INET6 if len(address) == 16 else socket.AF_INET, address)) if address else ""
    )


def _remote_of(name: str) -> tuple[str, int]:
    """From channelz' name of a socket, as `chttp2 ipv6:%5Bfe80::1%252%5D:4242`."""
    host, _, port = unquote(name).rpartition(":")
    host = host.partition(" ")[2].removeprefix("ipv4:").removeprefix("ipv6:").strip("[]")
    return _host(host.partition("%")[0]), int(port) if port.isdigit() else 0


class _NoCall:
    """What channelz is given instead of a call's context: it says there what it did not find, and answers None."""

    def set_code(self, code: object) -> None: ...

    def set_details(self, details: str) -> None: ...


def _servers() -> list[int]:
    """Those of channelz. The answer costs 20 us for each connection of the process: ask while there are few."""
    from grpc_channelz.v1 import channelz, channelz_pb2

    answer = channelz.ChannelzServicer.GetServers(channelz_pb2.GetServersRequest(), _NoCall())
    return [server.ref.server_id for server in answer.server]


def _page(server_id: int, first: int) -> channelz_pb2.GetServerSocketsResponse | None:
    from grpc_channelz.v1 import channelz, channelz_pb2

    request = channelz_pb2.GetServerSocketsRequest(server_id=server_id, start_socket_id=first, max_results=PAGE_SOCKETS)
    return channelz.ChannelzServicer.GetServerSockets(request, _NoCall())


def _socket(socket_id: int) -> channelz_pb2.GetSocketResponse | None:
    from grpc_channelz.v1 import channelz, channelz_pb2

    return channelz.ChannelzServicer.GetSocket(channelz_pb2.GetSocketRequest(socket_id=socket_id), _NoCall())


__all__ = ["FloodGuard"]

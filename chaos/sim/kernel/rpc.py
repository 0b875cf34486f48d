"""Calls over simulated connections: how a caller's messages travel. `chaos.sim.kernel.serving` is the other end.

What callers see is the product's own shape of grpc.aio (`replica.listen.direct`); here is what a network makes of it.
Bytes are serialised and parsed as on the wire; the end of a call comes behind its messages, but a broken connection
takes with it what was not read; who writes faster than the other side reads has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from chaos.sim.kernel.loop import CURRENT
from chaos.sim.kernel.wire import Inbox, Packet, Window
from replica.listen.direct import CallerSide, Ending, Metadata, MultiCallables

if TYPE_CHECKING:
    from chaos.sim.kernel.net import Connection, Network

CONNECT_S = 0.02
"""What a refused connection costs a caller."""
CONNECT_TIMEOUT_S = 0.5
"""How long it waits for one that is neither made nor refused: as long as the product's channels do at most."""
DIED = "the other side went away"


class Call(CallerSide):
    """One over a connection."""

    def __init__(
        self,
        channel: Channel,
        path: str,
        serialize: Callable[[Any], bytes] | None,
        parse: Callable[[bytes], Any] | None,
        metadata: Metadata,
        timeout_s: float | None,
    ) -> None:
        self._channel, self._path = channel, path
        self._inbox, self._window = Inbox(), Window()
        super().__init__(serialize, parse, self._send_when_fit, self._inbox.get)
        self.number = channel.begin(self, path, metadata, timeout_s)
        self._limit(timeout_s)

    def on_packet(self, packet: Packet) -> None:
        """What the channel says."""
        if packet.kind == "message":
            self._inbox.put(packet.data)
        elif packet.kind == "end":
            self.end(packet.data, at_once=False)

    def end(self, ending: Ending, *, at_once: bool) -> None:
        """`at_once`: what was not read is lost."""
        if self._over.done():
            return
        if self._timer is not None:
            self._timer.cancel()
        self._channel.forget(self)
        self._window.end()
        if at_once:
            self._inbox.drop()
        else:
            self._inbox.finish()
        self._over.set_result(ending)

    def give_up(self, ending: Ending) -> bool:
        if self._over.done():
            return False
        self._channel.send(self, Packet("cancel", self.number))
        self.end(ending, at_once=True)
        return True

    async def _send_when_fit(self, data: bytes) -> None:
        await self._window.take(len(data))
        self._channel.send(self, Packet("message", self.number, data, self._path))

    def ask(self, request: Any) -> None:
        data = self._serialize(request) if self._serialize is not None else request
        self._channel.send(self, Packet("message", self.number, data, self._path))
        self._half_close()

    async def done_writing(self) -> None:
        if not self._over.done() and not self._half_closed:
            self._half_close()

    def _half_close(self) -> None:
        self._half_closed = True
        self._channel.send(self, Packet("half_close", self.number))


class Channel(MultiCallables[Call]):
    """To one address. A broken connection is made again by the next call."""

    def __init__(self, network: Network, machine: str, address: str) -> None:
        self._network, self._machine, self._address = network, machine, address
        self._connection: Connection | None = None
        self._calls: dict[int, Call] = {}
        self._number = 0

    def get_state(self) -> grpc.ChannelConnectivity:
        """As of a connection that is there: names do not move here."""
        ready: grpc.ChannelConnectivity = grpc.ChannelConnectivity.READY
        return ready

    def _begin(
        self,
        path: str,
        serialize: Callable[[Any], bytes] | None,
        parse: Callable[[bytes], Any] | None,
        metadata: Metadata,
        timeout_s: float | None,
    ) -> Call:
        return Call(self, path, serialize, parse, metadata, timeout_s)

    def begin(self, call: Call, path: str, metadata: Metadata, timeout: float | None) -> int:
        """A new call goes out, over a new connection where there is none."""
        self._number += 1
        process = CURRENT.get()
        assert process is not None, "only a process can call"
        connection = self._connection
        if connection is None or connection.broken or connection.noticed[0]:
            connection = self._network.connect(self._machine, process, self._address)
            self._connection = connection
            if connection is not None:
                connection.pipes[1].on_item = self._on_item
                connection.on_broken[0] = self._on_broken
        if connection is None:
            silent = self._network.is_unreachable(self._machine, self._address)  # then nobody refuses either
            why, wait_s = ("Connection timed out", CONNECT_TIMEOUT_S) if silent else ("Connection refused", CONNECT_S)
            failed = Ending(grpc.StatusCode.UNAVAILABLE, f"failed to connect to {self._address}: {why}")
            asyncio.get_running_loop().call_later(wait_s, lambda: call.end(failed, at_once=True))
            return self._number
        self._calls[self._number] = call
        deadline_s = None if timeout is None else self._network.loop.now + timeout
        connection.pipes[0].send(Packet("open", self._number, (call._inbox, call._window), path, metadata, deadline_s))  # noqa: SLF001  # the two ends of one window
        return self._number

    def send(self, call: Call, packet: Packet) -> None:
        if self._connection is not None and call.number in self._calls:
            self._connection.pipes[0].send(packet)

    def forget(self, call: Call) -> None:
        self._calls.pop(getattr(call, "number", 0), None)

    def _on_item(self, item: object) -> None:
        assert isinstance(item, Packet)
        call = self._calls.get(item.call)
        if call is not None:
            call.on_packet(item)

    def _on_broken(self) -> None:
        calls = list(self._calls.values())
        self._connection = None
        for call in calls:
            call.end(Ending(grpc.StatusCode.UNAVAILABLE, DIED), at_once=True)

    async def close(self, grace: float | None = None) -> None:  # noqa: ARG002  # grpc.aio's signature
        """Calls under way end in CANCELLED."""
        for call in list(self._calls.values()):
            call.cancel()
        connection, self._connection = self._connection, None
        if connection is not None and not connection.noticed[0]:
            connection.shut(0)

"""Calls over simulated connections, in the shape of grpc.aio: what callers see. `chaos.sim.kernel.serving` is the other
end.

It repeats what the product relies on: bytes are serialised and parsed as on the wire; a call that is waited for and
cancelled cancels the RPC; the end of a call comes behind its messages, but a broken connection takes with it what was
not read; who writes faster than the other side reads has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from chaos.sim.kernel.loop import CURRENT
from chaos.sim.kernel.wire import Ending, Inbox, Metadata, Packet, Window

if TYPE_CHECKING:
    from chaos.sim.kernel.net import Connection, Network

CONNECT_S = 0.02
"""What a refused connection costs a caller."""
CONNECT_TIMEOUT_S = 0.5
"""How long it waits for one that is neither made nor refused: as long as the product's channels do at most."""
DIED = "the other side went away"


class Call:
    """A caller's side of one RPC."""

    def __init__(
        self,
        channel: Channel,
        path: str,
        serializer: Callable[[Any], bytes] | None,
        deserializer: Callable[[bytes], Any] | None,
        metadata: Metadata,
        timeout: float | None,
    ) -> None:
        self._channel, self._path = channel, path
        self._serialize, self._parse = serializer, deserializer
        self._inbox = Inbox()
        self._window = Window()
        self.ending: Ending | None = None
        """Known to this side, which may be before the messages in front of it are read."""
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._half_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self.number = channel.begin(self, path, metadata, timeout)
        if timeout is not None and self.ending is None:
            late = Ending(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            self._timer = asyncio.get_running_loop().call_later(max(0.0, timeout), self._give_up, late)

    # -- what the channel says -----------------------------------------------------------------------------------------

    def on_packet(self, packet: Packet) -> None:
        if packet.kind == "message":
            self._inbox.put(packet.data)
        elif packet.kind == "end":
            self.end(packet.data, at_once=False)

    def end(self, ending: Ending, *, at_once: bool) -> None:
        """`at_once`: what was not read is lost."""
        if self.ending is not None:
            return
        self.ending = ending
        if self._timer is not None:
            self._timer.cancel()
        self._channel.forget(self)
        self._window.end()
        if at_once:
            self._inbox.drop()
        else:
            self._inbox.finish()
        if not self._over.done():
            self._over.set_result(None)

    def _give_up(self, ending: Ending) -> None:
        if self.ending is None:
            self._channel.send(self, Packet("cancel", self.number))
            self.end(ending, at_once=True)

    # -- what a caller says --------------------------------------------------------------------------------------------

    def done(self) -> bool:
        return self.ending is not None

    def cancelled(self) -> bool:
        return self.ending is not None and self.ending.code is grpc.StatusCode.CANCELLED

    def cancel(self) -> bool:
        """See grpc.aio: the server is told, this side is over at once."""
        if self.ending is not None:
            return False
        self._give_up(Ending(grpc.StatusCode.CANCELLED, "Locally cancelled by application!"))
        return True

    async def write(self, message: Any) -> None:
        """See grpc.aio: raises InvalidStateError when the call is over."""
        if self.ending is not None or self._half_closed:
            raise asyncio.InvalidStateError("RPC already finished.")
        data = self._serialize(message) if self._serialize is not None else message
        try:
            await self._window.take(len(data))
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self.done():
            self._raise_for_status()
        self._channel.send(self, Packet("message", self.number, data, self._path))

    def send_only(self, request: Any) -> None:
        """The one request of a unary call; it waits for no room."""
        data = self._serialize(request) if self._serialize is not None else request
        self._channel.send(self, Packet("message", self.number, data, self._path))
        self._half_closed = True
        self._channel.send(self, Packet("half_close", self.number))

    async def done_writing(self) -> None:
        if self.ending is None and not self._half_closed:
            self._half_closed = True
            self._channel.send(self, Packet("half_close", self.number))

    async def read(self) -> Any:
        """The next message, or EOF; raises AioRpcError when the call failed."""
        try:
            data = await self._inbox.get()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if data is None:
            await self._ended()
            self._raise_for_status()
            return grpc.aio.EOF
        return self._parse(data) if self._parse is not None else data

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    async def reply(self) -> Any:
        """Of a unary call."""
        data = await self.read()
        if data is grpc.aio.EOF:
            raise _error(Ending(grpc.StatusCode.INTERNAL, "no reply"))
        return data

    async def code(self) -> grpc.StatusCode:
        return (await self._ended()).code

    async def details(self) -> str:
        return (await self._ended()).details

    async def trailing_metadata(self) -> Metadata:
        return (await self._ended()).trailers

    async def _ended(self) -> Ending:
        if self.ending is None:
            await asyncio.shield(self._over)
        assert self.ending is not None
        return self.ending

    def _raise_for_status(self) -> None:
        assert self.ending is not None
        if self.ending.code is grpc.StatusCode.CANCELLED and self.ending.details.startswith("Locally"):
            raise asyncio.CancelledError
        if self.ending.code is not grpc.StatusCode.OK:
            raise _error(self.ending)


def _error(ending: Ending) -> grpc.aio.AioRpcError:
    trailers = grpc.aio.Metadata(*ending.trailers)
    return grpc.aio.AioRpcError(ending.code, grpc.aio.Metadata(), trailers, ending.details, ending.details)


class Channel:
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

    def _multi(self, path: str, serializer: Any, deserializer: Any) -> Callable[..., Call]:
        def call(_requests: object = None, *, metadata: Metadata | None = None, timeout: float | None = None) -> Call:
            return Call(self, path, serializer, deserializer, tuple(metadata or ()), timeout)

        return call

    def stream_stream(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: object
    ) -> Callable[..., Call]:
        return self._multi(path, request_serializer, response_deserializer)

    def unary_stream(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: object
    ) -> Callable[..., Call]:
        opened = self._multi(path, request_serializer, response_deserializer)

        def call(request: Any, *, metadata: Metadata | None = None, timeout: float | None = None) -> Call:
            made = opened(metadata=metadata, timeout=timeout)
            made.send_only(request)
            return made

        return call

    def unary_unary(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: object
    ) -> Callable[..., Any]:
        streamed = self.unary_stream(path, request_serializer, response_deserializer)

        async def call(request: Any, *, metadata: Metadata | None = None, timeout: float | None = None) -> Any:
            made = streamed(request, metadata=metadata, timeout=timeout)
            try:
                return await made.reply()
            finally:
                made.cancel()

        return call

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

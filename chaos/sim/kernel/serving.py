"""Calls over simulated connections, in the shape of grpc.aio: what handlers see. `chaos.sim.kernel.rpc` is the other
end.

A handler whose caller is gone is cancelled. One that fails answers UNKNOWN, and the run hears of it: no handler may
fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from chaos.sim.kernel.loop import CURRENT
from chaos.sim.kernel.wire import Inbox, Packet, Window
from replica.listen.direct import Ending, Handlers, Metadata, handle
from tandemq.credentials.caller import SHOWN

if TYPE_CHECKING:
    from chaos.sim.kernel.net import Connection, Network, Pipe


class Aborted(grpc.aio.AbortError):
    """A handler has ended its call."""


class Context:
    """A handler's side of one RPC."""

    def __init__(self, served: ServedConnection, packet: Packet) -> None:
        self._served = served
        self._number, self._path = packet.call, packet.path
        self._metadata = packet.metadata
        self._deadline_s = packet.deadline_s
        self._details = ""
        self.inbox = Inbox()
        self.serialize: Callable[[Any], bytes] | None = None
        self.parse: Callable[[bytes], Any] | None = None
        client_inbox, client_window = packet.data
        self._window = Window()
        client_inbox.on_read = self._window.give
        self.inbox.on_read = client_window.give
        self.over = self.is_dropped = False
        if served.who:  # else it is a plain connection, which has no such method
            self.auth_context = lambda: {SHOWN: [served.who.encode()]}

    async def read(self) -> Any:
        data = await self.inbox.get()
        if data is None:
            return grpc.aio.EOF
        return self.parse(data) if self.parse is not None else data

    async def write(self, message: Any) -> None:
        if self.is_dropped:
            raise asyncio.CancelledError  # its task was cancelled as its answer came: nobody is there to hear it
        if self.over:
            raise asyncio.InvalidStateError("RPC already finished.")
        data = self.serialize(message) if self.serialize is not None else message
        await self._window.take(len(data))
        self._served.send(Packet("message", self._number, data, self._path))

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> None:
        self.end(Ending(code, details, tuple(trailing_metadata)))
        raise Aborted("Locally aborted.")

    def end(self, ending: Ending) -> None:
        if not self.over:
            self.over = True
            self._details = ending.details
            self._window.end()
            self._served.send(Packet("end", self._number, ending))

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def time_remaining(self) -> float | None:
        if self._deadline_s is None:
            return None
        return max(0.0, self._deadline_s - asyncio.get_running_loop().time())

    def peer(self) -> str:
        return self._served.peer

    def details(self) -> str:
        return self._details

    def drop(self) -> None:
        """The caller is gone."""
        self.over = self.is_dropped = True
        self._window.end()
        self.inbox.drop()


class ServedConnection:
    """One connection at its server."""

    def __init__(self, server: Server, connection: Connection) -> None:
        self._server = server
        self._pipe: Pipe = connection.pipes[1]
        self.peer = f"sim:{connection.client.name}"
        self.who = server.network.who(connection.client.name)
        self._calls: dict[int, tuple[Context, asyncio.Task[None]]] = {}
        connection.pipes[0].on_item = self._on_item
        connection.on_broken[1] = self._on_broken

    def send(self, packet: Packet) -> None:
        self._pipe.send(packet)

    def _on_item(self, item: object) -> None:
        assert isinstance(item, Packet)
        if item.kind == "open":
            context = Context(self, item)
            loop = self._server.network.loop
            task = loop.spawn(self._server.process, self._serve(context, item), item.path)
            self._calls[item.call] = (context, task)
            return
        found = self._calls.get(item.call)
        if found is None:
            return
        context, task = found
        if item.kind == "message":
            context.inbox.put(item.data)
        elif item.kind == "half_close":
            context.inbox.finish()
        elif item.kind == "cancel":
            self._cancel(item.call, context, task)

    def _cancel(self, number: int, context: Context, task: asyncio.Task[None]) -> None:
        self._calls.pop(number, None)
        context.drop()
        task.cancel()

    def _on_broken(self) -> None:
        for number, (context, task) in list(self._calls.items()):
            self._cancel(number, context, task)

    async def _serve(self, context: Context, packet: Packet) -> None:
        try:
            await self._server.handle(context, packet.path)
            context.end(Ending(grpc.StatusCode.OK, ""))
        except grpc.aio.AbortError:
            pass
        except asyncio.CancelledError:
            context.drop()
            raise
        except Exception as error:  # a handler's failure is its caller's answer, as in grpc
            self._server.problems.append(f"{packet.path} failed: {error!r}")
            context.end(Ending(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}"))
        finally:
            self._calls.pop(packet.call, None)


class Server:
    """Handlers behind one address, in the process that made it."""

    def __init__(self, network: Network, machine: str) -> None:
        process = CURRENT.get()
        assert process is not None, "only a process can serve"
        self.network, self.machine, self.process = network, machine, process
        self.problems: list[str] = network.loop.problems
        self._handlers = Handlers()

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._handlers.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """They are generic handlers too."""

    def listen(self, address: str) -> None:
        """From now on."""

        def accept(connection: Connection) -> None:
            ServedConnection(self, connection)

        self.network.listeners[address] = (self.machine, self.process, accept)

    async def handle(self, context: Context, path: str) -> None:
        """Run the handler of one call."""
        handler = self._handlers.find(path)
        if handler is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"no method {path}")
            return
        context.parse, context.serialize = handler.request_deserializer, handler.response_serializer
        await handle(handler, context)

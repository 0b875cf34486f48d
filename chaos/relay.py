"""A TCP relay that hurts what passes through it: silence, delay, throttle, reset, refusal. It never looks at a byte.

Silence holds bytes back and loses none, as a network does for as long as TCP repeats itself: after `heal` they arrive,
if both ends still want them. So a relay never makes a stream that no network could make. While a relay is silent it
still accepts, as the port of a frozen process does; `refuse` makes it the port of a process that is gone.

Relays live on a thread of their own, so that a busy test delays nobody. Every method may be called from any thread and
returns when the fault is in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, Self

CHUNK_BYTES = 64 << 10
QUEUED_CHUNKS_MAX = 64  # of one direction, on their way: beyond it the sender feels the delay as a full window
COMMAND_S = 5.0
_LINGER_RST = struct.pack("ii", 1, 0)  # close sends a reset instead of the orderly end


class Way(Enum):
    """A direction, as seen from whoever dialled the relay."""

    TO_TARGET = "to target"
    FROM_TARGET = "from target"


BOTH_WAYS = (Way.TO_TARGET, Way.FROM_TARGET)


@dataclass(slots=True)
class Flow:
    """What one direction does to bytes."""

    delay_s: float = 0.0
    bytes_per_s: float = 0.0  # 0: as fast as it goes
    open: asyncio.Event = field(default_factory=asyncio.Event)  # cleared: silence


class Connection:
    """One accepted connection and the one to the target that goes with it."""

    def __init__(self, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.flows = {way: Flow() for way in BOTH_WAYS}
        for flow in self.flows.values():
            flow.open.set()
        self._relay, self._reader, self._writer = relay, reader, writer
        self._writers = [writer]
        self._over = asyncio.Event()

    async def run(self, host: str, port: int) -> None:
        """Carries bytes until both directions have ended, or the connection is reset."""
        try:
            reader, writer = await asyncio.open_connection(host, port)
        except OSError:
            self.reset()
            return
        self._writers.append(writer)
        pumps = [
            asyncio.create_task(self._pump(Way.TO_TARGET, self._reader, writer)),
            asyncio.create_task(self._pump(Way.FROM_TARGET, reader, self._writer)),
        ]
        over = asyncio.create_task(self._over.wait())
        try:
            over.add_done_callback(lambda _: [pump.cancel() for pump in pumps])
            await asyncio.gather(*pumps)
        except (OSError, asyncio.CancelledError):
            self.reset()  # one side is gone, or this relay is: so is the other side
        finally:
            for task in (*pumps, over):
                task.cancel()
            await asyncio.gather(*pumps, over, return_exceptions=True)
            for each in self._writers:
                each.close()

    def reset(self) -> None:
        """Both ends see a reset, now."""
        for writer in self._writers:
            sock = writer.get_extra_info("socket")
            if sock is not None and not writer.is_closing():
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RST)
            writer.transport.abort()
        self._over.set()

    async def _pump(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction. The queue between reading and writing keeps one chunk's delay out of the next one's."""
        loop, chunks = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes | None]](QUEUED_CHUNKS_MAX)

        async def read() -> None:
            data: bytes | None = b"-"
            while data:
                try:
                    data = await reader.read(CHUNK_BYTES)
                except OSError:
                    data = None  # a reset travels like bytes do: silence holds it back
                await chunks.put((loop.time(), data))

        reading = asyncio.create_task(read())
        try:
            while True:
                read_at, data = await chunks.get()
                for flow in (self._relay.flows[way], self.flows[way]):
                    await asyncio.sleep(read_at + flow.delay_s - loop.time())
                    if flow.bytes_per_s and data:
                        await asyncio.sleep(len(data) / flow.bytes_per_s)
                    await flow.open.wait()
                if data is None:
                    raise ConnectionResetError
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


class Relay:
    """One port that leads to a target. Made by `Relays.open`; starts healthy."""

    def __init__(self, relays: Relays, listen: str, target: str) -> None:
        self.listen, self.target = listen, target
        self.flows = {way: Flow() for way in BOTH_WAYS}
        self._relays = relays
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._connections)

    # -- faults ----------------------------------------------------------------------------------------------------

    def silence(self, *ways: Way) -> None:
        """Carries nothing this way (both when none is named), on old connections and on new ones."""
        self._relays.do(self._silence(ways or BOTH_WAYS))

    def delay(self, delay_s: float, *ways: Way) -> None:
        """Every byte arrives so much later."""
        self._relays.do(self._shape(ways or BOTH_WAYS, "delay_s", delay_s))

    def throttle(self, bytes_per_s: float, *ways: Way) -> None:
        """No more than so many bytes a second, each connection for itself."""
        self._relays.do(self._shape(ways or BOTH_WAYS, "bytes_per_s", bytes_per_s))

    def reset(self) -> None:
        """Every connection that is open breaks with a reset."""
        self._relays.do(self._reset())

    def silence_open(self, *ways: Way) -> None:
        """Carries nothing on the connections that are open now; a new one is healthy."""
        self._relays.do(self._silence_open(ways or BOTH_WAYS))

    def refuse(self) -> None:
        """Resets what is open, and nobody listens here any more."""
        self._relays.do(self._refuse())

    def heal(self) -> None:
        """Takes every fault back; what was held arrives."""
        self._relays.do(self._heal())

    # -- on the thread of the relays -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listens. Raises OSError when the port is taken."""
        for flow in self.flows.values():
            flow.open.set()
        await self._listen()

    async def stop(self) -> None:
        """Ends everything."""
        await self._refuse()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self) -> None:
        if self._server is None:
            host, port = _address(self.listen)
            self._server = await asyncio.start_server(self._accept, host, port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        self._connections.add(connection)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await connection.run(*_address(self.target))
        finally:
            self._connections.discard(connection)
            self._tasks.discard(task)

    async def _silence(self, ways: tuple[Way, ...]) -> None:
        for way in ways:
            self.flows[way].open.clear()

    async def _shape(self, ways: tuple[Way, ...], name: str, value: float) -> None:
        for way in ways:
            setattr(self.flows[way], name, value)

    async def _reset(self) -> None:
        for connection in list(self._connections):
            connection.reset()

    async def _silence_open(self, ways: tuple[Way, ...]) -> None:
        for connection in self._connections:
            for way in ways:
                connection.flows[way].open.clear()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._reset()

    async def _heal(self) -> None:
        for flows in (self.flows, *(connection.flows for connection in self._connections)):
            for flow in flows.values():
                flow.delay_s = flow.bytes_per_s = 0.0
                flow.open.set()
        await self._listen()


class Relays:
    """The thread that relays live on. `with Relays() as relays: relays.open(...)`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._relays: list[Relay] = []
        self._started = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        self._thread.start()
        self._started = True

    def open(self, listen: str, target: str, name: str = "") -> Relay:
        """A relay from one host:port to another; listens when it returns. Raises OSError when the port is taken."""
        del name  # ours have none
        relay = Relay(self, listen, target)
        self.do(relay.start())
        self._relays.append(relay)
        return relay

    @property
    def ended(self) -> str:
        """Ours are as alive as this process."""
        return ""

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs it on the thread of the relays and waits for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(COMMAND_S)

    def close(self) -> None:
        """Ends all relays and the thread. May be repeated."""
        if not self._started:
            return
        self._started = False
        for relay in self._relays:
            self.do(relay.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(COMMAND_S)
        self._loop.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)

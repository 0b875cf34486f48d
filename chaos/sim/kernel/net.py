"""The network between simulated processes: connections that keep order, delay, hold back, and break; it reads no frame.

As TCP does: inside one connection what arrives, arrives in order and once. What a cut direction holds back arrives
when it is open again, unless the connection broke meanwhile. A connection that breaks takes with it what had not
arrived, from any byte on, and each side hears of it in its own time, or (half-open) only by its own keepalive.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from math import log
from zlib import adler32, crc32

from chaos.sim.kernel.loop import Event, Process, SimLoop

KEEPALIVE_S, KEEPALIVE_SPREAD_S = 1.5, 0.5
"""A client notices that the other side is silent after this and a random part of that (our channels' options)."""
SERVER_KEEPALIVE_S = 25.0
PEER_KEEPALIVE_S = KEEPALIVE_S + KEEPALIVE_SPREAD_S / 2
"""A member's peer port looks at who called as closely as a caller at who was called (`replica.peer.keepalive`)."""


class Direction:
    """What travels from one machine to another."""

    __slots__ = ("cut", "cuts", "hostile_s", "mean_s", "name", "source", "stream", "tail", "target")

    def __init__(self, source: str, target: str, stream: random.Random, mean_s: float) -> None:
        self.source, self.target = source, target
        self.name = f"{source}>{target}".encode()
        self.stream = stream
        self.mean_s = mean_s
        self.tail = 0.005
        """Share of packets that take 60 times as long."""
        self.cut = False
        self.cuts = 0
        """How often it was cut: a keepalive that fires asks whether it is still the same cut."""
        self.hostile_s = 0.0
        """Up to this much more for each packet, while the network is bad."""

    def delay_s(self) -> float:
        """Of the next packet."""
        draw = self.stream.random
        delay = 0.00005 - self.mean_s * log(1.0 - draw())
        if draw() < self.tail:
            delay *= 60
        return delay + self.hostile_s * draw() if self.hostile_s else delay


class Pipe:
    """One direction of one connection."""

    __slots__ = ("arrives_at", "connection", "direction", "held", "on_item", "open", "owner", "torn", "travelling")

    def __init__(self, connection: Connection, direction: Direction, owner: Process) -> None:
        self.connection = connection
        self.direction = direction
        self.owner = owner
        """The process that receives."""
        self.on_item: Callable[[object], None] = lambda _item: None
        self.arrives_at = 0.0
        self.held: deque[object] = deque()
        self.travelling: deque[tuple[Event, object]] = deque()
        self.open = True
        self.torn = False
        """Something that was sent may be gone: nothing that is sent behind it arrives, though its sender goes on."""

    def send(self, item: object) -> None:
        """It arrives behind everything that was sent before it, or never."""
        if not self.open:
            return
        network = self.connection.network
        if network.on_item is not None:
            network.on_item("sent", self, item)
        if self.torn:
            network.report("lost", self, item)
        elif self.direction.cut:
            self.held.append(item)
        else:
            self._launch(item)

    def _launch(self, item: object) -> None:
        loop = self.connection.network.loop
        at = loop.now + self.direction.delay_s()
        if at < self.arrives_at:
            at = self.arrives_at
        else:
            self.arrives_at = at
        self.travelling.append((loop.at(at, self.owner, self._arrive, item), item))

    def _arrive(self, item: object) -> None:
        self.travelling.popleft()
        if self.open:
            self.connection.network.note(self, item)
            self.on_item(item)
        else:
            self.connection.network.report("lost", self, item)

    def release(self) -> None:
        """The direction is open again."""
        held, self.held = self.held, deque()
        for item in held:
            self._launch(item)

    def lose(self, kept: int) -> None:
        """All but the first items under way are gone; nothing more is taken."""
        self.torn = True
        for event, item in list(self.travelling)[kept:]:
            event.cancel()
            self.connection.network.report("lost", self, item)
        while len(self.travelling) > kept:
            self.travelling.pop()
        self.lose_held()

    def lose_held(self) -> None:
        """What the cut has held back is gone."""
        held, self.held = self.held, deque()
        for item in held:
            self.connection.network.report("lost", self, item)


class Connection:
    """Between a client's process and a server's. `on_broken(side)` is called for each side once: 0 client, 1 server."""

    __slots__ = (
        "address",
        "broken",
        "client",
        "network",
        "noticed",
        "on_broken",
        "pipes",
        "server",
        "server_keepalive_s",
    )

    def __init__(self, network: Network, client: Process, server: Process, out: Direction, back: Direction) -> None:
        self.server_keepalive_s = SERVER_KEEPALIVE_S
        self.address = ""
        """That its client asked for."""
        self.network = network
        self.client, self.server = client, server
        self.pipes = (Pipe(self, out, server), Pipe(self, back, client))
        """To the server, to the client."""
        self.on_broken: list[Callable[[], None]] = [_nothing, _nothing]
        self.noticed = [False, False]
        self.broken = False

    def shut(self, side: int) -> None:
        """One side closes it, or its process ended: the other one hears, as far as its machine can be reached.

        What that side had sent before still arrives.
        """
        self.noticed[side] = True
        self.broken = True
        self.network.forget(self)
        self.pipes[1 - side].open = False  # nothing is read on the closing side any more
        pipe = self.pipes[side]
        self._end_after(pipe, 1 - side)

    def reset(self, chance: random.Random) -> None:
        """It breaks in the middle, at any byte; each side hears in its own time."""
        self.broken = True
        self.network.forget(self)
        for pipe in self.pipes:
            pipe.lose(chance.randrange(len(pipe.travelling) + 1))
        loop = self.network.loop
        for side in (0, 1):
            owner = self.server if side else self.client
            after = max(self.pipes[1 - side].arrives_at if self.pipes[1 - side].travelling else 0.0, loop.now)
            loop.at(after + chance.choice((0.0005, 0.005, 0.1, 0.6)) * chance.random(), owner, self._notice, side)

    def go_silent(self) -> None:
        """Something between the machines has forgotten it (half-open): nothing arrives, and nobody hears of that."""
        self.broken = True
        self.network.forget(self)
        for pipe in self.pipes:
            pipe.lose(0)
            pipe.open = False
        loop, stream = self.network.loop, self.pipes[0].direction.stream
        loop.at(loop.now + KEEPALIVE_S + KEEPALIVE_SPREAD_S * stream.random(), self.client, self._notice, 0)
        loop.at(loop.now + self.server_keepalive_s, self.server, self._notice, 1)

    def _end_after(self, pipe: Pipe, side: int) -> None:
        """The end travels behind what was sent; where it cannot travel, keepalive finds out in the end."""
        loop = self.network.loop
        owner = self.server if side else self.client
        if pipe.direction.cut:
            pipe.lose_held()
            wait_s = (
                KEEPALIVE_S + KEEPALIVE_SPREAD_S * pipe.direction.stream.random()
                if side == 0
                else self.server_keepalive_s
            )
            loop.at(loop.now + wait_s, owner, self._notice, side)
        else:
            at = max(loop.now + pipe.direction.delay_s(), pipe.arrives_at)
            loop.at(at, owner, self._notice, side)

    def _notice(self, side: int) -> None:
        if not self.noticed[side]:
            self.noticed[side] = True
            self.pipes[1 - side].open = False
            self.pipes[side].open = False
            self.on_broken[side]()

    def keepalive(self, side: int, cuts: tuple[int, int]) -> None:
        """Its pings have not been answered: unless it could hear the other side meanwhile, it gives up."""
        same = (self.pipes[0].direction.cuts, self.pipes[1].direction.cuts) == cuts
        other = self.client if side else self.server
        silent = self.pipes[0].direction.cut or self.pipes[1].direction.cut or _is_stopped(other)
        if self.broken or not same or not silent or self.noticed[side]:
            return
        self._notice(side)
        self.broken = True
        self.network.forget(self)
        self._end_after(self.pipes[side], 1 - side)


class Network:
    """All machines, and who listens where."""

    def __init__(self, loop: SimLoop, stream: Callable[[str], random.Random], mean_s: float) -> None:
        self.loop = loop
        self.stream = stream
        self.mean_s = mean_s
        self.directions: dict[tuple[str, str], Direction] = {}
        self.peer_ports: set[str] = set()
        """Addresses whose server pings as often as their callers do."""
        self.listeners: dict[str, tuple[str, Process, Callable[[Connection], None]]] = {}
        """Address: machine, process, who takes a new connection."""
        self.machines: dict[str, str] = {}
        """Address: its machine, whether or not anybody listens."""
        self.moved: dict[tuple[str, str], str] = {}
        """Machine and address: the address that it reaches instead."""
        self.who: Callable[[str], str] = lambda _process: ""
        """Whose certificate a process has; empty: connections are plain."""
        self.dark: set[str] = set()
        """Machines without power."""
        self.connections: list[Connection] = []
        self.digest = 0
        """Of everything that arrived, in order."""
        self.arrived = 0
        self.on_arrived: Callable[[Pipe, object], None] = lambda _pipe, _item: None
        """Called with everything, for the coverage."""
        self.on_item: Callable[[str, Pipe, object], None] | None = None
        """Called with ("sent", "arrived" or "lost", pipe, item) when somebody keeps the story."""

    def direction(self, source: str, target: str) -> Direction:
        """Made when first asked for, with a stream of its own."""
        found = self.directions.get((source, target))
        if found is None:
            found = Direction(source, target, self.stream(f"link {source}>{target}"), self.mean_s)
            self.directions[source, target] = found
        return found

    def connect(self, machine: str, client: Process, address: str) -> Connection | None:
        """A connection, or None where nobody listens. Whether the way is open shows only by what travels."""
        listener = self.listeners.get(self.moved.get((machine, address), address))
        if listener is None:
            return None
        target, server, accept = listener
        connection = Connection(self, client, server, self.direction(machine, target), self.direction(target, machine))
        connection.address = address
        if address in self.peer_ports:
            connection.server_keepalive_s = PEER_KEEPALIVE_S
        self.connections.append(connection)
        accept(connection)
        if self.is_silent(connection):
            self._watch(connection)
        return connection

    def is_unreachable(self, machine: str, address: str) -> bool:
        """No packet of a connection that is to be made gets there and back."""
        target = self.machines.get(self.moved.get((machine, address), address), "")
        return target in self.dark or self.direction(machine, target).cut or self.direction(target, machine).cut

    def is_silent(self, connection: Connection) -> bool:
        stopped = _is_stopped(connection.server) or _is_stopped(connection.client)
        return connection.pipes[0].direction.cut or connection.pipes[1].direction.cut or stopped

    def cut(self, source: str, target: str) -> None:
        """Nothing gets through in that direction."""
        direction = self.direction(source, target)
        if direction.cut:
            return
        direction.cut = True
        direction.cuts += 1
        for connection in list(self.connections):
            for pipe in connection.pipes:
                if pipe.direction is direction:
                    # What is on its way has not arrived: it is held back with the rest.
                    for event, item in pipe.travelling:
                        event.cancel()
                        pipe.held.append(item)
                    pipe.travelling.clear()
                    self._watch(connection)

    def heal(self, source: str, target: str) -> None:
        """It gets through again."""
        direction = self.direction(source, target)
        if not direction.cut:
            return
        direction.cut = False
        for connection in list(self.connections):
            for pipe in connection.pipes:
                if pipe.direction is direction:
                    pipe.release()

    def move(self, machine: str, address: str, to: str, chance: random.Random) -> None:
        """That machine reaches another one at that address; empty: its own again. What is open there breaks."""
        if to:
            self.moved[machine, address] = to
        else:
            self.moved.pop((machine, address), None)
        for connection in list(self.connections):
            if connection.address == address and connection.pipes[0].direction.source == machine:
                connection.reset(chance)

    def on_pause(self, process: Process) -> None:
        """Its machine still takes packets; nobody in it answers."""
        for connection in list(self.connections):
            if process in (connection.server, connection.client):
                self._watch(connection)

    def on_death(self, process: Process, *, silently: bool = False) -> None:
        """Its machine ends its connections; `silently`: the machine went with it, and says nothing."""
        for address in [at for at, (_, owner, _) in self.listeners.items() if owner is process]:
            del self.listeners[address]
        for connection in list(self.connections):
            if process not in (connection.client, connection.server):
                continue
            side = 0 if connection.client is process else 1
            if silently:
                connection.pipes[0].lose(0)
                connection.pipes[1].lose(0)
                connection.noticed[side] = True
                connection.broken = True
                self.forget(connection)
                other = connection.client if side else connection.server
                direction = connection.pipes[side].direction
                wait_s = KEEPALIVE_S + KEEPALIVE_SPREAD_S * direction.stream.random()
                self.loop.at(self.loop.now + (wait_s if side else 4 * wait_s), other, connection._notice, 1 - side)  # noqa: SLF001
            else:
                connection.shut(side)

    def _watch(self, connection: Connection) -> None:
        cuts = (connection.pipes[0].direction.cuts, connection.pipes[1].direction.cuts)
        wait_s = KEEPALIVE_S + KEEPALIVE_SPREAD_S * connection.pipes[0].direction.stream.random()
        self.loop.at(self.loop.now + wait_s, connection.client, connection.keepalive, 0, cuts)
        self.loop.at(self.loop.now + connection.server_keepalive_s, connection.server, connection.keepalive, 1, cuts)

    def between(self, one: str, other: str) -> list[Connection]:
        """Every connection of those two machines, oldest first."""
        ends = {one, other}
        return [
            made
            for made in self.connections
            if {made.pipes[0].direction.source, made.pipes[0].direction.target} == ends
        ]

    def forget(self, connection: Connection) -> None:
        """It is over."""
        if connection in self.connections:
            self.connections.remove(connection)

    def note(self, pipe: Pipe, item: object) -> None:
        """It has arrived."""
        self.arrived += 1
        data = getattr(item, "data", None)
        if type(data) is not bytes:
            data = b""
        # Not their order: protobuf writes the keys of a map as they lie in memory, which differs between two processes.
        # The lower half of this checksum is their sum, which does not hang on it.
        added_up = adler32(data) & 0xFFFF
        seen = b"%s %d %d %d" % (pipe.direction.name, int(self.loop.now * 1e6), len(data), added_up)
        self.digest = crc32(seen, self.digest)
        self.on_arrived(pipe, item)
        if self.on_item is not None:
            self.on_item("arrived", pipe, item)

    def report(self, what: str, pipe: Pipe, item: object) -> None:
        """To whoever keeps the story."""
        if self.on_item is not None:
            self.on_item(what, pipe, item)


def _is_stopped(process: Process) -> bool:
    """None of its threads runs."""
    return process.paused and not process.hung


def _nothing() -> None:
    """Nobody hears of it."""

"""A whole pair and a client of it in one process, on virtual time: what is done is the same at each run.

The managers, their services, sessions and loops, the SDK and the stores (LMDB, synced) are the product's own. The
simulator stands in for what has a time of its own: the event loop, threads, and gRPC between the processes.
"""

from __future__ import annotations

import gc
import random
from asyncio.events import _set_running_loop as _enter
from collections.abc import Callable, Coroutine
from heapq import heappop
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from chaos.sim.kernel.disk import Disk
from chaos.sim.kernel.environment import Machine, SimAmbient, SimMachineAccess
from chaos.sim.kernel.judging import Judging, Oracle
from chaos.sim.kernel.loop import CURRENT, Process, SimLoop
from chaos.sim.kernel.net import Direction, Network, Pipe
from chaos.sim.kernel.rpc import Channel
from chaos.sim.pair.member import config_of
from failover.authority import MemoryAuthority, MemoryRegisters
from failover.marks import DataMark
from replica.manager import Manager
from storage.disk import open_disk
from tandemq import aio, ambient, retry
from tandemq.finding.target import Target

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from storage.store import Store
    from tandemq.config import ManagerConfig

ENDPOINTS = ("a:7600", "b:7600")
WORK_S = 0.0002
"""Virtual time of a commit, or of other work in a thread."""
REST_S = 0.005
"""After the last answer: what it has set off is over."""
MAP_BYTES = 1 << 30
CLIENT, MASTER, REPLICA = "client", "master", "replica"
ROLES = (CLIENT, MASTER, REPLICA)


class CountedLoop(SimLoop):
    """The simulator's loop, which says whose turn it is. No process of this one is ever killed or paused."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: Process | None = None
        self.toggle: Callable[[], object] = int
        """Called when the watched process gets its turn, and when it has had it."""

    def run(self, limit_s: float) -> bool:
        """See SimLoop."""
        ready, timers = self._ready, self._timers
        self._halted = False
        _enter(self)
        try:
            while not self._halted:
                if ready:
                    event = ready.popleft()
                elif timers and timers[0][0] <= limit_s:
                    event = heappop(timers)
                    self.now = max(self.now, event[0])
                else:
                    self.now = max(self.now, limit_s)
                    return False
                _, _, callback, arguments, context = event
                if callback is not None:
                    if self.watched is not None and context.get(CURRENT) is self.watched:
                        toggle = self.toggle
                        toggle()
                        context.run(callback, *arguments)
                        toggle()
                    else:
                        context.run(callback, *arguments)
        finally:
            _enter(None)
        return True


class QuietNetwork(Network):
    """Every packet takes the same time, and nobody adds up its bytes."""

    def direction(self, source: str, target: str) -> Direction:
        found = super().direction(source, target)
        found.tail = 0.0
        return found

    def note(self, pipe: Pipe, item: object) -> None:  # noqa: ARG002  # see Network
        self.arrived += 1


class StoredMachineAccess(SimMachineAccess):
    """A member's machine with a real store on it."""

    def store(self, config: ManagerConfig) -> Store:
        return open_disk(Path(config.data_dir), pair=config.pair, member=config.member, map_bytes=MAP_BYTES)


class Pair:
    """Start it, then let clients work in it, one coroutine at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.loop = CountedLoop()  # type: ignore[abstract]  # no sockets, signals or subprocesses
        self._ambient = SimAmbient(self.loop)
        self._ambient.streams[""] = random.Random(1)
        self._network = QuietNetwork(self.loop, random.Random, 0.0)
        self._registers = MemoryRegisters(new_nonce=lambda: random.Random(2).randbytes(16))
        self.processes: dict[str, Process] = {}
        self.managers: dict[str, Manager] = {}
        self.stores: dict[str, Store] = {}

    def __enter__(self) -> Self:
        ambient.install(self._ambient)
        for name, role in (("a", MASTER), ("b", REPLICA)):
            self._start(name, role)  # of two empty members the one with the lower name becomes master
        self._until(self._is_whole, "the members form a pair")
        self.processes[CLIENT] = self._process(CLIENT)
        gc.collect()
        gc.freeze()
        gc.disable()  # when it runs depends on all that was allocated before
        return self

    def __exit__(self, *_: object) -> None:
        gc.enable()
        gc.unfreeze()
        self.loop.watched = None
        for role, name in ((REPLICA, "b"), (MASTER, "a")):
            node = self.managers[name]._node  # noqa: SLF001  # as after kill -9: nothing of it is waited for
            assert node is not None
            node.store.close()
            self.processes[role].alive = False
        self.loop.bury()
        ambient.install(ambient.MACHINE)

    def _process(self, name: str) -> Process:
        self._ambient.streams[name] = random.Random(name)
        process = Process(name)
        process.carry_out = lambda _func, end: self._later(process, end)
        return process

    def _later(self, process: Process, end: Callable[[], None]) -> None:
        self.loop.at(self.loop.now + WORK_S, process, end)

    def _start(self, name: str, role: str) -> None:
        peer = "b" if name == "a" else "a"
        for port in (7600, 7601):
            self._network.machines[f"{name}:{port}"] = name
        process = self.processes[role] = self._process(name)
        machine = Machine(name, Disk(name, random.Random(name), self.loop.time))
        judging = Judging(Oracle(lambda _name: True), random.Random(3))
        authority = MemoryAuthority(self._registers, name)
        access = StoredMachineAccess(self._network, machine, process, authority, judging)
        config = msgspec.structs.replace(config_of(name, peer), data_dir=str(self.directory / name))

        async def run() -> None:
            manager = self.managers[name] = Manager(config, access)
            await manager.start()

        self.loop.spawn(process, run())

    def _domain(self, name: str) -> Domain | None:
        manager = self.managers.get(name)
        members = manager._members if manager is not None else None  # noqa: SLF001  # looked at, never touched
        return members.by_name.get("main") if members is not None else None

    def _is_whole(self) -> bool:
        master, replica = self._domain("a"), self._domain("b")
        return (
            master is not None
            and replica is not None
            and master.shared.serving
            and master.mastership.commit.required == {"a", "b"}
            and replica.shared.state.data is DataMark.IN_SYNC
        )

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        end_s = self.loop.now + 60.0
        while not holds():
            if self.loop.now >= end_s or self.loop.problems:
                raise RuntimeError(f"{what}: not within a minute of virtual time; {self.loop.problems}")
            self.loop.run(self.loop.now + 0.05)

    # -- for clients -----------------------------------------------------------------------------------------------

    def client(self) -> aio.Client:
        """The SDK in a process of its own; call it from `do` alone."""
        return aio.Client(
            Target(ENDPOINTS, "the guard"),
            retry.Policy(),
            open_channel=lambda address, _options: Channel(self._network, CLIENT, address),  # type: ignore[arg-type,return-value]  # in its shape
        )

    def do(self, work: Coroutine[Any, Any, Any], *, role: str = "", toggle: Callable[[], object] | None = None) -> Any:
        """Runs a coroutine of the client to its end; `toggle` is called around each turn of that role."""
        loop = self.loop
        task = loop.spawn(self.processes[CLIENT], work)
        task.add_done_callback(lambda _: loop.halt())
        if toggle is not None:
            loop.watched, loop.toggle = self.processes[role], toggle
        ended = loop.run(loop.now + 600.0)
        loop.run(loop.now + REST_S)
        loop.watched = None
        if not ended or loop.problems:
            raise RuntimeError(f"a workload did not end well: {loop.problems or 'not within its time'}")
        return task.result()

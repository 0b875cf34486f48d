"""The simulated machine as a manager meets it: its disk, its ports, its connections. Decides nothing.

Everything inside of the manager is the product's own code (`replica.listen.machine_access` has the real machine).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVarTuple, Unpack

from chaos.sim.kernel.disk import Disk
from chaos.sim.kernel.judging import NAME
from chaos.sim.kernel.loop import CURRENT, Process, SimLoop
from chaos.sim.kernel.rpc import Channel
from chaos.sim.kernel.serving import Server
from failover.journal import Journal
from replica.listen.machine_access import PROBE_TIMEOUT_S, MachineAccess
from replica.listen.ports import Ports, Served
from replica.node.salvage import SalvageFiles
from replica.operations.events import EventLog
from replica.peer.wire import add_peer_service
from storage.errors import CorruptRecord
from storage.records import verify_stored
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    import grpc

    from chaos.sim.kernel.judging import Judging
    from chaos.sim.kernel.net import Network
    from failover.authority import Authority
    from failover.classifier import Classifier
    from replica.core.state.effects import Salvage
    from storage.store import Store
    from tandemq.config import ManagerConfig

Args = TypeVarTuple("Args")

NO_FILES = Path("/nonexistent")
SCAN_BYTES = 1 << 30


class SimAmbient:
    """Time is the loop's, moved by what each machine's clock is off; chance is each process's own stream."""

    def __init__(self, loop: SimLoop, start_wall_ms: int = 1_700_000_000_000) -> None:
        self.loop = loop
        self.start_wall_ns = start_wall_ms * 1_000_000
        self.off_ms: dict[str, int] = {}
        """Machine: what its wall clock is ahead."""
        self.streams: dict[str, random.Random] = {}

    def monotonic_ns(self) -> int:
        return 10**12 + int(self.loop.now * 1e9)

    def wall_ns(self) -> int:
        process = CURRENT.get()
        off_ms = self.off_ms.get(process.name.partition("#")[0], 0) if process is not None else 0
        return self.start_wall_ns + int(self.loop.now * 1e9) + off_ms * 1_000_000

    def random_bytes(self, count: int) -> bytes:
        return self._stream().randbytes(count)

    def fraction(self) -> float:
        return self._stream().random()

    def _stream(self) -> random.Random:
        process = CURRENT.get()
        return self.streams[process.name if process is not None else ""]


class Machine:
    """What outlives the processes of one member: a disk, and what was copied to it before cuts."""

    def __init__(self, name: str, disk: Disk) -> None:
        self.name = name
        self.disk = disk
        self.salvaged: dict[tuple[int, int, int], bool] = {}
        """(domain, log index, epoch) of every record that was copied: whether it was marked as acknowledged. Epoch 0: a
        damaged one, of which nobody knows which it was.
        """
        self.off = False
        """No power: nobody answers, not even with a refusal."""
        self.on_event: Callable[[str, str], None] = lambda _kind, _text: None
        """Called with the kind and the text of every event of the manager."""
        self.on_open: Callable[[], None] = lambda: None
        """Called when a process has opened its domains, and nobody has asked them for anything yet."""


class QuietEvents(EventLog):
    """Events are listed and not written; the world hears of them too."""

    def __init__(self, member: str, on_event: Callable[[str, str], None]) -> None:
        super().__init__(NO_FILES, member)
        self._on_event = on_event

    def add(
        self,
        kind: PairEventKind | int,
        text: str,
        *,
        domain: str = "",
        epoch: int = 0,
        role: int = 0,
        facts: Mapping[str, str] | None = None,
    ) -> int:
        self._on_event(PairEventKind.Name(kind).removeprefix("PAIR_EVENT_KIND_"), text)
        return super().add(kind, text, domain=domain, epoch=epoch, role=role, facts=facts)

    def _load(self) -> None:
        """Nothing is there."""

    async def _write_pending(self) -> None:
        """As it does, without a thread that would write nothing."""
        self._wake.clear()
        batch, self._pending = self._pending, []
        self._show(batch)

    def _write(self, batch: object) -> None:
        """Nobody reads it after the process."""

    def _sync(self) -> None:
        """Nothing was written."""


class SalvageNotes(SalvageFiles):
    """The product's files, on the machine's disk; notes besides which records a cut takes away."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.disk.files, pair="sim", member=machine.name)
        self._machine = machine

    def keep(self, store: Store, number: int, domain: str, salvage: Salvage) -> None:
        super().keep(store, number, domain, salvage)
        rows = store.scan(number, salvage.first, limit_records=100_000, limit_bytes=SCAN_BYTES)
        for log_index, record in rows:
            if log_index <= salvage.last:
                name = (number, log_index, epoch_of(record))
                self._machine.salvaged.setdefault(name, log_index <= salvage.acknowledged_up_to and name[2] > 0)


def epoch_of(record: bytes) -> int:
    """Of a record as it lies on a disk; 0: it is damaged, and nothing that it says is believed."""
    try:
        return verify_stored(record).epoch
    except CorruptRecord:
        return 0


class NoJournal(Journal):
    """Classifier calls are not kept."""

    def __init__(self) -> None:
        super().__init__(NO_FILES)

    async def write(self, *lines: dict[str, Any]) -> bool:  # noqa: ARG002  # as the file does
        return True

    def write_soon(self, *lines: dict[str, Any]) -> None:
        """Nobody waits for it."""


class SimPorts(Ports):
    """Handlers behind simulated addresses."""

    def __init__(self, config: ManagerConfig, network: Network, machine: str) -> None:
        super().__init__(config)
        self._network, self._machine = network, machine

    async def open(self, served: Served) -> None:
        clients = Server(self._network, self._machine)
        clients.add_generic_rpc_handlers(served.guarded)
        if served.peer is not None:
            peers = Server(self._network, self._machine)
            add_peer_service(served.peer, peers)
            self._network.peer_ports.add(self.config.listen_peer)
            peers.listen(self.config.listen_peer)
        clients.listen(self.config.listen_client)

    async def report_health(self, *, master: bool, readable: bool) -> None:
        """Nobody asks."""

    async def close(self, grace_s: float = 0.0) -> None:
        del grace_s  # what is under way ends with the process
        for address in (self.config.listen_client, self.config.listen_peer):
            self._network.listeners.pop(address, None)


class SimWriter:
    """The simulated disk ends when it does, and the loop goes on meanwhile. A real loop that stands still for a commit
    runs later what came meanwhile: that order is one of those that runs have here.
    """

    async def run(self, work: Callable[[Unpack[Args]], None], *args: *Args) -> None:
        await asyncio.get_running_loop().run_in_executor(None, work, *args)

    run_alone = run

    async def stop(self) -> None:
        """There is no thread."""


class SimMachineAccess(MachineAccess):
    """One member's machine."""

    def __init__(
        self, network: Network, machine: Machine, process: Process, authority: Authority, judging: Judging
    ) -> None:
        self._network, self._machine, self._process, self._authority = network, machine, process, authority
        self._judging = judging

    def store(self, config: ManagerConfig) -> Store:
        return self._machine.disk.open(config.pair, config.member)

    def writer(self) -> SimWriter:
        return SimWriter()

    def authority(self, config: ManagerConfig) -> Authority:  # noqa: ARG002  # given by the world
        return self._authority

    def events(self, config: ManagerConfig) -> EventLog:
        self._machine.on_open()
        return QuietEvents(config.member, self._machine.on_event)

    def salvage(self, config: ManagerConfig) -> SalvageFiles:  # noqa: ARG002  # one a machine
        return SalvageNotes(self._machine)

    def journal(self, config: ManagerConfig) -> Journal:  # noqa: ARG002  # none
        return NoJournal()

    def classifier(self, config: ManagerConfig) -> Classifier:
        return self._judging.classifier() if config.failover.classifier == NAME else super().classifier(config)

    def ports(self, config: ManagerConfig) -> Ports:
        return SimPorts(config, self._network, self._machine.name)

    def channel(self, address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:  # noqa: ARG002  # one kind
        return Channel(self._network, self._machine.name, address)  # type: ignore[return-value]  # in its shape

    async def takes_clients(self, address: str) -> bool:  # noqa: ARG002  # of the real one
        """Nobody crowds a simulated port."""
        return True

    async def is_refused(self, address: str) -> bool:
        """As far as packets get through."""
        network, own = self._network, self._machine.name
        target = network.machines[address]
        there, back = network.direction(own, target), network.direction(target, own)
        round_trip_s = there.delay_s() + back.delay_s()
        if there.cut or back.cut or target in network.dark or round_trip_s > PROBE_TIMEOUT_S:
            await asyncio.sleep(PROBE_TIMEOUT_S)
            return False
        await asyncio.sleep(round_trip_s)
        return address not in network.listeners

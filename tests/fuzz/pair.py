"""Two real managers in this process and the link between them, whose every frame passes through the test's hands."""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from failover.authority import Authority, MemoryRegisters
from failover.marks import DataMark
from replica.core.state.durable import decode_state, state_key
from replica.listen.machine_access import MachineAccess
from replica.manager import Manager
from replica.node.members import domain_number
from storage.memory import MemoryStore
from storage.records import verify_stored
from tandemq.config import ManagerConfig
from tandemq.peer.v1.peer_service_pb2 import HeartbeatFrame, PeerFrame, TransferFrame
from tests.fuzz.loop import VirtualLoop
from tests.fuzz.world import _DIRECTORY, AbortedError, Nowhere, OneMember, _numbers, _unavailable, alone

NUMBER = domain_number("main")
KINDS: dict[str, type[Any]] = {"Data": PeerFrame, "Heartbeat": HeartbeatFrame, "Transfer": TransferFrame}
Tamper = Callable[[str, str, bytes], list[bytes]]
"""Sender, stream, frame: what arrives instead of it, in order."""


class Wire:
    """One direction of one stream: bytes, in order, until it is cut."""

    def __init__(self, pair: Pair, sender: str, kind: str) -> None:
        self.pair, self.sender, self.kind = pair, sender, kind
        self.frames: deque[bytes] = deque()
        self.wake = asyncio.Event()
        self.over = False

    async def write(self, frame: Any) -> None:
        await asyncio.sleep(0)
        self.frames.extend(self.pair.tamper(self.sender, self.kind, frame.SerializeToString()))
        self.wake.set()

    async def read(self) -> Any:
        """A frame, or EOF once it is cut; raises DecodeError for bytes that are none."""
        await asyncio.sleep(0)
        while not self.frames:
            if self.over:
                return grpc.aio.EOF
            self.wake.clear()
            await self.wake.wait()
        return KINDS[self.kind].FromString(self.frames.popleft())

    def cut(self) -> None:
        self.over = True
        self.wake.set()


class End:
    """One end of a stream: what a call is to the caller, and a context to the handler."""

    def __init__(self, reads: Wire, writes: Wire, *, caller: bool) -> None:
        self.reads, self.writes = reads, writes
        self._caller = caller

    async def read(self) -> Any:
        """As grpc's: bytes that are no message raise at the handler, and are None to the caller."""
        try:
            found = await self.reads.read()
        except DecodeError:
            if self._caller:
                return None
            raise
        if found is grpc.aio.EOF and self._caller:
            raise _unavailable()
        return found

    async def write(self, frame: Any) -> None:
        """As grpc's: what a broken connection raises is not the same at both ends."""
        if self.writes.over:
            raise _unavailable() if self._caller else grpc.aio.UsageError("the call is over")
        await self.writes.write(frame)

    def cancel(self) -> None:
        self.reads.cut()
        self.writes.cut()

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> None:
        self.cancel()
        raise AbortedError(code, details, trailing_metadata)


class Dialled:
    """The channel of one connection to the other member's peer port."""

    def __init__(self, pair: Pair, caller: str, called: str) -> None:
        self.pair, self.caller, self.called = pair, caller, called
        self.ends: list[End] = []

    def stream_stream(self, method: str, **_more: Any) -> Callable[[], End]:
        kind = method.rpartition("/")[2]

        def call() -> End:
            there, back = Wire(self.pair, self.caller, kind), Wire(self.pair, self.called, kind)
            end = End(back, there, caller=True)
            self.ends.append(end)
            self.pair.serve(self.called, kind, End(there, back, caller=False))
            return end

        return call

    async def close(self, _grace: float | None = None) -> None:
        for end in self.ends:
            end.cancel()


class Side(OneMember):
    """The world of one of the two."""

    def __init__(self, pair: Pair, member: str, store: MemoryStore) -> None:
        super().__init__(store, pair.registers)
        self.pair, self.member = pair, member
        self.channels: list[Dialled] = []

    def authority(self, config: ManagerConfig) -> Authority:
        return super().authority(config) if self.pair.witness else MachineAccess.authority(self, config)

    def channel(self, address: str, options: Sequence[tuple[str, Any]]) -> Any:
        if address != "peer":
            return Nowhere()
        self.channels.append(Dialled(self.pair, self.member, "ab".replace(self.member, "")))
        return self.channels[-1]

    async def is_refused(self, address: str) -> bool:
        return "ab".replace(self.member, "") not in self.pair.managers


class Pair:
    """Both members; `tamper` sees each frame between them."""

    def __init__(self, *, witness: bool = True) -> None:
        self.witness = witness
        """Whether somebody else keeps the register; else the members do, and tell each other in their HELLOs."""
        self.loop = VirtualLoop()
        self.directory = _DIRECTORY / str(next(_numbers))
        self.registers = MemoryRegisters()
        self.managers: dict[str, Manager] = {}
        self.sides: dict[str, Side] = {}
        self.stores = {name: WatchedStore(name) for name in "ab"}
        self.tamper: Tamper = lambda _sender, _kind, frame: [frame]
        self.serving: list[asyncio.Task[None]] = []
        self.said: dict[str, int] = {"a": 0, "b": 0}

    def run(self, story: Callable[[Pair], Any]) -> None:
        """The story, then both stop; what a manager could not take is raised."""
        self.directory.mkdir()
        try:
            with self.loop, alone(self.loop):
                self.loop.run_until_complete(self._run(story))
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    async def _run(self, story: Callable[[Pair], Any]) -> None:
        try:
            await story(self)
            self.check_alive()
        finally:
            self.tamper = lambda _sender, _kind, _frame: []
            for name in list(self.managers):
                await self.stop(name)

    async def start(self, member: str) -> Manager:
        """The process of a member starts on its disk."""
        other = "ab".replace(member, "")
        directory = self.directory / member
        directory.mkdir(exist_ok=True)
        config = ManagerConfig(
            member=member,
            data_dir=str(directory),
            pair="p",
            peer_member=other,
            peer_address="peer",
            peer_endpoint="nowhere",
            witness="witness" if self.witness else "",
        )
        side = self.sides[member] = Side(self, member, self.stores[member])
        manager = Manager(config, side)
        await manager.start()
        self.managers[member] = manager
        self._watch(member)
        return manager

    async def stop(self, member: str) -> None:
        """Its process ends in good order."""
        await self.managers.pop(member).stop()

    def node(self, member: str) -> Any:
        return self.managers[member]._node

    def domain(self, member: str) -> Any:
        return self.node(member).domains[NUMBER]

    def _watch(self, member: str) -> None:
        """Looks at every control frame before it is sent: an acknowledgement must be true, an epoch never falls."""
        steps = self.node(member).steps
        on_effect = steps.on_effect

        def watched(domain: Any, effect: Any) -> Any:
            if type(effect).__name__ == "Send" and effect.frame.domain == NUMBER:
                self._check_said(member, effect.frame)
            return on_effect(domain, effect)

        steps.on_effect = watched

    def _check_said(self, member: str, frame: PeerFrame) -> None:
        kind = frame.WhichOneof("frame")
        held = self.stores[member].holds_up_to(NUMBER)
        if kind == "op_ack":
            assert frame.op_ack.durable_index <= held, f"{member} acknowledges {frame.op_ack.durable_index}, has {held}"
        elif kind == "open_ack" and frame.open_ack.done:
            assert frame.open_ack.durable_index <= held, (
                f"{member} is in step at {frame.open_ack.durable_index}: {held}"
            )
        elif kind == "hello":
            for told in frame.hello.domains:
                if told.domain == NUMBER:
                    assert told.epoch >= self.said[member], (
                        f"{member} says epoch {told.epoch} after {self.said[member]}"
                    )
                    self.said[member] = told.epoch

    def serve(self, member: str, kind: str, end: End) -> None:
        """The peer port of a member takes a stream."""
        manager = self.managers.get(member)
        if manager is None:
            end.cancel()
            return
        ports = self.sides[member].open_ports
        assert ports is not None
        servicer: Any = ports.served.peer

        async def handle() -> None:
            try:
                await getattr(servicer, kind)(None, end)
            except (AbortedError, DecodeError, grpc.aio.UsageError):
                pass
            finally:
                end.cancel()

        task = asyncio.get_running_loop().create_task(handle())
        self.serving.append(task)
        ports.serving.add(task)
        task.add_done_callback(ports.serving.discard)

    def cut(self) -> None:
        """The connection breaks."""
        for side in self.sides.values():
            for channel in side.channels:
                for end in channel.ends:
                    end.cancel()
            side.channels.clear()

    def check_alive(self) -> None:
        """No manager has given up, and no handler failed in a way that nobody meant."""
        for task in [task for task in self.serving if task.done()]:
            self.serving.remove(task)
            if not task.cancelled():
                task.result()
        for name in self.managers:
            failed = self.node(name).failed
            if failed.done():
                raise AssertionError(f"{name} stops: {failed.result()!r}") from failed.result()


class WatchedStore(MemoryStore):
    """Refuses to be told lies: an epoch that falls, a log whose chain is broken."""

    def __init__(self, member: str) -> None:
        super().__init__(pair="p", member=member, instance=member.encode() * 16)
        self.member = member
        self.epoch = self.promised = 0

    def commit(self, batch: Any) -> None:
        super().commit(batch)
        data = batch.meta.get(state_key(NUMBER))
        if data is not None:
            state = decode_state(data)
            assert state.epoch >= self.epoch, f"{self.member} stores epoch {state.epoch} after {self.epoch}"
            assert state.promised_epoch >= self.promised, f"{self.member} takes its promise back"
            self.epoch, self.promised = state.epoch, state.promised_epoch

    def close(self) -> None:
        """It outlives the process, as a disk does."""

    def holds_up_to(self, domain: int) -> int:
        """Highest log index that a restart would find, as record or in a snapshot."""
        bounds, data = self.bounds(domain), self.get_meta(state_key(domain))
        base = decode_state(data).base_index if data is not None else 0
        return max(base, bounds[1] if bounds is not None else 0)

    def check_chain(self, domain: int) -> None:
        """Every record is whole and follows the one before it."""
        data = self.get_meta(state_key(domain))
        if data is None:
            return
        state = decode_state(data)
        if state.data is DataMark.SYNCING:
            return  # half of a transfer, and known to be
        previous: tuple[int, bytes] | None = (state.base_index, state.base_digest)
        for log_index, record in self.scan(domain, 0, limit_records=100_000, limit_bytes=1 << 30):
            follows = previous is not None and previous[0] == log_index - 1
            prefix = verify_stored(record, previous_digest=previous[1] if follows and previous else None)
            assert (prefix.domain, prefix.log_index) == (domain, log_index)
            assert follows or log_index <= max(state.base_index, state.kept_from), f"a gap before {log_index}"
            previous = (log_index, prefix.digest)


def handler_of(pair: Pair, member: str, method: str) -> Any:
    """Who serves `/service/Method` at a member."""
    ports = pair.sides[member].open_ports
    assert ports is not None
    return ports.handler(method)

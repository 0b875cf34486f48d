"""A whole pair in one process, step by step: the product's core, recovery, transfer and memory store, explicit queues.

Nothing happens by itself. A test delivers one frame, syncs one batch, answers one register call, or says `settle`.
Time is a number. The shell's rules that are repeated here are those of `replica.node` and `replica.session`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

from failover.authority import MemoryRegisters
from failover.marks import Role
from failover.register import Register
from replica.calls import EnqueueCall
from replica.domain import Domain
from replica.effects import Deliver, GetRegister, Persist, Rebuild, Reply, RoleChanged, Send, SetRegister, StartTransfer
from replica.machine import Limits, columns_of
from replica.node import Group, outcome_of
from replica.recovery import open_shared, rebuild, recover
from replica.sync_source import FRAME_BYTES_MAX, NeedRead
from replica.transfer import Receiver, frames_of
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from tandemq.peer.v1.peer_service_pb2 import DomainHeartbeat, Hello, PeerFrame, TransferFrame
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.checks import Checks

NAME, NUMBER = "main", 7
WALL_MS = 1_700_000_000_000
BIAS_MS = 300
TICK_MS = 20
SETTLE_STEPS_MAX = 20_000


def drive(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that only ever gives its turn away."""
    while True:
        try:
            work.send(None)
        except StopIteration as stop:
            return stop.value


async def _all(frames: AsyncIterator[TransferFrame]) -> list[TransferFrame]:
    return [frame async for frame in frames]


@dataclass(eq=False)
class RegisterCall:
    """A read or a set on its way. `landed` is what the register answered; it may land long after its caller gave up."""

    member: str
    incarnation: int
    effect: GetRegister | SetRegister
    landed: Any = None

    @property
    def name(self) -> str:
        return self.effect.purpose if isinstance(self.effect, SetRegister) else "get"


class Member:
    """One member: its disk outlives its process. Stands in for `Node` where the product's transfer code wants one."""

    def __init__(self, pair: Pair, name: str, peer: str) -> None:
        self.pair, self.name, self.peer_name = pair, name, peer
        self.store = MemoryStore(member=name, instance=name.encode() * 16)
        self.incarnation = 0
        self.domain: Domain | None = None
        self.epochs_served: list[int] = []
        self._forget()

    def _forget(self) -> None:
        self.group, self.writing = Group(), None
        self.outbox: list[PeerFrame] = []
        self.in_session = False
        self.transfers: deque[StartTransfer] = deque()
        self.receiver: Receiver | None = None
        self.rebuilds: deque[tuple[int, int]] = deque()

    @property
    def up(self) -> bool:
        return self.domain is not None

    @property
    def core(self) -> Domain:
        assert self.domain is not None, f"{self.name} is down"
        return self.domain

    @property
    def shared(self) -> Any:
        return self.core.shared

    @property
    def role(self) -> Role:
        return self.shared.role

    @property
    def serving(self) -> bool:
        return self.up and self.core.replication.serving

    @property
    def peer(self) -> Member:
        return self.pair.members[self.peer_name]

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """As `Manager._open_domains` does."""
        assert self.domain is None
        self.incarnation += 1
        self._forget()
        shared = open_shared(self.store, NUMBER, NAME, self.name, self.peer_name, self.incarnation, self.pair.limits)
        domain = Domain(shared, bias_ms=BIAS_MS)
        domain.held_call = self._held_call
        shared.machine = drive(recover(self.store, shared))
        self.domain = domain
        domain.start(self.pair.now_ms, self.pair.wall_ms)
        self.dispatch(domain)

    def crash(self, *, written: bool = False) -> None:
        """The process ends. `written`: the batch that was being written reached the disk, but nobody was told."""
        if written and self.writing is not None:
            self.store.commit(self.writing.batch)
        self.store = self.store.crash()
        self.domain = None
        self._forget()

    def _held_call(self, frame: PeerFrame) -> EnqueueCall:
        hold = frame.hold
        columns = columns_of(EnqueueBatch.FromString(hold.batch))
        return EnqueueCall(
            None, hold.key.queue, hold.key.client_id, hold.key.first_sequence, columns, hold.batch,
            min_copies=hold.min_copies, member=self.peer_name,
        )  # fmt: skip

    # -- effects ---------------------------------------------------------------------------------------------------

    def dispatch(self, domain: Domain) -> None:
        while effects := domain.take():
            for effect in effects:
                self._carry_out(domain, effect)
        self.pair.checks.after_dispatch(self)

    def _carry_out(self, domain: Domain, effect: Any) -> None:
        match effect:
            case Persist():
                self.pair.checks.on_records(self, effect.appends)
                self.group.add(domain, effect)
            case Reply(waiter, result):
                waiter.answer(result)
            case Deliver(consumer, done):
                consumer.waiter.deliver(done)
            case Send(frame):
                if self.in_session:
                    self.outbox.append(frame)
            case GetRegister() | SetRegister():
                self.pair.calls.append(RegisterCall(self.name, self.incarnation, effect))
            case Rebuild(up_to):
                self.rebuilds.append((domain.shared.generation, up_to))
            case StartTransfer():
                if self.in_session:
                    self.transfers.append(effect)
            case RoleChanged():
                self.send_hello()

    def send_hello(self) -> None:
        if self.in_session:
            self.outbox.append(self.hello())

    def hello(self) -> PeerFrame:
        return PeerFrame(hello=Hello(member=self.name, incarnation=self.incarnation, domains=[self.core.hello()]))

    # -- disk ------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Hand the pending batch to the disk, if nothing is being written."""
        if self.writing is None and not self.group.empty:
            self.writing, self.group = self.group, Group()

    def synced(self) -> None:
        """What was being written is durable, and the core hears of it."""
        group, self.writing = self.writing, None
        if group is None:
            return
        self.store.commit(group.batch)
        tokens = [token for _, token in group.tokens]
        generation, last_index = group.last.get(NUMBER, (0, 0))
        if last_index or tokens:
            self.core.on_persisted(generation, last_index, tokens)
            self.dispatch(self.core)

    def commit(self) -> None:
        """Make everything durable that is asked for up to now, and what follows from it."""
        while self.writing is not None or not self.group.empty:
            self.write()
            self.synced()

    async def flush(self) -> None:
        """For the product's transfer code."""
        self.group.empty = False
        self.commit()

    def rebuilt(self) -> None:
        """The oldest rebuild ends."""
        generation, up_to = self.rebuilds.popleft()
        self.commit()
        if generation != self.shared.generation:
            return  # `Node._rebuild` compares after reading; here before, as nothing else runs in between
        self.core.on_rebuilt(drive(rebuild(self.store, self.shared, up_to)), self.pair.now_ms)
        self.dispatch(self.core)

    # -- time and clients ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        self.core.on_tick(self.pair.now_ms, self.pair.wall_ms)
        self.dispatch(self.core)

    def lost(self, *, refused: bool = False) -> None:
        """The detector's verdict; the shell closes the session first."""
        if self.in_session:
            self.notice()
        self.core.on_lost(self.pair.now_ms, refused=refused)
        self.dispatch(self.core)

    def submit(self, call: Any) -> None:
        self.core.submit(call, self.pair.wall_ms)
        self.dispatch(self.core)

    def attach(self, consumer: Any) -> None:
        self.core.attach(consumer, self.pair.wall_ms)
        self.dispatch(self.core)

    # -- the session -----------------------------------------------------------------------------------------------

    def notice(self) -> None:
        """This side hears that the connection is gone; nothing more of it is read."""
        self.pair.wires[self.peer_name].clear()
        self.pair.transfer_wires[self.peer_name].clear()
        self.pair.greeted.discard(self.name)
        self.pair.linked = False
        if not self.in_session:
            return
        self.in_session = False
        self.outbox.clear()
        self.transfers.clear()
        self.receiver = None
        self.core.on_disconnected(self.pair.now_ms)
        self.dispatch(self.core)

    def pump(self) -> None:
        """What `Session._write_data` and `_write_transfer` would put on the wire now."""
        if not (self.in_session and self.pair.linked):
            return
        wire = self.pair.wires[self.name]
        while True:
            frames, self.outbox = self.outbox, []
            pulled = self.core.source.pull()
            if isinstance(pulled, NeedRead):
                rows = self.store.scan(NUMBER, pulled.first, limit_records=1000, limit_bytes=FRAME_BYTES_MAX)
                dense = [row for at, row in enumerate(rows) if row[0] == pulled.first + at and row[0] <= pulled.last]
                if not dense:
                    break
                pulled = self.core.source.frame_of_stored(dense)
            frames.extend(pulled)
            if not frames:
                break
            wire.extend(PeerFrame.FromString(frame.SerializeToString()) for frame in frames)
        while self.transfers:
            start = self.transfers.popleft()
            if start.sync_id == self.core.source.sync_id:
                frames = asyncio.run(_all(frames_of(self, self.core, start)))  # type: ignore[arg-type]  # a node as far as transfers need one
                self.pair.transfer_wires[self.name].extend(frames)

    def take_frame(self, frame: PeerFrame) -> None:
        """As `Session._read_data` does."""
        core = self.core
        if frame.HasField("hello"):
            if not self.in_session:
                self.in_session = True
                core.on_connected()
            core.on_hello(frame.hello.domains[0], self.pair.now_ms)
        else:
            try:
                if not core.on_frame(frame, self.pair.wall_ms):
                    self.send_hello()
            except CorruptRecord as corrupt:
                self.pair.corrupt.append(str(corrupt))
                self.dispatch(core)
                self.notice()
                return
        self.dispatch(core)

    def take_transfer(self, frame: TransferFrame) -> None:
        """As `Session._read_transfer` does; a frame whose SYNC_BEGIN did not come is not delivered yet."""
        if self.receiver is None or self.receiver.sync_id != frame.sync_id:
            if not self.expects(frame):
                return
            self.receiver = Receiver(self, self.core, frame.sync_id)  # type: ignore[arg-type]  # a node as far as transfers need one
        try:
            if drive(self.receiver.on_frame(frame)):
                self.receiver = None
        except CorruptRecord as corrupt:
            self.pair.corrupt.append(str(corrupt))
            self.notice()

    def expects(self, frame: TransferFrame) -> bool:
        target = self.core.target
        return target.sync_id == frame.sync_id and target.active and target.full


class Pair:
    """Both members, the wires between them, the register and its calls."""

    def __init__(self, *, limits: Limits | None = None) -> None:
        self.limits = limits or Limits(dedup_sequences=1000)
        self.now_ms = 10_000
        self.registers = MemoryRegisters()
        self.calls: list[RegisterCall] = []
        self.late: list[RegisterCall] = []
        self.corrupt: list[str] = []
        self.clients_seen = 0
        """Highest queue index that a client was told."""
        self.checks = Checks(self)
        self.linked = False
        self.greeted: set[str] = set()
        """Members that have not noticed the end of the last connection."""
        self.wires: dict[str, deque[PeerFrame]] = {"a": deque(), "b": deque()}
        """By sender."""
        self.transfer_wires: dict[str, deque[TransferFrame]] = {"a": deque(), "b": deque()}
        self.members = {"a": Member(self, "a", "b"), "b": Member(self, "b", "a")}
        self.a, self.b = self.members["a"], self.members["b"]

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    @property
    def register(self) -> Register:
        return self.registers.get(NAME)

    @property
    def up(self) -> list[Member]:
        return [member for member in self.members.values() if member.up]

    @property
    def master(self) -> Member | None:
        serving = [member for member in self.up if member.serving]
        return max(serving, key=lambda member: member.shared.state.epoch, default=None)

    # -- the link --------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """A new connection, once both sides know that the old one is over. HELLOs cross."""
        assert len(self.up) == 2
        assert not self.greeted, "the old connection must be noticed first"
        self.linked = True
        for member in self.up:
            self.greeted.add(member.name)
            self.wires[member.name].append(member.hello())

    def cut(self) -> None:
        """The connection breaks. What was sent before may still arrive, until its receiver notices."""
        for member in self.up:
            member.pump()
        self.linked = False

    def disconnect(self) -> None:
        """It breaks, and both notice."""
        self.linked = False
        for member in self.up:
            member.notice()

    def crash(self, member: Member, *, written: bool = False, noticed: bool = True) -> None:
        """One process ends; its peer notices, now or later."""
        member.pump()
        member.crash(written=written)
        self.linked = False
        self.wires[member.peer_name].clear()
        self.transfer_wires[member.peer_name].clear()
        self.greeted.discard(member.name)
        if noticed and member.peer.up:
            member.peer.notice()

    def deliver(self, sender: Member) -> bool:
        """The next frame of that sender arrives."""
        sender_up = sender.up
        receiver = sender.peer
        if not receiver.up or receiver.name not in self.greeted:
            return False
        wire = self.wires[sender.name]
        if not wire and sender_up:
            sender.pump()
        if not wire:
            return False
        receiver.take_frame(wire.popleft())
        return True

    def deliver_transfer(self, sender: Member) -> bool:
        """The next frame of the transfer stream arrives, once its SYNC_BEGIN has."""
        receiver = sender.peer
        wire = self.transfer_wires[sender.name]
        if not wire or not receiver.up or not receiver.in_session:
            return False
        frame = wire[0]
        known = receiver.receiver is not None and receiver.receiver.sync_id == frame.sync_id
        if not known and not receiver.expects(frame) and receiver.core.target.sync_id < frame.sync_id:
            return False
        wire.popleft()
        receiver.take_transfer(frame)
        return True

    def beat(self, sender: Member) -> None:
        """A heartbeat arrives at once."""
        receiver = sender.peer
        if self.linked and sender.in_session and receiver.up and receiver.in_session and sender.role is Role.MASTER:
            shared = sender.shared
            receiver.core.on_heartbeat(
                DomainHeartbeat(
                    domain=NUMBER,
                    epoch=shared.state.epoch,
                    role=shared.role.value,
                    durable_index=shared.durable_index,
                    commit_index=shared.commit_index,
                )
            )
            receiver.dispatch(receiver.core)

    # -- the register ----------------------------------------------------------------------------------------------

    def land(self, call: RegisterCall) -> None:
        """The call reaches the register."""
        if call.landed is None:
            effect = call.effect
            if isinstance(effect, SetRegister):
                call.landed = self.registers.set(NAME, effect.expected, effect.desired)
            else:
                call.landed = self.register

    def answer(self, call: RegisterCall) -> None:
        """It lands if it has not, and its caller hears the answer."""
        self.land(call)
        self.calls.remove(call)
        member = self._caller(call)
        if member is None:
            return
        if isinstance(call.effect, SetRegister):
            outcome, register = outcome_of(call.landed)
            member.core.on_set_result(call.effect.purpose, outcome, register, self.now_ms)
        else:
            member.core.on_register(call.landed, self.now_ms)
        member.dispatch(member.core)

    def lose(self, call: RegisterCall) -> None:
        """The caller hears nothing in time: unknown. A set that has not landed may still do so (`land_late`)."""
        self.calls.remove(call)
        if isinstance(call.effect, SetRegister) and call.landed is None:
            self.late.append(call)
        member = self._caller(call)
        if member is None:
            return
        if isinstance(call.effect, SetRegister):
            member.core.on_set_result(call.effect.purpose, "unknown", None, self.now_ms)
        else:
            member.core.on_register(None, self.now_ms)
        member.dispatch(member.core)

    def land_late(self) -> None:
        """Every lost set reaches the register after all."""
        late, self.late = self.late, []
        for call in late:
            self.land(call)

    def _caller(self, call: RegisterCall) -> Member | None:
        member = self.members[call.member]
        return member if member.up and member.incarnation == call.incarnation else None

    def call(self, member: Member, name: str = "") -> RegisterCall:
        """The oldest call under way of a member whose name begins like this."""
        return next(c for c in self.calls if c.member == member.name and c.name.startswith(name))

    def has_call(self, member: Member, name: str = "") -> bool:
        return any(c.member == member.name and c.name.startswith(name) for c in self.calls)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self, milliseconds: int = TICK_MS) -> None:
        self.now_ms += milliseconds
        for member in self.up:
            member.tick()

    # -- all at once -----------------------------------------------------------------------------------------------

    def quiesce(self, *, keep: tuple[str, ...] = (), link: bool = True, disks: str = "ab") -> None:
        """Deliver, write and answer until nothing is under way; no time passes.

        `keep`: register calls that begin like this stay unanswered ("" is all). `disks`: the members whose disk works.
        """
        for _ in range(SETTLE_STEPS_MAX):
            moved = False
            for member in self.up:
                if link:
                    member.pump()
                    moved |= self.deliver(member) or self.deliver_transfer(member)
                if member.up and member.name in disks and (member.writing is not None or not member.group.empty):
                    member.commit()
                    moved = True
                if member.up and member.name in disks and member.rebuilds:
                    member.rebuilt()
                    moved = True
            for call in [call for call in self.calls if not (keep and call.name.startswith(keep))]:
                self.answer(call)
                moved = True
            if not moved:
                return
        raise AssertionError("the pair does not come to rest")

    def settle(self, milliseconds: int = 0) -> None:
        """To rest, then for that long with everything working: heartbeats, clocks, reads of the register."""
        self.quiesce()
        end_ms = self.now_ms + milliseconds
        while self.now_ms < end_ms:
            self.tick(min(100, end_ms - self.now_ms))
            for member in self.up:
                self.beat(member)
            self.quiesce()
        self.checks.at_rest()

    def start(self) -> Pair:
        """Both members start, meet and pair; a queue `q` is there."""
        self.a.start()
        self.b.start()
        self.connect()
        self.settle(200)
        assert self.is_paired
        return self

    @property
    def is_paired(self) -> bool:
        master = self.master
        if master is None or len(self.up) < 2:
            return False
        return (
            self.register.in_sync_set == {"a", "b"}
            and self.register.holder == master.name
            and self.register.epoch == master.shared.state.epoch
            and self.register.state.name == "COMMITTED"
            and master.core.replication.required == {"a", "b"}
            and master.peer.role is Role.REPLICA
            and master.peer.core.target.opened
            and master.shared.log.digest == master.peer.shared.log.digest
        )

    def heal(self, milliseconds: int = 20_000) -> None:
        """Everything works again: both members up and linked; waits until they are a pair."""
        self.calls_landed()
        for member in self.members.values():
            if not member.up:
                member.start()
        if self.greeted and not self.linked:
            self.disconnect()
        end_ms = self.now_ms + milliseconds
        while self.now_ms < end_ms:
            if not self.linked:
                self.disconnect()
                self.connect()
            self.settle(100)
            if self.is_paired:
                return
        raise AssertionError(f"not a pair after {milliseconds} ms: {self.describe()}")

    def calls_landed(self) -> None:
        """No late call is left; what was under way is answered."""
        self.land_late()
        for call in list(self.calls):
            if call in self.calls:
                self.answer(call)

    def describe(self) -> str:
        parts = [
            f"{m.name}: {m.role.name} epoch {m.shared.state.epoch} {m.shared.state.data.name} "
            f"log {m.shared.log.last_index} durable {m.shared.durable_index} commit {m.shared.commit_index} "
            f"{m.core.source.phase.name} opened {m.core.target.opened} "
            f"machine {m.shared.machine is not None}: {m.shared.last_change}"
            for m in self.up
        ]
        return "; ".join([*parts, repr(self.register)])


__all__ = ["NAME", "NUMBER", "Member", "Pair", "RegisterCall"]

"""One member of a pair in one process, step by step; stands in for `replica.node.loop`, whose steps it takes
(`replica.node.steps`), and for `replica.peer.session`, whose rules it repeats.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import google_crc32c

from chaos.sim.kernel.frames import take_frame
from failover.classifier import Answer, EventKind, Evidence, Verdict
from failover.marks import Role
from replica.core.domain import Domain
from replica.core.ports import Settings, ports_of
from replica.core.replication.op_frame import frame_to_bytes
from replica.core.replication.sync_source import FRAME_BYTES_MAX, NeedRead
from replica.core.state.calls import PendingEnqueue
from replica.core.state.effects import (
    AskFar,
    AskVerdict,
    CheckTransfer,
    Deliver,
    Fail,
    GetRegister,
    Note,
    Persist,
    Rebuild,
    Reply,
    RoleChanged,
    Send,
    SetRegister,
    StartTransfer,
)
from replica.core.state.log import Entry
from replica.machine import EnqueueCall, Limits, columns_of
from replica.node.recovery import open_shared, rebuild, recover
from replica.node.steps import Steps
from replica.peer.transfer import Receiver, check_all, frames_of
from storage.errors import CorruptRecord, StoreFailed
from storage.memory import MemoryStore
from storage.records import read_prefix
from storage.store import WriteBatch
from tandemq.peer.v1.peer_service_pb2 import Hello, PeerFrame, TransferFrame
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from failover.gate import Ruling
    from replica.core.handoff.attempt import HandoffOutcome
    from replica.core.state.effects import Order, Salvage
    from replica.node.steps import GroupCommit

NAME, NUMBER = "main", 7
BIAS_MS = 300


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
        return str(self.effect.purpose) if isinstance(self.effect, SetRegister) else "read"


class Judge(Protocol):
    """Hears what a member does."""

    def on_records(self, member: Member, appends: Sequence[Entry]) -> None:
        """They are in its log."""

    def after_dispatch(self, member: Member) -> None:
        """All that followed from one event is carried out."""


class Beside(Protocol):
    """What a member has beside the domain that it shares."""

    def start(self) -> None:
        """The shared one has started."""

    def on_step(self) -> None:
        """The shared one has taken a step."""

    def on_session(self) -> None:
        """Another one with the peer."""

    def tick(self) -> None:
        """Time has passed."""

    def said(self) -> Any:
        """In a heartbeat."""

    def heard(self, said: Any) -> None:
        """In one of the peer."""


class Around(Protocol):
    """What a member knows of the pair that it is in."""

    limits: Limits
    now_ms: int
    calls: list[RegisterCall]
    corrupt: list[str]
    handoff_rows: list[tuple[str, str, str]]
    listener: Callable[[str, Member, Any], None]
    distrust: bool
    linked: bool
    greeted: set[str]
    own_of: Callable[[Member], Beside] | None
    wires: dict[str, deque[PeerFrame]]
    transfer_wires: dict[str, deque[TransferFrame]]
    members: dict[str, Member]

    @property
    def checks(self) -> Judge:
        """Of this run."""

    @property
    def wall_ms(self) -> int:
        """The time that people have."""


class Member:
    """One member: its disk outlives its process. Stands in for `Node` where the product's transfer code wants one."""

    def __init__(self, pair: Around, name: str, peer: str) -> None:
        self.pair, self.name, self.peer_name = pair, name, peer
        self.store = MemoryStore(member=name, instance=name.encode() * 16)
        self.store.undo_kept = []  # a script may take the last writes back
        self.incarnation = 0
        self.domain: Domain | None = None
        self.epochs_served: list[int] = []
        self.asked: list[AskVerdict] = []
        self.notes: list[str] = []
        self.failed = ""
        self.salvaged: dict[tuple[int, int], bool] = {}
        """(log index, epoch) of every record that was copied before a cut: whether it was marked as acknowledged."""
        self.cuts: list[Salvage] = []
        self._forget()

    def _forget(self) -> None:
        self.steps = Steps()
        self.outbox: list[PeerFrame] = []
        self.in_session = False
        self.transfers: deque[CheckTransfer | StartTransfer] = deque()
        self.receiver: Receiver | None = None
        self.rebuilds: deque[tuple[int, int]] = deque()
        self.own: Beside | None = None
        """Where its sides stand; None: it has no queue with sides."""

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
        return self.up and self.core.shared.serving

    @property
    def peer(self) -> Member:
        return self.pair.members[self.peer_name]

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self, *, meet_ms: int = 0) -> None:
        """As `Manager._open_domains` does."""
        assert self.domain is None
        self.incarnation += 1
        self._forget()
        shared = open_shared(self.store, NUMBER, NAME, self.name, self.peer_name, self.incarnation, self.pair.limits)
        settings = Settings(bias_ms=BIAS_MS, meet_ms=meet_ms, slow_peer_ms=self.pair.slow_peer_ms)
        may = self._may if self.pair.asks_rights else None
        domain = Domain(shared, ports_of(self.store, shared, self._held_call, may=may), settings)
        shared.machine = drive(recover(self.store, shared))
        self.domain = domain
        domain.start(self.pair.now_ms, self.pair.wall_ms)
        self.dispatch(domain)
        if self.pair.own_of is not None:
            self.own = self.pair.own_of(self)
            self.own.start()

    def crash(self, *, written: bool = False) -> None:
        """The process ends. `written`: the batch that was being written reached the disk, but nobody was told."""
        if written and self.steps.writing is not None:
            self._to_disk(self.steps.writing)
        self.store = self.store.crash()
        self.domain = None
        self._forget()

    def _may(self, who: str, right: int, *names: str) -> bool:
        """As `Access.may`, of whoever is no administrator."""
        assert self.domain is not None
        machine = self.domain.shared.machine
        assert machine is not None
        return any(machine.state.rights.in_force.deciding(who, right, name) is not None for name in names)

    def _held_call(self, frame: PeerFrame) -> PendingEnqueue:
        hold = frame.hold
        columns = columns_of(EnqueueBatch.FromString(hold.batch))
        key, digest = hold.key, google_crc32c.value(hold.batch)
        call = EnqueueCall(key.queue, key.client_id, key.first_sequence, columns, self.peer_name, request_hash=digest)
        return PendingEnqueue(None, call, hold.batch, hold.min_copies, batch_crc=digest)

    # -- effects ---------------------------------------------------------------------------------------------------

    def dispatch(self, domain: Domain) -> None:
        while effects := domain.take():
            for effect in effects:
                self.pair.listener("effect", self, effect)
                if isinstance(effect, Persist):
                    self.pair.checks.on_records(self, effect.appends)
                order = self.steps.on_effect(domain, effect)
                if order is not None:
                    self._carry_out(domain, order)
        self.pair.listener("step", self, None)
        self.pair.checks.after_dispatch(self)
        if self.own is not None:
            self.own.on_step()

    def _carry_out(self, domain: Domain, order: Order) -> None:
        match order:
            case Reply(waiter, result):
                waiter.answer(result)
            case AskFar(shell):
                shell.wake()
            case Deliver(consumer, done):
                consumer.waiter.deliver(done)
            case Send(frame):
                if self.in_session:
                    self.outbox.append(self.told(frame))
            case GetRegister() | SetRegister():
                self.pair.calls.append(RegisterCall(self.name, self.incarnation, order))
            case Rebuild(up_to):
                self.rebuilds.append((domain.shared.progress.generation, up_to))
            case CheckTransfer() | StartTransfer():
                if self.in_session:
                    self.transfers.append(order)
            case RoleChanged():
                self.send_hello()
            case _:
                self._report(order)

    def _report(self, order: Order) -> None:
        match order:
            case AskVerdict():
                self.asked.append(order)
            case Note(_, text, facts):
                self.notes.append(text)
                if facts is not None and "handoff_id" in facts:
                    self.pair.handoff_rows.append((self.name, facts["from"], facts["event"]))
            case Fail(why):
                self.failed = why

    def send_hello(self) -> None:
        if self.in_session:
            self.outbox.append(self.hello())

    def hello(self) -> PeerFrame:
        return self.told(
            PeerFrame(hello=Hello(member=self.name, incarnation=self.incarnation, domains=[self.core.hello()]))
        )

    def told(self, frame: PeerFrame) -> PeerFrame:
        """As the wire has it: see `Pair.connect`."""
        if self.pair.distrust and frame.HasField("hello"):
            frame.hello.domains[0].digest = b""  # unknown: fits nothing, and is not said to differ
        return frame

    # -- disk ------------------------------------------------------------------------------------------------------

    @property
    def batch(self) -> WriteBatch:
        """For the product's code that fills it by hand."""
        return self.steps.pending.batch

    def write(self) -> None:
        """Hand the pending group commit to the disk, if nothing is being written."""
        if self.steps.writing is None:
            self.steps.begin()

    def synced(self) -> None:
        """What was being written is durable, and the core hears of it."""
        if self.steps.writing is None:
            return
        self._to_disk(self.steps.writing)
        for domain, durable in self.steps.end():
            domain.on_persisted(*durable)
            self.dispatch(domain)

    def _to_disk(self, group: GroupCommit) -> None:
        self.salvage(group)
        try:
            self.store.commit(group.batch)
        except StoreFailed as failed:  # no disk fails here: the batch is one that no store takes
            raise AssertionError(f"{self.name} stops: {failed}") from failed

    def salvage(self, group: GroupCommit) -> None:
        """What the writer's thread does before the transaction."""
        for _, cut in group.salvage:
            self.cuts.append(cut)
            for log_index, record in self.store.scan(NUMBER, cut.first, limit_records=100_000, limit_bytes=1 << 30):
                if log_index <= cut.last:
                    # The first copy stays, as with the files.
                    self.salvaged.setdefault(
                        (log_index, read_prefix(record).epoch), log_index <= cut.acknowledged_up_to
                    )

    def commit(self) -> None:
        """Make everything durable that is asked for up to now, and what follows from it."""
        while not self.steps.at_rest:
            self.write()
            self.synced()

    async def flush(self) -> None:
        """For the product's transfer code."""
        self.steps.require()
        self.commit()

    def rebuilt(self) -> None:
        """The oldest rebuild ends."""
        generation, up_to = self.rebuilds.popleft()
        self.commit()
        if generation != self.shared.progress.generation:
            return  # `Node._rebuild` compares after reading; here before, as nothing else runs in between
        self.core.on_rebuilt(drive(rebuild(self.store, self.shared, up_to)), self.pair.now_ms)
        self.dispatch(self.core)

    # -- time and clients ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        self.core.on_tick(self.pair.now_ms, self.pair.wall_ms)
        self.dispatch(self.core)
        if self.own is not None:
            self.own.tick()

    def lost(self, *, refused: bool = False) -> None:
        """The detector's verdict; the shell closes the session first."""
        if self.in_session:
            self.notice()
        self.core.on_lost(self.pair.now_ms, refused=refused)
        self.dispatch(self.core)

    def verdict(self, verdict: Verdict | None, *, evidence: Evidence = Evidence.NONE, generation: int = -1) -> Ruling:
        """A classifier, or an operator, has answered the newest question."""
        verdicts = self.core.mastership.verdicts
        ask = self.asked[-1] if self.asked else None
        kind = ask.kind if ask is not None else EventKind.PEER_LOST
        number = verdicts.generation if generation < 0 else generation
        answer = Answer("event", number, verdict, "because", evidence=evidence, by="test")
        ruling = self.core.on_verdict(answer, kind, self.pair.now_ms)
        self.dispatch(self.core)
        return ruling

    def submit(self, call: Any) -> None:
        self.core.submit(call, self.pair.wall_ms)
        self.dispatch(self.core)

    def attach(self, consumer: Any) -> None:
        self.core.attach(consumer, self.pair.wall_ms)
        self.dispatch(self.core)

    def hand_over(
        self, reason: str = "asked", *, dry_run: bool = False, automatic: bool = False
    ) -> list[HandoffOutcome]:
        """Give the role away, or ask for it; how it ended arrives in the list."""
        told: list[HandoffOutcome] = []
        self.core.orders.now_ms = self.pair.wall_ms
        self.core.handoff.start(reason, dry_run=dry_run, automatic=automatic, on_end=told.append)
        self.dispatch(self.core)
        return told

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
            wire.extend(PeerFrame.FromString(frame_to_bytes(frame)) for frame in frames)
        while self.transfers:
            start = self.transfers.popleft()
            if isinstance(start, CheckTransfer):
                try:
                    asyncio.run(check_all(self, self.core, start))  # type: ignore[arg-type]  # a node as far as transfers need one
                except CorruptRecord as corrupt:
                    self.pair.corrupt.append(str(corrupt))
                    if not self.core.mastership.peer.on_not_whole(start.sync_id):
                        self.notice()
                        return
                else:
                    self.core.mastership.peer.on_checked(start.sync_id)
                self.dispatch(self.core)
                self.pump()  # SYNC_BEGIN, and what it begins
            elif start.sync_id == self.core.source.sync_id:
                frames = asyncio.run(_all(frames_of(self, self.core, start)))  # type: ignore[arg-type]  # a node as far as transfers need one
                self.pair.transfer_wires[self.name].extend(frames)

    def take_frame(self, frame: PeerFrame) -> None:
        """As `Session._read_data` does."""
        core = self.core
        met, self.in_session = self.in_session, self.in_session or frame.HasField("hello")
        if self.own is not None and self.in_session and not met:
            self.own.on_session()
        try:
            if not take_frame(core, frame, self.pair.now_ms, self.pair.wall_ms, met=met):
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
            if not self.core.target.expects(frame.sync_id):
                return
            self.receiver = Receiver(self, self.core, frame.sync_id)  # type: ignore[arg-type]  # a node as far as transfers need one
        try:
            if drive(self.receiver.on_frame(frame)):
                self.receiver = None
        except CorruptRecord as corrupt:
            self.pair.corrupt.append(str(corrupt))
            self.notice()

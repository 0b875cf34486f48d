"""One member's next step: a value and an event give the next value and what goes out. Decides nothing itself: it wakes
the product's core, lets it act, and takes it apart again.

Every answer is kept, so the core runs once for each pair of a value and an event; the search over whole pairs only
looks up. The steps around the core are the product's (`replica.node.steps`); what one event asked for is one group
commit, and they become durable oldest first. What `replica.peer.session` does is repeated here, as it is in the tests'
step-by-step pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from chaos.sim.kernel.frames import take_frame
from chaos.sim.model.core import NOW_MS, NUMBER, Book, Core, Disk, NoQueues, Value, open_core
from chaos.sim.model.values import handoff_lasts_too_long, handoff_state, put_back, time_passes, value_of
from failover.marks import DataMark, Role
from failover.register import RegisterState
from replica.core.replication.op_frame import OpFrame, frame_to_bytes
from replica.core.state.durable import checkpoint_key, decode_state, state_key
from replica.core.state.effects import (
    CheckTransfer,
    Fail,
    GetRegister,
    Persist,
    Rebuild,
    RoleChanged,
    Send,
    SetRegister,
    StartTransfer,
    StopTransfer,
)
from replica.node.steps import Durable, Steps
from storage.errors import CorruptRecord
from tandemq.peer.v1.peer_service_pb2 import Hello, PeerFrame
from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader

if TYPE_CHECKING:
    from failover.register import Register, SetOutcome
    from replica.core.state.effects import Effect, Order, Purpose

MEMBERS = ("a", "b")
Event: TypeAlias = tuple[Any, ...]


class RuleBroken(Exception):  # noqa: N818 - it is what the search looks for
    """A check failed; the text says which, and of whom."""


class Call(NamedTuple):
    """A compare-and-set that a member has asked for."""

    purpose: Purpose
    expected: Register
    desired: Register


class Moved(NamedTuple):
    """What a step of one member leads to."""

    local: int
    frames: tuple[int, ...] = ()
    calls: tuple[Call, ...] = ()
    reads: bool = False
    answered: tuple[tuple[bytes, int], ...] = ()
    """(digest of the operation, copies that the answer states)."""
    broke_off: bool = False
    """It gave the connection up itself."""


class Local(NamedTuple):
    """One member: its process, if it runs, and its disk."""

    member: int
    incarnation: int
    core: Value | None
    disk: Value
    writes: tuple[Value, ...]
    """Not durable yet, oldest first; each is what one event asked for."""
    rebuilds: tuple[int, ...]
    receiving: Value | None
    """A full transfer whose last frame has arrived, and which is not stored yet."""
    in_session: bool
    undo: Value | None = None
    """The disk before its last write, where the bound lets a disk lose that."""


class Facts(NamedTuple):
    """What the search asks of a member."""

    up: bool
    in_session: bool
    role: str
    serving: bool
    epoch: int
    writes: bool
    can_rebuild: bool
    can_receive: bool
    can_lose: bool
    can_order: bool
    can_hand_over: bool
    handing: bool
    in_step: bool
    """As a replica: its open is acknowledged."""
    required_both: bool
    tip: bytes
    held: frozenset[bytes]
    """Operations in its log."""
    durable: frozenset[bytes]
    """Operations on its disk."""
    repeats: tuple[tuple[bytes, int], ...]
    """What a client is answered that repeats an operation now."""
    good: bool
    """The durable mark."""


class Members:
    """Both members' steps, found once."""

    def __init__(self, *, keeps_undo: bool = False) -> None:
        self.keeps_undo = keeps_undo
        self.book = Book()
        self.cores: dict[tuple[int, int], Core] = {}
        self.locals: list[Local] = []
        self.facts: list[Facts] = []
        self._local_of: dict[Local, int] = {}
        self.frames: list[PeerFrame | Value] = []
        self._frame_of: dict[bytes | Value, int] = {}
        self.events: list[Event] = []
        self._event_of: dict[Event, int] = {}
        self._moves: dict[int, Moved] = {}
        self.ran = 0
        """Times that the core was really run."""

    # -- numbers for things ----------------------------------------------------------------------------------------

    def event(self, event: Event) -> int:
        """Its number."""
        number = self._event_of.get(event)
        if number is None:
            number = self._event_of[event] = len(self.events)
            self.events.append(event)
        return number

    def _frame(self, frame: PeerFrame | OpFrame | Value) -> int:
        key: bytes | Value
        if isinstance(frame, PeerFrame):
            key = frame.SerializeToString(deterministic=True)
        else:
            key = frame_to_bytes(frame) if isinstance(frame, OpFrame) else frame
        number = self._frame_of.get(key)
        if number is None:
            number = self._frame_of[key] = len(self.frames)
            self.frames.append(PeerFrame.FromString(key) if isinstance(key, bytes) else key)
        return number

    def local(self, local: Local) -> int:
        """Its number; what the search asks of it is found once."""
        number = self._local_of.get(local)
        if number is None:
            number = self._local_of[local] = len(self.locals)
            self.locals.append(local)
            self.facts.append(self._facts(local))
        return number

    def off(self, member: int, disk: Disk, incarnation: int = 0) -> int:
        """A member that does not run."""
        return self.local(Local(member, incarnation, None, disk.value(), (), (), None, False))

    # -- steps -----------------------------------------------------------------------------------------------------

    def step(self, local: int, event: int) -> Moved:
        """What the event leads to."""
        key = local << 24 | event
        moved = self._moves.get(key)
        if moved is None:
            self.ran += 1
            moved = self._moves[key] = Run(self, self.locals[local]).take(self.events[event])
        return moved

    def woken(self, local: Local) -> Core:
        """The core of that value. One core serves all values of a member's start."""
        assert local.core is not None
        key = (local.member, local.incarnation)
        core = self.cores.get(key)
        if core is None:
            member, peer = MEMBERS[local.member], MEMBERS[1 - local.member]
            core = self.cores[key] = open_core(member, peer, local.incarnation, Disk(), self.book)
        put_back(core, local.core, self.book)
        return core

    def _facts(self, local: Local) -> Facts:
        state_bytes, _, records = local.disk
        state = decode_state(state_bytes) if state_bytes is not None else None
        whole = state is not None and state.data not in (DataMark.EMPTY, DataMark.SYNCING)
        end = records[-1] if records else state.base_digest if state is not None else b""
        durable = self.book.operations.get(end, frozenset()) if whole else frozenset()
        good = state is not None and state.data.is_good
        if local.core is None:
            nothing: frozenset[bytes] = frozenset()
            return Facts(
                False, False, "off", False, 0, False, False, False, False, False, False, False, False, False, b"",
                nothing, durable, (), good,
            )  # fmt: skip
        core = self.woken(local)
        shared, mastership = core.shared, core.mastership
        held = self.book.operations.get(shared.log.digest, frozenset())
        steady = handoff_state(core) in ("master", "replica")
        return Facts(
            up=True,
            in_session=local.in_session,
            role=shared.role.name,
            serving=shared.serving,
            epoch=shared.state.epoch,
            writes=bool(local.writes),
            can_rebuild=bool(local.rebuilds) and not local.writes,
            can_receive=local.receiving is not None and not local.writes,
            can_lose=not local.in_session and mastership.peer.lost_at_ms is None,
            can_order=shared.serving and not shared.draining and shared.machine is not None,
            can_hand_over=local.in_session and steady and shared.role in (Role.MASTER, Role.REPLICA),
            handing=not steady,
            in_step=shared.role is Role.REPLICA and core.target.opened,
            required_both=len(mastership.commit.required) > 1,
            tip=shared.log.digest,
            held=held,
            durable=durable,
            repeats=self._repeats(core),
            good=good,
        )

    def _repeats(self, core: Core) -> tuple[tuple[bytes, int], ...]:
        shared, mastership = core.shared, core.mastership
        if not shared.serving or shared.draining or shared.progress.commit_index < shared.log.last_index:
            return ()
        return tuple(
            (digest, mastership.commit.copies) for digest in sorted(self.book.operations.get(shared.log.digest, ()))
        )


class Run:
    """One event at one member."""

    def __init__(self, members: Members, local: Local) -> None:
        self.members, self.book, self.before = members, members.book, local
        self.name, self.peer = MEMBERS[local.member], MEMBERS[1 - local.member]
        self.incarnation = local.incarnation
        self.disk = Disk(*local.disk)
        self.writes = list(local.writes)
        self.rebuilds = list(local.rebuilds)
        self.receiving = local.receiving
        self.in_session, self.undo = local.in_session, local.undo
        self.frames: list[int] = []
        self.calls: list[Call] = []
        self.reads = False
        self.broke_off = False
        self.core: Core | None = None if local.core is None else members.woken(local)
        self.steps = Steps()
        self.rebuild_asked = False
        self._digest_of: dict[tuple[int, bytes], bytes] = {}
        """By log index and what is stored: records that this event appends."""

    def take(self, event: Event) -> Moved:
        """Carry the event out."""
        getattr(self, f"_{event[0]}")(*event[1:])
        core = self.core
        if core is None:
            return Moved(self.members.off(self.before.member, self.disk, self.incarnation))
        self._dispatch(core)
        if self.in_session:
            self._pump(core)
        self._close_write(core)
        answered = tuple((self._digest(core, index), copies) for index, copies in core.answered)
        local = Local(
            self.before.member, self.incarnation, value_of(core, self.book), self.disk.value(), tuple(self.writes),
            tuple(self.rebuilds), self.receiving, self.in_session, self.undo,
        )  # fmt: skip
        number = self.members.local(local)
        return Moved(number, tuple(self.frames), tuple(self.calls), self.reads, answered, self.broke_off)

    def _digest(self, core: Core, log_index: int) -> bytes:
        entry = core.shared.log.get(log_index)
        assert entry is not None
        return entry.digest

    @property
    def running(self) -> Core:
        """The core, which there is."""
        assert self.core is not None
        return self.core

    # -- effects ---------------------------------------------------------------------------------------------------

    def _dispatch(self, core: Core) -> None:
        while effects := core.take():
            for effect in effects:
                self._note_records(core, effect)
                order = self.steps.on_effect(core, effect)
                if order is not None:
                    self._carry_out(core, order)

    def _carry_out(self, core: Core, order: Order) -> None:
        match order:
            case Send(frame):
                self._send(frame)
            case GetRegister():
                self.reads = True
            case SetRegister(expected, desired, purpose, _):
                self._check_claim(core, desired)
                self.calls.append(Call(purpose, expected, desired))
            case Rebuild(up_to):
                self.rebuilds, self.rebuild_asked = [up_to], True  # an older one would not be believed
            case CheckTransfer(sync_id):
                core.mastership.peer.on_checked(sync_id)
            case StartTransfer(sync_id, log_index, log_digest, _, _):
                self._send(("transfer", sync_id, log_index, log_digest))
            case StopTransfer():
                self.receiving = None
            case RoleChanged():
                self._send(self._hello(core))
            case Fail(why):
                raise RuleBroken(f"{self.name} ends itself: {why}")

    def _check_claim(self, core: Core, desired: Register) -> None:
        if desired.state is not RegisterState.CLAIMED:
            return
        register, state = core.mastership.view.register, core.shared.state
        known = register is not None and not register.vouches_for_nobody
        if known and register is not None and self.name not in register.eligible_set:
            raise RuleBroken(f"{self.name} claims epoch {desired.epoch} and is not in the committed set")
        if known and not state.data.is_good:
            raise RuleBroken(f"{self.name} claims epoch {desired.epoch} with a copy that is {state.data.name}")

    def _send(self, frame: PeerFrame | OpFrame | Value) -> None:
        if self.in_session:
            self.frames.append(self.members._frame(frame))  # noqa: SLF001 - its own workshop

    def _hello(self, core: Core) -> PeerFrame:
        return PeerFrame(hello=Hello(member=self.name, incarnation=self.incarnation, domains=[core.hello()]))

    def _pump(self, core: Core) -> None:
        while frames := core.source.pull():
            assert isinstance(frames, list), "every record is in memory"
            for frame in frames:
                self._send(frame)

    # -- disk ------------------------------------------------------------------------------------------------------

    def _note_records(self, core: Core, effect: Effect) -> None:
        if not isinstance(effect, Persist):
            return
        parent = None
        for entry in effect.appends:
            before = core.shared.log.digest_at(entry.log_index - 1)
            parent = before[1] if before is not None else parent
            if parent is not None:
                self.book.note(entry, parent)
            parent = self._digest_of[entry.log_index, entry.stored] = entry.digest

    def _close_write(self, core: Core) -> None:
        """What one event asked for is written in one transaction."""
        generation = core.shared.progress.generation
        if generation > 1:  # the log was cut
            self.writes = [(*write[:-1], True) for write in self.writes]
            self.rebuilds = self.rebuilds if self.rebuild_asked else []
        group = self.steps.begin()
        if group is None:
            return
        batch = group.batch
        joined = dict(self.steps.end()).get(core, Durable(generation, 0, []))
        digests = tuple(self._digest_of[each.log_index, each.record] for each in batch.appends)
        meta = tuple(sorted(batch.meta.items(), key=lambda item: item[0]))
        stale = joined.last_index > 0 and joined.generation != generation
        wipe, cut = NUMBER in batch.wipe, batch.cut.get(NUMBER)
        self.writes.append((wipe, cut, digests, meta, joined.last_index, tuple(joined.tokens), stale))

    def _disk(self) -> None:
        """The oldest write is durable, and the core hears of it."""
        wipe, cut, appends, meta, last_index, tokens, stale = self.writes.pop(0)
        entries = self.book.entries
        self.undo = self.disk.value() if self.members.keeps_undo else None
        records = () if wipe else self.disk.records
        if cut is not None:
            records = tuple(digest for digest in records if entries[digest].log_index <= cut)
        self.disk.records = (*records, *appends)
        for key, data in meta:
            if key == state_key(NUMBER):
                self.disk.state = data
            elif key == checkpoint_key(NUMBER):
                self.disk.checkpoint = int.from_bytes(data[:8], "big") if data is not None else -1
        if last_index or tokens:
            self.running.on_persisted(0 if stale else 1, last_index, list(tokens))

    def _rebuilt(self) -> None:
        up_to = self.rebuilds.pop(0)
        self.running.on_rebuilt(NoQueues(up_to), NOW_MS)  # type: ignore[arg-type]  # stands in for the machine

    def _received(self) -> None:
        """The last part of a full transfer is stored, as `Receiver._on_end` does."""
        assert self.receiving is not None
        sync_id, log_index, log_digest = self.receiving
        self.receiving = None
        target = self.running.target
        if target.expects(sync_id) and self.running.shared.state.data is DataMark.SYNCING:
            assert target.base_index == log_index
            target.on_transfer_done(log_index, log_digest, b"")

    # -- life ------------------------------------------------------------------------------------------------------

    def _crash(self) -> None:
        self.core = None

    def _lose_disk(self) -> None:
        self.disk = Disk()

    def _lie(self) -> None:
        """The process ends, and its last write was never on the disk that had answered for it."""
        self.core, self.disk = None, self.disk if self.undo is None else Disk(*self.undo)

    def _start(self) -> None:
        self.incarnation += 1
        self.writes, self.rebuilds, self.receiving, self.in_session = [], [], None, False
        core = open_core(self.name, self.peer, self.incarnation, self.disk, self.book)
        if core.shared.state.data is DataMark.SYNCING:
            core.shared.machine = NoQueues(0)  # type: ignore[assignment]  # as `recover` does
        core.shared.progress.generation = 1
        self.members.cores[self.before.member, self.incarnation] = core
        self.core = core
        core.start(NOW_MS, NOW_MS)

    # -- the session -----------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        """The HELLO that opens a connection; it is on the wire before the session begins."""
        self.frames.append(self.members._frame(self._hello(self.running)))  # noqa: SLF001 - as above

    def _notice(self) -> None:
        """This side hears that the connection is gone."""
        if self.in_session:
            self.in_session = False
            self.receiving = None
            self.running.on_disconnected(NOW_MS)

    def _frames(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            if self.broke_off:
                return
            self._one_frame(number)
            self._dispatch(self.running)

    def _one_frame(self, number: int) -> None:
        frame = self.members.frames[number]
        core = self.running
        if not isinstance(frame, PeerFrame):
            _, sync_id, log_index, log_digest = frame
            if core.target.expects(sync_id):
                self.receiving = (sync_id, log_index, log_digest)
            return
        met, self.in_session = self.in_session, self.in_session or frame.HasField("hello")
        try:
            if not take_frame(core, frame, NOW_MS, NOW_MS, met=met):
                self._send(self._hello(core))
        except CorruptRecord:
            self._dispatch(core)
            self.broke_off = True
            self._notice()

    # -- time, verdicts, the register, people ----------------------------------------------------------------------

    def _time(self) -> None:
        time_passes(self.running)
        self.running.on_tick(NOW_MS, NOW_MS)

    def _deadline(self) -> None:
        handoff_lasts_too_long(self.running)
        self.running.on_tick(NOW_MS, NOW_MS)

    def _lost(self) -> None:
        """The detector's verdict, right or wrong."""
        self.running.on_lost(NOW_MS, refused=True)

    def _read(self, register: Register | None) -> None:
        self.running.on_register(register, NOW_MS)

    def _answer(self, purpose: Purpose, outcome: SetOutcome, register: Register | None) -> None:
        self.running.on_set_result(purpose, outcome, register, NOW_MS)

    def _order(self, number: int) -> None:
        header = RecordHeader(time_ms=NOW_MS, enqueue=EnqueueOp(first_sequence=number, count=1))
        self.running.orders.now_ms = NOW_MS
        self.running.orders.order(header)

    def _hand_over(self) -> None:
        self.running.orders.now_ms = NOW_MS
        self.running.handoff.start("asked")

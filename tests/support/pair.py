"""A whole pair in one process, step by step: the product's core, recovery, transfer and memory store, explicit queues.

Nothing happens by itself. A test delivers one frame, syncs one batch, answers one register call, or says `settle`.
Time is a number. The shell's rules that are repeated here are those of `replica.node.loop` and `replica.peer.session`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from failover.authority import MemoryRegisters, outcome_of
from failover.marks import Role
from failover.register import Register, SetOutcome
from replica.core.mastership.leaving import SLOW_PEER_MS
from replica.core.state.effects import SetRegister
from replica.machine import Limits
from tandemq.peer.v1.peer_service_pb2 import DomainHeartbeat, PeerFrame, TransferFrame
from tests.support.checks import Checks
from tests.support.member import NAME, NUMBER, Beside, Member, RegisterCall, drive

WALL_MS = 1_700_000_000_000
TICK_MS = 20
SETTLE_STEPS_MAX = 20_000


class Pair:
    """Both members, the wires between them, the register and its calls."""

    def __init__(self, *, limits: Limits | None = None, slow_peer_ms: int = SLOW_PEER_MS) -> None:
        self.limits = limits or Limits(dedup_sequences=1000)
        self.slow_peer_ms = slow_peer_ms
        self.asks_rights = False
        """Members that start from here on ask about the rights of whoever sends."""
        self.own_of: Callable[[Member], Beside] | None = None
        """Makes the domain of its own that each member has from its next start on; None: there is none."""
        self.now_ms = 10_000
        self.registers = MemoryRegisters()
        self.calls: list[RegisterCall] = []
        self.late: list[RegisterCall] = []
        self.witness_away = False
        """Every call ends unknown; a set may still land (`land_late`)."""
        self.corrupt: list[str] = []
        self.handoff_rows: list[tuple[str, str, str]] = []
        """Member, state and event of each row of the handoff table that was taken."""
        self.seen: dict[str, int] = {}
        """Queue: highest index that a client was told."""
        self.checks = Checks(self)
        self.listener: Callable[[str, Member, Any], None] = lambda _what, _member, _thing: None
        """Hears of each effect, frame, landed or lost call, and of the end of each step: what, of whom, the thing."""
        self.distrust = False
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

    def connect(self, *, distrust: bool = False) -> None:
        """A new connection, once both sides know that the old one is over. HELLOs cross.

        `distrust`: the digests in them, and in later ones, are wrong, as of a copy that differs: it takes a full
        transfer.
        """
        assert len(self.up) == 2
        assert not self.greeted, "the old connection must be noticed first"
        self.linked = True
        self.distrust = distrust
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
        frame = wire.popleft()
        self.listener("frame", sender, frame)
        receiver.take_frame(frame)
        return True

    def deliver_transfer(self, sender: Member) -> bool:
        """The next frame of the transfer stream arrives, once its SYNC_BEGIN has."""
        receiver = sender.peer
        wire = self.transfer_wires[sender.name]
        if not wire or not receiver.up or not receiver.in_session:
            return False
        frame = wire[0]
        known = receiver.receiver is not None and receiver.receiver.sync_id == frame.sync_id
        if (
            not known
            and not receiver.core.target.expects(frame.sync_id)
            and receiver.core.target.sync_id < frame.sync_id
        ):
            return False
        wire.popleft()
        self.listener("transfer", sender, frame)
        receiver.take_transfer(frame)
        return True

    def beat(self, sender: Member) -> None:
        """A heartbeat arrives at once."""
        receiver = sender.peer
        if not (self.linked and sender.in_session and receiver.up and receiver.in_session):
            return
        if sender.own is not None and receiver.own is not None:
            receiver.own.heard(sender.own.said())
        if sender.role is Role.MASTER:
            shared = sender.shared
            receiver.core.on_heartbeat(
                DomainHeartbeat(
                    domain=NUMBER,
                    epoch=shared.state.epoch,
                    role=shared.role.value,
                    durable_index=shared.progress.durable_index,
                    commit_index=shared.progress.commit_index,
                )
            )
            receiver.dispatch(receiver.core)

    # -- the register ----------------------------------------------------------------------------------------------

    def land(self, call: RegisterCall) -> None:
        """The call reaches the register."""
        if call.landed is None:
            effect = call.effect
            if isinstance(effect, SetRegister):
                if effect.forced:
                    desired = effect.desired
                    call.landed = self.registers.force(
                        NAME, effect.expected.version, desired.epoch, desired.holder, effect.forced
                    )
                else:
                    call.landed = self.registers.set(NAME, effect.expected, effect.desired)
                self.listener("landed", self.members[call.member], call)
            else:
                call.landed = self.register

    def answer(self, call: RegisterCall) -> None:
        """It lands if it has not, and its caller hears the answer."""
        if self.witness_away:
            self.lose(call)
            return
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
        self.listener("lost", self.members[call.member], call)
        member = self._caller(call)
        if member is None:
            return
        if isinstance(call.effect, SetRegister):
            member.core.on_set_result(call.effect.purpose, SetOutcome.UNKNOWN, None, self.now_ms)
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

    # -- step by step ----------------------------------------------------------------------------------------------

    def one(self, *, senders: str = "ab", disks: str = "ab", keep: tuple[str, ...] = ()) -> bool:
        """One thing of what is under way; False at rest. For `disks` and `keep` see `quiesce`; `senders`: whose frames
        arrive.
        """
        for member in self.up:
            if member.name in senders:
                member.pump()
                if self.deliver(member) or self.deliver_transfer(member):
                    return True
        for member in self.up:
            if member.name not in disks:
                continue
            if member.steps.writing is None and not member.steps.pending.empty:
                member.write()
                return True
            if member.steps.writing is not None:
                member.synced()
                return True
            if member.rebuilds:
                member.rebuilt()
                return True
        for call in list(self.calls):
            if not (keep and call.name.startswith(keep)):
                self.answer(call)
                return True
        return False

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
                if member.up and member.name in disks and not member.steps.at_rest:
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
            and master.core.mastership.commit.required == {"a", "b"}
            and master.peer.role is Role.REPLICA
            and master.peer.core.target.opened
            and master.shared.log.digest == master.peer.shared.log.digest
        )

    def heal(self, milliseconds: int = 80_000) -> None:
        """Everything works again: both members up and linked; waits until they are a pair.

        That long, because a peer that was too slow again and again is left alone for up to a minute.
        """
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
            f"log {m.shared.log.last_index} durable {m.shared.progress.durable_index} "
            f"commit {m.shared.progress.commit_index} "
            f"{m.core.source.phase.name} opened {m.core.target.opened} "
            f"machine {m.shared.machine is not None}: {m.shared.last_change}"
            for m in self.up
        ]
        return "; ".join([*parts, repr(self.register)])


__all__ = ["NAME", "NUMBER", "Member", "Pair", "RegisterCall", "drive"]

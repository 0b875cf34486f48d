"""The state that the parts of one domain's core share. Holds it and keeps its invariants; decides nothing."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from failover.marks import DataMark, Link, Role
from replica.core.state.durable import state_key
from replica.core.state.effects import Effect, Note, Persist, RoleChanged, Send
from tandemq.peer.v1.peer_service_pb2 import PeerFrame
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replica.core.state.durable import DomainState
    from replica.core.state.log import DomainLog
    from replica.machine import Limits, Machine
    from storage.doubt import Doubt
    from tandemq.peer.v1.record_pb2 import RecordHeader


class Pending(NamedTuple):
    """A record in the log that is not applied to the queues yet (replica)."""

    log_index: int
    epoch: int
    header: RecordHeader


class Shared:
    """One domain at one member.

    Invariants: applied <= commit <= last on a replica; commit <= durable <= last; `machine` is None only while it is
    being rebuilt.
    """

    def __init__(
        self, domain: int, member: str, peer: str, incarnation: int, state: DomainState, log: DomainLog, limits: Limits
    ) -> None:
        self.domain = domain
        self.name = state.name
        self.member = member
        self.peer = peer
        self.incarnation = incarnation
        self.limits = limits
        self.state = state
        self.log = log
        self.machine: Machine | None = None
        self.role = Role.INIT
        self.link = Link.DOWN
        self.suspect = False
        self.draining = False
        """A handoff is under way: this master orders nothing more, what arrives is parked."""
        self.master = ""
        self.last_change = "starting"
        self.told_register = b""
        """The register as HELLO carries it, where the members keep it themselves."""
        self.durable_index = log.last_index
        self.commit_index = 0
        self.pending: deque[Pending] = deque()
        self.checkpoint_index = 0
        """Of the stored snapshot of the queues: their state can be made anew from there on, and from nowhere before it
        once records are gone.
        """
        self.trimming = 0
        """Records up to here are gone, or about to go: a place there is promised to nobody."""
        self.wants_full = False
        """An operator wants everything anew, even where the logs could be compared."""
        self.generation = 0
        """Grows when the log is cut, so that a late `durable` of a cut record is not believed."""
        self.effects: list[Effect] = []
        self.on_apply: Callable[[Pending], None] | None = None
        """Told of each record that is applied here as replica, while it has held requests to answer."""
        self.ordered_from = 0
        """From here to its end the log was ordered by this process as master; 0: by others, or before it started."""
        self.sent_up_to = 0
        """Of that, what the peer was sent: it may hold it, take over and answer it, whatever this member hears."""
        self.volatile_bodies: dict[int, bytes] = {}
        self.volatile_bytes = 0
        self.volatile_missing: set[int] = set()
        """Above the floor, and came without the body that its master had lost."""
        self.saved: deque[tuple[int, Sequence[int]]] = deque()
        """Log index of a SAVE, and of the records whose bodies it writes: they stay in memory until it is durable here
        and committed.
        """
        self.doubts: Sequence[Doubt] = ()
        """What the copy could not prove about its last writes when this process opened it."""
        self.instance = b""
        """Of the directory, drawn at random when it was made: what is named after it is named once."""
        self.damaged: set[int] = set()
        """Log indexes of records that this master found damaged on its disk: nobody is given what is in them here."""
        self.volatile_floor = log.last_index
        """Records up to here were stored before this process started: their volatile messages are gone here."""

    @property
    def tags(self) -> dict[str, object]:
        """What every line of the log about this domain carries beside its text."""
        return {"domain": self.name, "epoch": self.state.epoch}

    def take(self) -> list[Effect]:
        """The effects since the last call, in order."""
        out = self.effects
        self.effects = []
        return out

    def send(self, **frame: object) -> None:
        """Queue a control frame of this domain for the peer."""
        self.effects.append(Send(PeerFrame(domain=self.domain, epoch=self.state.epoch, **frame)))  # type: ignore[arg-type]  # oneof by keyword

    def persist_state(self, token: object | None = None, **extra: object) -> None:
        """Write the domain's facts, with whatever belongs to the same transaction."""
        meta: dict[str, bytes | None] = {state_key(self.domain): self.state.encode()}
        self.effects.append(Persist(meta=meta, token=token, **extra))  # type: ignore[arg-type]  # fields of Persist by keyword

    def become(self, role: Role, reason: str) -> None:
        """Change the role and say why."""
        if role is self.role:
            return
        self.role = role
        self.last_change = reason
        self.effects.append(RoleChanged(role.value, self.state.epoch, reason))

    def tell_transfer(self, text: str, **facts: str) -> None:
        """A state transfer began or ended."""
        self.effects.append(Note(PairEventKind.PAIR_EVENT_KIND_TRANSFER, text, facts))

    def tell_damage(self, log_index: int) -> None:
        """A stored record is not what was written. Told of the first one, and again when they have doubled."""
        if log_index in self.damaged:
            return
        self.damaged.add(log_index)
        count = len(self.damaged)
        if count & (count - 1):
            return
        so_far = f", {count} records so far" if count > 1 else ""
        way = f"hand off to {self.peer}, and resync {self.member} in full" if self.peer else "there is no other copy"
        text = f"record {log_index} is damaged at {self.member}{so_far}: it is kept, and given to nobody; {way}"
        facts = {"log_index": str(log_index), "damaged": str(count)}
        self.effects.append(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))

    def mark(self, data: DataMark) -> None:
        """Change what this copy is worth (in memory; the caller persists)."""
        self.state.data = data

    def follow(self, epoch: int) -> None:
        """The peer's epoch, and with it the end of having been alone (in memory; one write, P10).

        A mark SOLE of an epoch before would pass for one of this epoch: over an empty register both members would say
        that they were alone in it, and a start alone would not ask whether the peer has gone on.
        """
        self.state.owner, self.state.epoch = self.peer, epoch
        if self.state.data is DataMark.SOLE:
            self.mark(DataMark.IN_SYNC)

    def apply_up_to(self, log_index: int, *, tell: bool = True) -> list[int]:
        """Apply pending records; returns the log indexes of records that hold no live message any more.

        `tell` is off at a promotion: what is applied then is not committed, and nobody may be answered from it (P14).
        """
        freed: list[int] = []
        machine = self.machine
        if machine is None:
            return freed
        while self.pending and self.pending[0].log_index <= log_index:
            record = self.pending.popleft()
            freed.extend(machine.apply(record.log_index, record.epoch, record.header).freed)
            if tell and self.on_apply is not None:
                self.on_apply(record)
        self.forget_bodies(freed)
        if self.saved:
            self.forget_saved()
        return freed

    def keep_body(self, log_index: int, body: bytes) -> None:
        """Keep the body of a record that is not on disk."""
        self.volatile_bodies[log_index] = body
        self.volatile_bytes += len(body)

    def has_body(self, log_index: int) -> bool:
        """Whether the volatile messages of a record are at hand here."""
        if log_index in self.volatile_bodies:
            return True
        return log_index > self.volatile_floor and log_index not in self.volatile_missing

    def forget_saved(self) -> None:
        """Let go of bodies that are on disk for good. Not before the commit: if the record that says so is cut, they
        are volatile again, and a peer that has lost its own may ask for them.
        """
        below = min(self.durable_index, self.commit_index)
        while self.saved and self.saved[0][0] <= below:
            self.forget_bodies(self.saved.popleft()[1])

    def forget_bodies(self, freed: Sequence[int]) -> None:
        """Let go of bodies whose messages are all gone."""
        if self.volatile_missing:
            self.volatile_missing.difference_update(freed)
        if not self.volatile_bodies:
            return
        for log_index in freed:
            body = self.volatile_bodies.pop(log_index, None)
            if body is not None:
                self.volatile_bytes -= len(body)

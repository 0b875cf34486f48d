"""The state that the parts of one domain's core share. Holds it and keeps its invariants; decides nothing.

How far the log has come, the bodies that are on no disk, and what the shell is asked for have an owner each; Shared is
where everybody finds them, and itself owns where this member stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import DataMark, Link, Role
from replica.core.state.effects import Note
from replica.core.state.outbox import Outbox
from replica.core.state.progress import Progress
from replica.core.state.volatile import VolatileBodies
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replica.core.state.durable import DomainState
    from replica.core.state.log import DomainLog
    from replica.core.state.progress import Pending
    from replica.machine import Limits, Machine
    from storage.doubt import Doubt


class Shared:
    """One domain at one member. `machine` is None only while it is being rebuilt."""

    def __init__(
        self,
        domain: int,
        member: str,
        peer: str,
        incarnation: int,
        state: DomainState,
        log: DomainLog,
        limits: Limits,
        *,
        checkpoint_index: int = 0,
        doubts: Sequence[Doubt] = (),
        instance: bytes = b"",
    ) -> None:
        self.domain = domain
        self.name = state.name
        self.member = member
        self.peer = peer
        self.incarnation = incarnation
        self.limits = limits
        self.state = state
        self.log = log
        self.progress = Progress(log, checkpoint_index=checkpoint_index)
        self.volatile = VolatileBodies(self.progress, floor=log.last_index)
        self.outbox = Outbox(domain, state)
        self.machine: Machine | None = None
        self.role = Role.INIT
        self.link = Link.DOWN
        self.suspect = False
        self.serving = False
        """This member orders, commits and answers; `role` says in which epoch's course. `MemberRole` writes both."""
        self.draining = False
        """A handoff is under way: this master orders nothing more, what arrives is parked."""
        self.master = ""
        self.last_change = "starting"
        self.hello_register = b""
        """The register as HELLO carries it, where the members keep it themselves."""
        self.wants_full = False
        """An operator wants everything anew, even where the logs could be compared."""
        self.doubts = doubts
        """What the copy could not prove about its last writes when this process opened it."""
        self.instance = instance
        """Of the directory, drawn at random when it was made: what is named after it is named once."""
        self.damaged: set[int] = set()
        """Log indexes of records that this master found damaged on its disk: nobody is given what is in them here."""

    @property
    def tags(self) -> dict[str, object]:
        """What every line of the log about this domain carries beside its text."""
        return {"domain": self.name, "epoch": self.state.epoch}

    def explain(self, reason: str) -> None:
        """Why the role is still what it is: for who asks."""
        self.last_change = reason

    def set_role(self, role: Role, reason: str) -> None:
        """What this member is in the domain, and why; for `MemberRole` alone."""
        self.role = role
        self.last_change = reason

    def set_serving(self, *, serving: bool) -> None:
        """Whether it orders, commits and answers; for `MemberRole` alone."""
        self.serving = serving

    def set_link(self, link: Link) -> None:
        """How far the two members are with each other."""
        self.link = link

    def set_master(self, member: str) -> None:
        """Who serves; empty: nobody is known to."""
        self.master = member

    def set_suspect(self, *, suspect: bool) -> None:
        """Whether the peer, or this process, has been silent."""
        self.suspect = suspect

    def set_incarnation(self, number: int) -> None:
        """The number under which this start was counted."""
        self.incarnation = number

    def set_register(self, register: bytes) -> None:
        """The register as HELLO carries it."""
        self.hello_register = register

    def want_full(self, *, wanted: bool) -> None:
        """An operator wants everything anew, or it is made, or not to be had."""
        self.wants_full = wanted

    def drain(self, *, draining: bool) -> None:
        """A handoff begins, or is over."""
        self.draining = draining

    def set_machine(self, machine: Machine | None) -> None:
        """The queues' state, made anew. None: it is of a log that is there no more, and is being rebuilt."""
        self.machine = machine

    def report_damage(self, log_index: int) -> None:
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
        self.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))

    def forget_damage(self) -> None:
        """What is on disk now is looked at anew."""
        self.damaged.clear()

    def mark(self, data: DataMark) -> None:
        """Change what this copy is worth (in memory; the caller persists)."""
        self.state.data = data

    def follow(self, epoch: int) -> None:
        """The peer's epoch, and with it the end of having been alone (in memory; one write, P10).

        A mark SOLE of an epoch before would pass for one of this epoch: over an empty register both members would say
        that they were alone in it, and a start alone would not ask whether the peer has gone on.
        """
        self.state.follow_epoch(epoch, self.peer)
        if self.state.data is DataMark.SOLE:
            self.mark(DataMark.IN_SYNC)

    def apply_up_to(self, log_index: int, on_applied: Callable[[Pending], None] | None) -> list[int]:
        """Apply pending records, and report each; returns the log indexes of records that hold no live message any
        more.

        `on_applied` is None at a promotion: what is applied then is not committed, and nobody may be answered from it
        (P14).
        """
        freed: list[int] = []
        machine, pending = self.machine, self.progress.pending
        if machine is None:
            return freed
        assert on_applied is None or log_index <= self.progress.commit_index, f"{log_index} is not committed"
        while pending and pending[0].log_index <= log_index:
            record = pending.popleft()
            freed.extend(machine.apply(record.log_index, record.epoch, record.header).freed)
            if on_applied is not None:
                on_applied(record)
        self.volatile.forget(freed)
        if self.volatile.saved:
            self.volatile.forget_saved()
        return freed

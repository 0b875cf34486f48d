"""Follows where named readers of the journal are, and asks at each trim whether what they have not read stays.

What a reader has asked for counts, answered or not: its record may be there. A copy that was filled anew, or was
trimmed further than the master's before the reader came or began again, has less, as the product says
(docs/decisions/0023). Of what it has, nothing that is wanted goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.sim.judges.invariants import NUMBER, STATE
from failover.marks import DataMark
from replica.core.state.durable import decode_state
from replica.machine.features.readers import all_readers
from tandemq.peer.v1.record_pb2 import READER_ACTION_REGISTER

if TYPE_CHECKING:
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair
    from storage.store import WriteBatch

RULE = "what a reader wants is kept"


class Places:
    """Of one run."""

    def __init__(self, pair: Pair, *, may_be_lost: bool) -> None:
        self._pair = pair
        self.may_be_lost = may_be_lost
        """The limits are so low that a reader loses its place."""
        self._furthest: dict[str, int] = {}
        """By reader: the log index before which it may have said that it needs nothing."""
        self._registered: dict[str, int] = {}
        """By reader: when it began there, or began again; domain time, ms."""
        self._kept: dict[str, int] = {}
        """By member: first record that it has."""
        self._filled = 0
        """How often a copy was emptied to be filled anew."""
        self._safe: dict[str, int] = {}
        """Reader that began where both copies had everything: how often copies had been emptied by then."""

    def on_commit(self, member: str, batch: WriteBatch) -> None:
        """A batch is on that member's disk."""
        self._filled += NUMBER in batch.wipe
        stored = batch.meta.get(STATE)
        if stored is None:
            return
        state, before = decode_state(stored), self._kept.get(member, 0)
        kept = self._kept[member] = state.kept_from
        if NUMBER in batch.wipe or state.data is DataMark.SYNCING:
            return  # its log begins where that of whoever fills it ends
        for name, place in self._furthest.items():
            if max(before, place) < kept and not self._is_lost(member, name):
                text = f"{member} keeps its log from {kept} on, and {name} has read up to {place}"
                self._pair.run.violation(RULE, text)

    def _is_lost(self, member: str, name: str) -> bool:
        """The pair has said so; or this member has not been sent the record yet by which the reader began there."""
        domain = self._pair.members[member].domain
        if domain is None or domain.shared.machine is None:
            return True
        found = next((each for each in all_readers(domain.shared.machine.state) if each.name == name), None)
        if found is None or found.registered_ms < self._registered[name]:
            ops = (each.header.reader for each in domain.shared.progress.pending)
            return all(op.name != name or op.action != READER_ACTION_REGISTER for op in ops)
        return bool(found.lost_until)

    def asks(self, name: str, log_index: int) -> None:
        """It is about to say that it has read everything before that."""
        if name in self._furthest:
            self._furthest[name] = max(self._furthest[name], log_index)

    def begins(self, name: str, log_index: int, registered_ms: int) -> None:
        """It was answered that this is its place, and when it was given one."""
        self._furthest[name], self._registered[name] = log_index, registered_ms
        self._safe.pop(name, None)
        if all(kept <= log_index for kept in map(self._first, self._pair.members.values())):
            self._safe[name] = self._filled

    @staticmethod
    def _first(member: SimMember) -> float:
        """First record on its disk, for a reader; nobody knows where a log will begin that is being filled. A disk that
        holds nothing is filled before anybody reads there, and counts as emptied then.
        """
        stored = member.machine.disk.meta(STATE)
        if stored is None:
            return 0
        state = decode_state(stored)
        return float("inf") if state.data is DataMark.SYNCING else state.kept_from

    def forget(self, name: str) -> None:
        """Where it is, nobody knows."""
        self._furthest.pop(name, None)
        self._safe.pop(name, None)

    def is_kept(self, name: str) -> bool:
        """Whether nothing that the product knows of could have taken what it wants from one of the copies."""
        return self._safe.get(name) == self._filled and not self._replaced()

    def _replaced(self) -> bool:
        return any(member.machine.disk.replaced for member in self._pair.members.values())

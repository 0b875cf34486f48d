"""Judges a simulated pair at every step: each batch that reaches a disk, and whatever a member's core asks for.

The rules are those of the protocol (pair-protocol.md section 5); what breaks one is reported to the run, once a rule
and name. Nothing is scanned: a step costs what it is about. That a replica's log is a prefix of its master's in one
epoch follows from the first rule, since the digest of a record is chained to all before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chaos.sim.kernel.environment import epoch_of
from failover.marks import DataMark
from replica.core.replication.divergence import UNANSWERED
from replica.core.state.durable import data_of, decode_state, state_key
from replica.core.state.effects import CheckTransfer, Deliver, Persist, Reply, Salvage, StartTransfer, StopTransfer
from replica.core.state.outcomes import EnqueueDone, LeaseDone
from replica.machine import SaveLimits
from replica.machine.plan.time import plan_volatile_lost
from replica.node.members import MAIN, domain_number
from storage.errors import CorruptRecord
from storage.records import read_stored_prefix, split, verify_stored
from tandemq.peer.v1.record_pb2 import RecordHeader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chaos.sim.judges.rows import Steps
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair
    from replica.core.domain import Domain
    from replica.core.state.effects import Effect
    from storage.store import WriteBatch
    from tandemq.peer.v1.record_pb2 import QueueRanges

NUMBER = domain_number(MAIN)
STATE = state_key(NUMBER)
LEASE_LOG_BITS = 40
SAVED_AT_ONCE = SaveLimits(records=2, body_bytes=1 << 20)
"""Few: a queue of a simulated run takes several parts."""


class Name(NamedTuple):
    """What names a record, in any log and for ever."""

    epoch: int
    log_index: int


class Invariants:
    """The memory of what was seen of one pair."""

    def __init__(self, pair: Pair, steps: Steps) -> None:
        self._pair, self._steps = pair, steps
        self.digests: dict[Name, bytes] = {}
        self.owners: dict[int, str] = {}
        self.epochs: dict[str, int] = {}
        """Member: the epoch on its disk."""
        self.acknowledged: dict[Name, str] = {}
        """Records that were acknowledged, and by which member."""
        self.highest: dict[int, Name] = {}
        """Epoch: the last of them that was given in it."""
        self.modest: set[tuple[int, int]] = set()
        """(epoch, index) of what was answered with one copy though nobody need be alone, see `_is_modest`."""
        self._serving: dict[str, int] = {}
        self._replaced: dict[str, int] = {}
        self._reported: set[str] = set()

    def _broken(self, rule: str, text: str) -> None:
        """Reported once a rule. Its text is written where it is broken only: what holds is looked at a thousand
        times.
        """
        if rule not in self._reported:
            self._reported.add(rule)
            self._pair.run.violation(rule, text)

    # -- disks ---------------------------------------------------------------------------------------------------------

    def on_commit(self, member: str, batch: WriteBatch) -> None:
        """A batch is on that member's disk."""
        for append in batch.appends:
            if append.domain == NUMBER:
                prefix = read_stored_prefix(append.record)
                name = Name(prefix.epoch, append.log_index)
                known = self.digests.setdefault(name, prefix.digest)
                if known != prefix.digest:
                    self._broken("one name, one record", f"{member} stores a second record under the name {name}")
        stored = batch.meta.get(STATE)
        if stored is not None:
            self._on_state(member, stored)

    def _on_state(self, member: str, stored: bytes) -> None:
        epoch, disk = decode_state(stored).epoch, self._pair.members[member].machine.disk
        if self._replaced.get(member, 0) != disk.replaced:
            self._replaced[member] = disk.replaced
            self.epochs[member] = 0
        before = self.epochs.get(member, 0)
        if epoch < before:
            self._broken("epochs never fall", f"{member} was in epoch {before} and stores {epoch}")
        self.epochs[member] = epoch

    # -- cores ---------------------------------------------------------------------------------------------------------

    def watch(self, member: SimMember, domain: Domain) -> None:
        """A process of that member has opened its domain: look at everything that it asks for from here on."""
        take, process, steps = domain.take, member.process, self._steps
        shared, source, mastership, holding = domain.shared, domain.source, domain.mastership, domain.holding
        seen: object = None

        def watched() -> list[Effect]:
            nonlocal seen
            effects = take()
            if member.process is not process:
                return effects
            # All that a step without effects could have changed of what is looked at.
            now = (
                mastership.shared.serving,
                source.phase,
                shared.state.epoch,
                shared.last_change,
                len(holding.held),
                len(holding.parked),
            )
            if effects or now != seen:
                seen = now
                self.on_step(member, domain, effects)
                steps.on_step(member, domain, effects)
            return effects

        domain.take = watched  # type: ignore[method-assign]  # one instance's, in its shape
        domain.orders.saving.part = SAVED_AT_ONCE
        domain.orders.publishing.turn_parts = 1  # so that something may strike between any two parts of a batch

    def on_step(self, member: SimMember, domain: Domain, effects: Sequence[Effect]) -> None:
        """After one event at that member."""
        self._look_at_role(member, domain, effects)
        self._look_at_memory(member, domain)
        for effect in effects:
            if isinstance(effect, (CheckTransfer, StartTransfer, StopTransfer)):
                self._look_at_transfer(member, domain, effect)
            if isinstance(effect, Persist):
                if effect.cut is not None:
                    copied = [each for each in effects if isinstance(each, Salvage)]
                    self._on_cut(member, effect.cut, copied)
            elif isinstance(effect, Reply):
                result = effect.result
                if isinstance(result, EnqueueDone):
                    if result.copies == 1 and _is_modest(domain, result):
                        first = result.first_index
                        self.modest.update((result.epoch, index) for index in range(first, first + result.count))
                    self._on_acknowledged(member, Name(result.epoch, result.log_index), result.copies)
                elif isinstance(result, LeaseDone):
                    self._look_for_damage(member, domain, result)
                    if result.lease_id:
                        self._on_acknowledged(member, name_of_lease(result.lease_id), 0)
                        self._on_delivered(member, domain, result)
            elif isinstance(effect, Deliver):
                self._on_delivered(member, domain, effect.done)
                self._look_for_damage(member, domain, effect.done)

    def _on_cut(self, member: SimMember, last: int, copied: Iterable[Salvage]) -> None:
        """Whatever somebody may know of is copied before it goes."""
        disk, log_index = member.machine.disk, last + 1
        while (record := disk.record(NUMBER, log_index)) is not None:
            epoch = epoch_of(record)
            known = not epoch or _may_be_known(record)
            if known and (NUMBER, log_index, epoch) not in member.machine.salvaged:
                covered = any(each.first <= log_index <= each.last for each in copied)
                if not covered:
                    text = f"{member.name} cuts its log at {last}, and has not copied record {log_index}"
                    self._broken("what is cut is copied", text)
            log_index += 1

    def _look_at_memory(self, member: SimMember, domain: Domain) -> None:
        """The peer, readers and comparisons find every record in memory or on the disk."""
        shared = domain.shared
        ring = shared.log.ring
        if not ring or shared.state.data is DataMark.SYNCING:
            return
        before = ring[0].log_index - 1
        kept_from = max(shared.log.base_index + 1, shared.state.kept_from)
        if before >= kept_from and member.machine.disk.record(NUMBER, before) is None:
            text = f"{member.name} has record {before} neither on its disk nor in memory"
            self._broken("what is not written is in memory", text)

    def _look_at_transfer(
        self, member: SimMember, domain: Domain, effect: CheckTransfer | StartTransfer | StopTransfer
    ) -> None:
        """P22: nobody waits for a full transfer that an operator wants, and a new epoch of its master ends none."""
        mastership, hello = domain.mastership, domain.source.hello
        if isinstance(effect, StopTransfer):
            if mastership.shared.serving and mastership.peer.connected:
                text = f"{member.name} begins epoch {domain.shared.state.epoch}, and gives up what it was sending"
                self._broken("a transfer outlives an epoch", text)
        elif hello is not None and hello.wants_full and data_of(hello.data_state).is_good:
            if domain.shared.peer in mastership.commit.required:
                text = f"{member.name} sends everything to {domain.shared.peer}, and commits wait for it"
                self._broken("nobody waits for a resync", text)
            elif isinstance(effect, StartTransfer):
                self._pair.run.sometimes("a full transfer by an operator's order")

    def _look_at_role(self, member: SimMember, domain: Domain, effects: Sequence[Effect]) -> None:
        if not domain.shared.serving:
            self._serving.pop(member.name, None)
            return
        epoch = domain.shared.state.epoch
        if self._serving.get(member.name) == epoch:
            return
        self._serving[member.name] = epoch
        owner = self.owners.setdefault(epoch, member.name)
        if owner != member.name:
            self._broken("one owner of an epoch", f"epoch {epoch} is served by {owner} and by {member.name}")
        self.holds_everything(member, domain)
        for header in expired_by(effects):
            self.nobody_has(member, domain, header.expire.volatile_lost)
            self._note_lost(domain, header.expire.volatile_lost)

    def _note_lost(self, domain: Domain, lost: Iterable[QueueRanges]) -> None:
        assert domain.shared.machine is not None
        for queue_id, index in indexes_of(lost):
            book = self._pair.run.books[domain.shared.machine.queue(queue_id).name]
            book.lost_s.setdefault(index, self._pair.run.loop.now)

    def nobody_has(self, member: SimMember, domain: Domain, lost: Iterable[QueueRanges]) -> None:
        """What a master of two declares lost as it begins to serve is not in the memory of the other one, to which it
        is connected, unless that one did not answer in time.
        """
        mastership, peer = domain.mastership, self._pair.members[domain.shared.peer].domain
        if peer is None or peer.shared.machine is None or mastership.recall.silent:
            return
        if not mastership.peer.connected or peer.shared.member not in mastership.commit.required:
            return
        shared = peer.shared
        found = plan_volatile_lost(peer.shared.machine.state, 0, lambda log_index: not shared.volatile.has(log_index))
        held = set(indexes_of(found.expire.volatile_lost)) if found is not None else set()
        both = sorted(held.intersection(indexes_of(lost)))
        if both:
            text = f"{member.name} says that (queue, index) {both[:1]} is lost, and {shared.member} has it"
            self._broken("volatile messages outlive a restart", text)

    def holds_everything(self, member: SimMember, domain: Domain) -> None:
        """Nobody serves without what was acknowledged.

        What a later epoch has acknowledged is not for a master to know that nothing commits without its peer's word:
        one that took an epoch while the register was away (P18), and was frozen before it could serve.
        """
        shared, required = domain.shared, domain.mastership.commit.required
        bound = shared.state.epoch if shared.peer in required else max(self.highest, default=0)
        name = max((name for epoch, name in self.highest.items() if epoch <= bound), key=_log_index, default=None)
        if name is None:
            return
        found = shared.log.digest_at(name.log_index)
        held = found is not None and found[1] == self.digests.get(name)
        trimmed = name.log_index < max(shared.log.base_index, shared.state.kept_from)
        if not held and not trimmed:
            log = f"its log ends at {shared.log.last_index}"
            text = f"{member.name} serves epoch {shared.state.epoch} without {name}, {log}"
            self._broken("everything acknowledged is served", text)

    def _on_acknowledged(self, member: SimMember, name: Name, copies: int) -> None:
        holders = [each.name for each in self._pair.members.values() if self._holds(each, name)]
        if len(holders) < copies and not self._is_lost():
            text = f"{member.name} answers for {name} with {copies} copies, on disk at {holders}"
            self._broken("copies are true", text)
        self.acknowledged.setdefault(name, member.name)
        known = self.highest.get(name.epoch)
        if known is None or name.log_index > known.log_index:
            self.highest[name.epoch] = name

    def _is_lost(self) -> bool:
        """Some disk was lost or put back: what it held then is not asked for."""
        return any(each.machine.disk.replaced for each in self._pair.members.values())

    def _holds(self, member: SimMember, name: Name) -> bool:
        """The record is on its disk, or in a snapshot that has taken the place of such records."""
        disk = member.machine.disk
        record = disk.record(NUMBER, name.log_index)
        try:
            if record is not None:
                prefix = verify_stored(record)
                return (prefix.epoch, prefix.digest) == (name.epoch, self.digests.get(name))
            stored = disk.meta(STATE)
            state = decode_state(stored) if stored is not None else None
        except CorruptRecord:
            return True  # a bit was turned over after it was written
        return state is not None and name.log_index <= max(state.base_index, state.kept_from - 1)

    def _on_delivered(self, member: SimMember, domain: Domain, done: LeaseDone) -> None:
        commit_index = domain.shared.progress.commit_index
        beyond = [part.log_index for part in done.slices if part.log_index > commit_index]
        if beyond:
            text = f"{member.name} delivers what is at log index {beyond[:1]}, committed is {commit_index}"
            self._broken("nothing uncommitted is delivered", text)

    def _look_for_damage(self, member: SimMember, domain: Domain, done: LeaseDone) -> None:
        """What was given before and is asked for again is refused by the shell, which reads it again."""
        for part in done.slices if not done.duplicate else ():
            record = member.machine.disk.record(NUMBER, part.log_index)
            if record is not None and domain.shared.log.get(part.log_index) is None:
                try:
                    verify_stored(record)
                except CorruptRecord as corrupt:
                    text = f"{member.name} delivers index {part.first_index} of {done.queue}: {corrupt.what}"
                    self._broken("nothing damaged is delivered", text)


def _is_modest(domain: Domain, done: EnqueueDone) -> bool:
    """A replica says one copy as long as its own is not whole, whatever its master requires; and so does a master of a
    repetition while the copy of the replica that it requires is older, or away until everything has been sent.
    """
    mastership = domain.mastership
    is_away = domain.shared.peer in mastership.commit.required and not domain.source.peer_is_good
    return not mastership.shared.serving or (done.duplicate and is_away)


def _may_be_known(record: bytes) -> bool:
    header = RecordHeader.FromString(bytes(split(record)[1]))
    return header.WhichOneof("op") not in UNANSWERED


def _log_index(name: Name) -> int:
    return name.log_index


def expired_by(effects: Iterable[Effect]) -> Iterator[RecordHeader]:
    """Of records that are appended: those that say what has ended by itself."""
    for effect in effects:
        if isinstance(effect, Persist):
            for entry in effect.appends:
                header = RecordHeader.FromString(bytes(split(entry.record)[1]))
                if header.HasField("expire"):
                    yield header


def indexes_of(ranges: Iterable[QueueRanges]) -> Iterator[tuple[int, int]]:
    """Queue and index of each message."""
    for each in ranges:
        for part in each.ranges:
            yield from ((each.queue_id, index) for index in range(part.first, part.first + part.count))


def name_of_lease(lease_id: int) -> Name:
    """Of the record that made it."""
    return Name(lease_id >> LEASE_LOG_BITS, lease_id & (1 << LEASE_LOG_BITS) - 1)

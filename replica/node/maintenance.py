"""Keeps the log short: writes checkpoints, and drops records beyond the journal's retention that hold no live message.
Orders nothing.

A checkpoint is taken of what is applied and written once it is committed, so that cutting an uncommitted tail never
goes below it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from failover.marks import DataMark
from replica.core.ordering.readers import Hold, Limit, give_up, late_readers
from replica.core.replication.sync_source import Phase
from replica.core.state.durable import checkpoint_key, encode_checkpoint, state_key
from replica.node.held_records import HeldRecords
from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.machine import Machine, Reader
    from replica.node.loop import Node
    from storage.store import WriteBatch

log = logging.getLogger("tandemq.maintenance")

TURN_S = 1.0
HOUR_MS = 3_600_000
DROP_MAX = 5_000
FREED_TURN = 20_000
"""Of records that the trimming has passed before, dropped in one turn."""
COMMIT_LOOK_S = 0.05
PRESSED_SHARE = 0.5
"""Of the store: beyond it the journal is trimmed to the checkpoint, well before enqueues are refused at 0.8."""
FULL_SHARE = 0.7
"""Of the store: beyond it named readers hold back nothing either."""


class Keep(NamedTuple):
    """What of a domain's log stays."""

    journal_bytes: int
    """Counted since the start of this process, by all its domains together."""
    journal_ms: int
    checkpoint_bytes: int
    """Log since the last checkpoint that a restart replays at most, apart from what comes while one is taken."""
    reader_bytes: int
    """For named readers alone, counted as journal_bytes..."""
    reader_ms: int
    """... and how old what they want may be, by the time in the records."""


NO_JOURNAL = Keep(0, -1, 0, 1 << 62, 1 << 62)
"""Nothing but what a restart or a named reader wants."""


class Maintenance:
    """One domain's upkeep."""

    def __init__(self, node: Node, domain: Domain, keep: Keep) -> None:
        self.node = node
        self.domain = domain
        self.keep = keep
        self.hold = Hold(domain.shared)
        self.full = False
        self.generation = domain.shared.progress.generation
        self.bytes_at_checkpoint = 0
        self.marks: list[tuple[int, int, int]] = []
        """(time, log index, bytes appended so far), once a turn at most, to know how old and how much the journal is.
        """
        self.trimmed = 0
        self.pressed = False
        """The store fills up: room for new messages comes before what a peer that is away may ask for later."""
        self.held = HeldRecords()
        """Walks with the trimming."""
        self.survivors: dict[int, int] = {}
        """Queue by log index, of records that held live messages when the trimming passed them."""
        self.freed: list[int] = []
        """Of those, what may hold nothing any more and was not looked at yet."""

    async def run(self) -> None:
        """For ever, a turn a second."""
        while True:
            await asyncio.sleep(TURN_S)
            self.mark()
            usage = self.node.store.usage()
            self.pressed = usage.used_bytes > PRESSED_SHARE * usage.map_bytes
            self.full = usage.used_bytes > FULL_SHARE * usage.map_bytes
            if self.pressed or self.node.appended_bytes - self.bytes_at_checkpoint >= self.keep.checkpoint_bytes:
                await self.checkpoint()
            self._give_up_readers()
            await self._trim()

    def mark(self) -> None:
        """Note where the log stands: at each turn, and after each small part of the journal's size."""
        index = self.domain.shared.log.last_index
        if not self.marks or self.marks[-1][1] != index:
            self.marks.append((monotonic_ms(), index, self.node.appended_bytes))
            del self.marks[:-100_000]

    async def checkpoint(self) -> None:
        """Snapshot of what is applied, written when it is committed."""
        shared = self.domain.shared
        machine = shared.machine
        if machine is None or shared.state.data in (DataMark.SYNCING, DataMark.DAMAGED):
            return
        if machine.applied_index == shared.progress.checkpoint_index:
            return
        index, data, generation = machine.applied_index, machine.snapshot(), shared.progress.generation
        self.bytes_at_checkpoint = self.node.appended_bytes
        while shared.progress.commit_index < index:
            if shared.progress.generation != generation:
                return
            await asyncio.sleep(COMMIT_LOOK_S)
        if shared.progress.generation != generation or index <= shared.progress.checkpoint_index:
            return

        def fill(batch: WriteBatch) -> None:
            shared.state.note_history(shared.log.history)
            batch.meta[checkpoint_key(shared.domain)] = encode_checkpoint(index, data)
            batch.meta[state_key(shared.domain)] = shared.state.encode()

        await self.node.write(fill)
        if shared.progress.generation == generation:  # else a full transfer has brought another one meanwhile
            shared.progress.on_checkpoint(index)
        log.info("domain %s: checkpoint at %d, %d bytes", shared.name, index, len(data), extra=shared.tags)

    def _floor(self) -> int:
        """Last log index that the journal need not keep by its own retention."""
        now, appended = monotonic_ms(), self.node.appended_bytes
        keep = 0
        for when, index, size in self.marks:
            if not self.pressed and now - when <= self.keep.journal_ms and appended - size <= self.keep.journal_bytes:
                break
            keep = index
        # The last record stays whatever its age: where the log ends is read from it at the next start.
        return min(keep, self.domain.shared.progress.checkpoint_index, self.domain.shared.log.last_index - 1)

    def _keep_from(self) -> int:
        """Last log index that may go now."""
        # A replica that is full cannot say that readers lose their place: it goes on without what the master may keep.
        return self._floor() if self.full else min(self._floor(), self.hold.lowest() - 1)

    def _give_up_readers(self) -> None:
        """At the master: who holds back more than he may loses his place; what he wanted goes at a later turn."""
        floor = self._floor()
        late = late_readers(self.domain.mastership, floor)
        if not late:
            return
        if self.full:
            limits = [Limit(floor, f"the store is more than {FULL_SHARE:.0%} full")]
        else:
            limits = [*self._beyond_bytes(floor), *self._beyond_hours(late)]
        if give_up(self.domain.orders, late, limits, floor, self.node.clock.now_ms()):
            self.node.dispatch(self.domain)

    def _beyond_bytes(self, floor: int) -> list[Limit]:
        appended = self.node.appended_bytes
        beyond = [index for _, index, size in self.marks if appended - size > self.keep.reader_bytes]
        text = f"it was more than {self.keep.reader_bytes} bytes behind (limits.reader_bytes)"
        return [Limit(min(beyond[-1], floor), text)] if beyond else []

    def _beyond_hours(self, late: list[Reader]) -> list[Limit]:
        """One read for the oldest, who alone needs to be looked at: the others are given up with him or later."""
        place = min(each.place.log_index for each in late)
        header = self.domain.shared.log.header_at(place)
        if header is None or self.node.clock.now_ms() - header.time_ms <= self.keep.reader_ms:
            return []
        hours = self.keep.reader_ms // HOUR_MS
        return [Limit(place, f"what it wanted next was more than {hours} hours old (limits.reader_hours)")]

    def _begin_anew(self) -> None:
        """Nothing is known of single records: the next turn looks at all that may go."""
        self.trimmed = 0
        self.held, self.survivors, self.freed = HeldRecords(), {}, []

    def _freed(self, machine: Machine) -> list[int]:
        """Some of the records that the trimming has passed, and that have come to hold nothing since."""
        freed = self.held.freed(machine)
        self.freed = list(self.survivors) if freed is None else self.freed + freed
        some, self.freed = self.freed[:FREED_TURN], self.freed[FREED_TURN:]
        return sorted(
            {each for each in some if each in self.survivors and not machine.live(each, self.survivors[each])}
        )

    async def _trim(self) -> None:
        """What it costs is what there is to trim, whatever the domain holds beside it."""
        shared = self.domain.shared
        machine = shared.machine
        if self.generation != shared.progress.generation:
            # The log was cut or replaced: what was known of single records may be of others now. Begin as at a start.
            self.generation = shared.progress.generation
            self._begin_anew()
            shared.progress.trim_anew()
        keep = self._keep_from()
        if machine is None or self._is_transferring():
            return
        drops = self._freed(machine)
        if keep <= self.trimmed and not drops:
            return
        gone = list(drops)
        at = self.trimmed + 1
        while at <= keep and len(drops) < DROP_MAX:
            found = self.node.store.scan_indexes(shared.domain, at, limit=2_000)
            if not found:
                break
            at = found[-1] + 1
            indexes = [index for index in found if index <= keep]
            held = self.held.up_to(machine, min(keep, at - 1), indexes)
            drops.extend(index for index in indexes if index not in held)
            self.survivors.update(held)
            await asyncio.sleep(0)
        end = max(self.trimmed, min(keep, at - 1))
        # A reader that came while this looked or waited was given a place by what was here then (J5).
        if not await self._is_committed(machine) or self._keep_from() < end > self.trimmed:
            self._begin_anew()
            return
        for index in gone:
            del self.survivors[index]

        known = shared.log.digest_at(end)
        shared.progress.trim(end)

        def fill(batch: WriteBatch) -> None:
            batch.drops.setdefault(shared.domain, []).extend(drops)
            shared.state.keep_from(max(shared.state.kept_from, end + 1))
            if known is not None and end > shared.state.base_index:
                # Where the log ends can be told even if a cut lands here and its records are the ones that went.
                epoch, digest = known
                shared.log.raise_base(end, digest, epoch)
                shared.state.set_base(end, digest, epoch)
            batch.meta[state_key(shared.domain)] = shared.state.encode()

        await self.node.write(fill)
        self.trimmed = end

    def _is_transferring(self) -> bool:
        """A transfer reads records that a settle may free while it runs."""
        return self.domain.source.phase in (Phase.FULL, Phase.CHECK, Phase.COMPARE)

    async def _is_committed(self, machine: Machine) -> bool:
        """Once what is applied now is. False: the log was cut meanwhile, the queues were made anew, or a transfer runs.

        A master applies before it commits. What an operation has freed that a takeover takes back is wanted again, and
        its body would be on the new master alone.
        """
        shared, applied = self.domain.shared, machine.applied_index
        while shared.progress.commit_index < applied:
            await asyncio.sleep(COMMIT_LOOK_S)
            if shared.progress.generation != self.generation or shared.machine is not machine:
                return False
        is_same = shared.progress.generation == self.generation and shared.machine is machine
        return is_same and not self._is_transferring()

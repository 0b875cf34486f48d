"""Keeps the log short: writes checkpoints, and drops records beyond the journal's retention that hold no live message.
Orders nothing.

A checkpoint is taken of what is applied and written once it is committed, so that cutting an uncommitted tail never
goes below it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from failover.marks import DataMark
from replica.state import checkpoint_key, encode_checkpoint, state_key
from replica.sync_source import Phase
from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from replica.domain import Domain
    from replica.node import Node
    from storage.store import WriteBatch

log = logging.getLogger("tandemq.maintenance")

TURN_S = 1.0
DROP_MAX = 5_000
SURVIVORS_TURN = 20_000
PRESSED_SHARE = 0.5
"""Of the store: beyond it the journal is trimmed to the checkpoint, well before enqueues are refused at 0.8."""


class Maintenance:
    """One domain's upkeep."""

    def __init__(
        self, node: Node, domain: Domain, *, journal_bytes: int, journal_ms: int, checkpoint_bytes: int
    ) -> None:
        self.node = node
        self.domain = domain
        self.journal_bytes = journal_bytes
        self.journal_ms = journal_ms
        self.checkpoint_bytes = checkpoint_bytes
        """Log since the last checkpoint that a restart replays at most, apart from what comes while one is taken."""
        self.generation = domain.shared.generation
        self.bytes_at_checkpoint = 0
        self.marks: list[tuple[int, int, int]] = []
        """(time, log index, bytes appended so far), once a turn at most, to know how old and how much the journal is.
        """
        self.trimmed = 0
        self.pressed = False
        """The store fills up: room for new messages comes before what a peer that is away may ask for later."""
        self.survivors: list[tuple[int, int]] = []
        """(queue, log index) of records that held live messages when the trimming passed them."""

    async def run(self) -> None:
        """For ever, a turn a second."""
        while True:
            await asyncio.sleep(TURN_S)
            self.mark()
            usage = self.node.store.usage()
            self.pressed = usage.used_bytes > PRESSED_SHARE * usage.map_bytes
            if self.pressed or self.node.appended_bytes - self.bytes_at_checkpoint >= self.checkpoint_bytes:
                await self.checkpoint()
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
        if machine.applied_index == shared.checkpoint_index:
            return
        index, data, generation = machine.applied_index, machine.snapshot(), shared.generation
        self.bytes_at_checkpoint = self.node.appended_bytes
        while shared.commit_index < index:
            if shared.generation != generation:
                return
            await asyncio.sleep(0.05)
        if shared.generation != generation or index <= shared.checkpoint_index:
            return

        def fill(batch: WriteBatch) -> None:
            shared.state.history = [(b.epoch, b.first_index) for b in shared.log.history]
            batch.meta[checkpoint_key(shared.domain)] = encode_checkpoint(index, data)
            batch.meta[state_key(shared.domain)] = shared.state.encode()

        await self.node.write(fill)
        if shared.generation == generation:  # else a full transfer has brought another one meanwhile
            shared.checkpoint_index = index
        log.info("domain %s: checkpoint at %d, %d bytes", shared.name, index, len(data), extra=shared.tags)

    def _keep_from(self) -> int:
        """First log index that the journal still keeps."""
        now, appended = monotonic_ms(), self.node.appended_bytes
        keep = 0
        for when, index, size in self.marks:
            if not self.pressed and now - when <= self.journal_ms and appended - size <= self.journal_bytes:
                break
            keep = index
        # The last record stays whatever its age: where the log ends is read from it at the next start.
        return min(keep, self.domain.shared.checkpoint_index, self.domain.shared.log.last_index - 1)

    async def _trim(self) -> None:
        shared = self.domain.shared
        machine = shared.machine
        if self.generation != shared.generation:
            # The log was cut or replaced: what was known of single records may be of others now. Begin as at a start.
            self.generation, self.trimmed, self.survivors = shared.generation, 0, []
        keep = self._keep_from()
        if machine is None or self.domain.source.phase in (Phase.FULL, Phase.COMPARE):
            return  # a transfer reads records that a settle may free while it runs
        left = [pair for pair in self.survivors[:SURVIVORS_TURN] if machine.live(pair[1], pair[0])]
        drops = sorted({index for _, index in self.survivors[:SURVIVORS_TURN]} - {index for _, index in left})
        # The rest of the survivors first at the next turn: every one is looked at again within a bounded time.
        self.survivors = self.survivors[SURVIVORS_TURN:] + left
        if keep <= self.trimmed and not drops:
            return
        survivors = {index: number for number, index in machine.live_log_indexes() if self.trimmed < index <= keep}
        at = self.trimmed + 1
        while at <= keep and len(drops) < DROP_MAX:
            rows = self.node.store.scan_prefixes(shared.domain, at, limit=2_000)
            if not rows:
                break
            drops.extend(index for index, _, _ in rows if index <= keep and index not in survivors)
            at = rows[-1][0] + 1
            await asyncio.sleep(0)
        end = max(self.trimmed, min(keep, at - 1))
        self.survivors.extend((number, index) for index, number in survivors.items() if index <= end)

        known = shared.log.digest_at(end)

        def fill(batch: WriteBatch) -> None:
            batch.drops.setdefault(shared.domain, []).extend(drops)
            shared.state.kept_from = max(shared.state.kept_from, end + 1)
            if known is not None and end > shared.state.base_index:
                # Where the log ends can be told even if a cut lands here and its records are the ones that went.
                shared.log.base_index, (shared.log.base_epoch, shared.log.base_digest) = end, known
                shared.state.base_index, (shared.state.base_epoch, shared.state.base_digest) = end, known
            batch.meta[state_key(shared.domain)] = shared.state.encode()

        await self.node.write(fill)
        self.trimmed = end

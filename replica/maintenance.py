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
from replica.node import monotonic_ms
from replica.state import checkpoint_key, state_key
from replica.sync_source import Phase

if TYPE_CHECKING:
    from replica.domain import Domain
    from replica.node import Node
    from storage.store import WriteBatch

log = logging.getLogger("tandemq.maintenance")

CHECKPOINT_BYTES = 64 << 20
"""Log since the last checkpoint that a restart replays at most, apart from what comes while one is taken."""
TURN_S = 1.0
DROP_MAX = 5_000


class Maintenance:
    """One domain's upkeep."""

    def __init__(self, node: Node, domain: Domain, *, journal_bytes: int, journal_ms: int) -> None:
        self.node = node
        self.domain = domain
        self.journal_bytes = journal_bytes
        self.journal_ms = journal_ms
        self.checkpoint_index = self._stored_checkpoint()
        self.bytes_at_checkpoint = 0
        self.marks: list[tuple[int, int, int]] = []
        """(time, log index, bytes appended so far), once a turn at most, to know how old and how much the journal is.
        """
        self.trimmed = 0

    def _stored_checkpoint(self) -> int:
        stored = self.node.store.get_meta(checkpoint_key(self.domain.shared.domain))
        return int.from_bytes(stored[:8], "big") if stored else 0

    async def run(self) -> None:
        """For ever, a turn a second."""
        while True:
            await asyncio.sleep(TURN_S)
            self._mark()
            if self.node.appended_bytes - self.bytes_at_checkpoint >= CHECKPOINT_BYTES:
                await self.checkpoint()
            await self._trim()

    def _mark(self) -> None:
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
        index, data, generation = machine.applied_index, machine.snapshot(), shared.generation
        self.bytes_at_checkpoint = self.node.appended_bytes
        while shared.commit_index < index:
            if shared.generation != generation:
                return
            await asyncio.sleep(0.05)
        if shared.generation != generation or index <= self.checkpoint_index:
            return

        def fill(batch: WriteBatch) -> None:
            shared.state.history = [(b.epoch, b.first_index) for b in shared.log.history]
            batch.meta[checkpoint_key(shared.domain)] = index.to_bytes(8, "big") + data
            batch.meta[state_key(shared.domain)] = shared.state.encode()

        await self.node.write(fill)
        self.checkpoint_index = index
        log.info("domain %s: checkpoint at %d, %d bytes", shared.name, index, len(data))

    def _keep_from(self) -> int:
        """First log index that the journal still keeps."""
        now, appended = monotonic_ms(), self.node.appended_bytes
        keep = 0
        for when, index, size in self.marks:
            if now - when <= self.journal_ms and appended - size <= self.journal_bytes:
                break
            keep = index
        return min(keep, self.checkpoint_index)

    async def _trim(self) -> None:
        shared = self.domain.shared
        machine = shared.machine
        keep = self._keep_from()
        if machine is None or keep <= self.trimmed or self.domain.source.phase in (Phase.FULL, Phase.COMPARE):
            return
        live = {log_index for _, log_index in machine.live_log_indexes() if log_index <= keep}
        drops: list[int] = []
        at = self.trimmed + 1
        while at <= keep and len(drops) < DROP_MAX:
            rows = self.node.store.scan_prefixes(shared.domain, at, limit=2_000)
            if not rows:
                break
            drops.extend(index for index, _, _ in rows if index <= keep and index not in live)
            at = rows[-1][0] + 1
            await asyncio.sleep(0)
        end = min(keep, at - 1)

        def fill(batch: WriteBatch) -> None:
            batch.drops.setdefault(shared.domain, []).extend(drops)
            shared.state.kept_from = max(shared.state.kept_from, end + 1)
            batch.meta[state_key(shared.domain)] = shared.state.encode()

        await self.node.write(fill)
        self.trimmed = end

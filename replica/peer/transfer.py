"""Carries a full state transfer over its own stream: the records that hold live messages, queue by queue, then the
queues' state.

The order on the wire is the seed's (R116): SYNC_BEGIN, ENQUEUE after ENQUEUE, SYNC_END for each queue. What arrives is
written in slices;
the mark SYNCING was durable before the first of them, so an interrupted transfer leaves a copy that starts anew and is
never promoted.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from bisect import bisect_left
from typing import TYPE_CHECKING

from failover.marks import DataMark
from storage.errors import CorruptRecord
from storage.records import FLAG_VOLATILE_BODY, PREFIX_SIZE, is_bare, split, verify, verify_stored
from storage.store import Append, place_checked
from tandemq.peer.v1.peer_service_pb2 import (
    QueueSegments,
    QueueSyncBegin,
    QueueSyncEnd,
    StateChunk,
    TransferEnd,
    TransferFrame,
)
from tandemq.peer.v1.record_pb2 import RecordHeader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from replica.core.domain import Domain
    from replica.core.state.effects import CheckTransfer, QueueTransfer, StartTransfer
    from replica.core.state.shared import Shared
    from replica.node.loop import Node
    from storage.records import Prefix
    from storage.store import Store

log = logging.getLogger("tandemq.transfer")

SLICE_BYTES = 1 << 20
READ_RECORDS = 64
"""Read from the store at once."""
WRITE_BYTES = 8 << 20
"""Written in one transaction at the receiver: bounds its memory and its loop's pause."""
BEGIN_WAIT_S = 10.0


async def frames_of(node: Node, domain: Domain, start: StartTransfer) -> AsyncIterator[TransferFrame]:
    """The frames of one transfer, in order. Records are read in slices, no transaction stays open between two."""
    number = domain.shared.domain

    def frame(**kind: object) -> TransferFrame:
        return TransferFrame(domain=number, sync_id=start.sync_id, **kind)  # type: ignore[arg-type]  # oneof by keyword

    for queue in start.queues:
        yield frame(queue_begin=QueueSyncBegin(queue_id=queue.queue_id, name=queue.name))
        chain = hashlib.blake2b(digest_size=16)
        async for segments in _records(node, domain, queue):
            for record in segments.records:
                chain.update(record)
            yield frame(segments=segments)
        yield frame(
            queue_end=QueueSyncEnd(
                queue_id=queue.queue_id,
                records=len(queue.log_indexes),
                messages=queue.messages,
                last_index=queue.last_index,
                digest=chain.digest(),
            )
        )
    for at in range(0, len(start.state), SLICE_BYTES):
        yield frame(state=StateChunk(data=start.state[at : at + SLICE_BYTES]))
    yield frame(
        end=TransferEnd(
            state_bytes=len(start.state),
            state_digest=hashlib.blake2b(start.state, digest_size=16).digest(),
            log_digest=start.log_digest,
            queues=len(start.queues),
        )
    )


async def check_all(node: Node, domain: Domain, check: CheckTransfer) -> None:
    """Whether all of it can be sent: a receiver throws away what it has before the first record comes, and that may be
    the last good copy of one that is damaged here. Raises CorruptRecord.

    What is known as damaged is read first: who tries again and again reads little.
    """
    shared = domain.shared
    await node.flush()  # the newest records may not be on disk yet
    known = sorted(shared.damaged)
    for queue_id, indexes in check.queues.items():
        if found := [log_index for log_index in known if _holds(indexes, log_index)]:
            await _check(node, shared, queue_id, found)
    for queue_id, indexes in check.queues.items():
        for at in range(0, len(indexes), READ_RECORDS):
            if domain.source.sync_id != check.sync_id:
                return  # nobody waits for it any more
            await _check(node, shared, queue_id, indexes[at : at + READ_RECORDS].tolist())


def _holds(rising: Sequence[int], number: int) -> bool:
    at = bisect_left(rising, number)
    return at < len(rising) and rising[at] == number


async def _check(node: Node, shared: Shared, queue_id: int, wanted: list[int]) -> None:
    bad = await asyncio.get_running_loop().run_in_executor(None, _not_whole, node.store, shared.domain, wanted)
    for log_index, record in bad.items():
        if record is not None:
            check_sent(shared, log_index, record)
        elif shared.machine is not None and shared.machine.live(log_index, queue_id):
            raise CorruptRecord(f"record {log_index} of queue {queue_id} is missing although it holds live messages")


def _not_whole(store: Store, number: int, wanted: list[int]) -> dict[int, bytes | None]:
    """Those of these records that fail their checksums, or are gone (None). Reads the store; for a thread."""
    bad: dict[int, bytes | None] = {}
    for log_index, record in zip(wanted, store.read_many(number, wanted), strict=True):
        try:
            if record is None:
                bad[log_index] = None
            else:
                place_checked(verify_stored(record), number, log_index, "")
        except CorruptRecord:
            bad[log_index] = record
    return bad


async def _records(node: Node, domain: Domain, queue: QueueTransfer) -> AsyncIterator[QueueSegments]:
    loop = asyncio.get_running_loop()
    indexes = queue.log_indexes
    await node.flush()  # the newest records may not be on disk yet
    for at in range(0, len(indexes), READ_RECORDS):
        wanted = indexes[at : at + READ_RECORDS]
        stored = await loop.run_in_executor(None, node.store.read_many, domain.shared.domain, wanted)
        segments = QueueSegments()
        size = 0
        for log_index, record in zip(wanted, stored, strict=True):
            if record is None:
                raise CorruptRecord(
                    f"record {log_index} of queue {queue.name} is missing although it holds live messages"
                )
            prefix = check_sent(domain.shared, log_index, record)
            if prefix.flags & FLAG_VOLATILE_BODY:
                if is_bare(record):
                    record += domain.shared.volatile.bodies.get(log_index, b"")
                else:
                    segments.saved.append(len(segments.records))
            segments.records.append(record)
            size += len(record)
            if size >= SLICE_BYTES:
                yield segments
                segments, size = QueueSegments(), 0
        if segments.records:
            yield segments


def check_sent(shared: Shared, log_index: int, record: bytes) -> Prefix:
    """Damage stays where it is, and is told: a stored record that fails its checksums is not sent. Raises
    CorruptRecord.
    """
    try:
        return place_checked(verify_stored(record), shared.domain, log_index, "")
    except CorruptRecord as corrupt:
        shared.report_damage(log_index)
        raise CorruptRecord(f"record {log_index} is damaged here and is not sent: {corrupt}") from corrupt


class Receiver:
    """The receiving side of one transfer."""

    def __init__(self, node: Node, domain: Domain, sync_id: int) -> None:
        self.node = node
        self.domain = domain
        self.sync_id = sync_id
        self.state = bytearray()
        self.queue_id = 0
        """The one whose records are coming; 0 = none."""
        self.done: set[int] = set()
        self.records = 0
        self.chain = hashlib.blake2b(digest_size=16)
        self.unwritten = 0

    async def on_frame(self, frame: TransferFrame) -> bool:
        """Take a frame; True when the transfer is complete. A mismatch raises CorruptRecord: the connection starts
        over.
        """
        kind = frame.WhichOneof("frame")
        if kind == "queue_begin":
            self._begin_queue(frame.queue_begin.queue_id)
        elif kind == "segments":
            await self._on_segments(frame.segments)
        elif kind == "queue_end":
            self._end_queue(frame.queue_end)
        elif kind == "state":
            self.state += frame.state.data
        elif kind == "end":
            await self._on_end(frame.end)
            return True
        return False

    def _begin_queue(self, queue_id: int) -> None:
        if self.queue_id or queue_id in self.done or not queue_id:
            # Each queue once: with one twice and another missing, the number of queues would be right.
            raise CorruptRecord(f"queue {queue_id} begins inside queue {self.queue_id}, or again")
        self.queue_id = queue_id
        self.chain = hashlib.blake2b(digest_size=16)
        self.records = 0

    def _end_queue(self, end: QueueSyncEnd) -> None:
        if end.queue_id != self.queue_id:
            raise CorruptRecord(f"queue {end.queue_id} ends where queue {self.queue_id} does")
        if end.records != self.records or end.digest != self.chain.digest():
            text = f"queue {end.queue_id}: {self.records} of {end.records} records arrived, or differently"
            raise CorruptRecord(text)
        self.done.add(end.queue_id)
        self.queue_id = 0

    async def _on_segments(self, segments: QueueSegments) -> None:
        number = self.domain.shared.domain
        batch = self.node.batch
        saved = set(segments.saved)
        for place, record in enumerate(segments.records):
            prefix = verify(record)
            if prefix.domain != number:
                raise CorruptRecord(f"a record of domain {prefix.domain:#x} came in a transfer of {number:#x}")
            self._check_queue(prefix.log_index, split(record)[1])
            stored = record
            if prefix.flags & FLAG_VOLATILE_BODY and place not in saved:
                _, _, body = split(record)
                if len(body):
                    self.domain.shared.volatile.keep(prefix.log_index, bytes(body))
                stored = record[: PREFIX_SIZE + prefix.header_len]
            batch.inserts.append(Append(number, prefix.log_index, stored))
            self.chain.update(record)
            self.records += 1
            self.unwritten += len(stored)
        if self.unwritten >= WRITE_BYTES:
            self.unwritten = 0
            await self.node.flush()

    def _check_queue(self, log_index: int, header: memoryview) -> None:
        parsed = RecordHeader.FromString(bytes(header))
        # It comes once, in the first one that needs it still.
        owners = [op.queue_id for op in parsed.txn.enqueues] + [op.queue_id for op in parsed.txn.replies]
        owners = owners or [parsed.enqueue.queue_id or parsed.reply.queue_id or parsed.stage.queue_id]
        if not self.queue_id or self.queue_id not in owners:
            raise CorruptRecord(f"record {log_index} of queue {owners} came in queue {self.queue_id}")

    async def _on_end(self, end: TransferEnd) -> None:
        state = bytes(self.state)
        digest = hashlib.blake2b(state, digest_size=16).digest()
        if self.queue_id or end.queues != len(self.done) or digest != end.state_digest:
            raise CorruptRecord(
                f"transfer of domain {self.domain.shared.name}: queues or state differ from what was sent"
            )
        await self.node.flush()
        shared = self.domain.shared
        target = self.domain.target
        if target.expects(self.sync_id) and shared.state.data is DataMark.SYNCING:
            target.on_transfer_done(target.base_index, end.log_digest, state)
            shared.volatile.on_transferred()
            self.node.dispatch(self.domain)


async def wait_for_begin(domain: Domain, sync_id: int) -> bool:
    """SYNC_BEGIN comes on another stream: wait for it. False when this transfer is not wanted any more."""
    target = domain.target
    for _ in range(int(BEGIN_WAIT_S / 0.005)):
        if target.expects(sync_id):
            return True
        if target.sync_id > sync_id:
            return False
        await asyncio.sleep(0.005)
    return False

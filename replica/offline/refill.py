"""Reads what one queue held in a backup, as batches that put it back, the same ones each time; orders nothing.

A message keeps what its producer gave it but for its delay, which is over, and its dedup id, under which it would be
taken for a repetition of itself. Its time to live begins anew. The property `tq_restored_from` is the id that it had.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from replica.core.messages.bodies import batch_of, message_id, row_of
from replica.machine import Limits
from replica.node.recovery import open_shared, rebuild
from replica.offline.backup import states_in
from storage.backup import BackupFile, open_backup
from storage.errors import CorruptRecord
from storage.records import FLAG_VOLATILE_BODY, split, verify_stored
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replica.machine import SegmentSlice
    from storage.records import Prefix
    from tandemq.v1.message_pb2 import Message

BATCH_BYTES, BATCH_MESSAGES = 1 << 20, 1_000
RESTORED_FROM = "tq_restored_from"


class Batch(NamedTuple):
    """Neighbouring messages of one record of the backup."""

    data: bytes
    """A serialized EnqueueBatch, but for the first sequence."""
    batch: EnqueueBatch
    first: int
    """Place of the first one among all messages of the queue, from 1: the same each time the backup is read."""
    origin: Prefix
    first_index: int
    """Index that the first message had in the queue."""
    ordinals: list[int]


class QueueSource:
    """One queue in a backup. Any thread, one at a time."""

    def __init__(self, backup: BackupFile, number: int, name: str) -> None:
        self.backup = backup
        self.number = number
        self.name = name
        self.lost = 0
        """Volatile messages whose bodies are on no disk, of those that were read so far."""
        state = states_in(backup.meta_items(""))[number]
        self.domain = state.name
        shared = open_shared(backup, number, state.name, "", "", 0, Limits())
        try:
            machine = asyncio.run(rebuild(backup, shared, shared.log.last_index))
        except (DecodeError, AssertionError, LookupError) as error:
            raise CorruptRecord(f"Domain {state.name}: the queues cannot be made from the log: {error!r}") from error
        found = machine.queue_id(name)
        self.is_there = found is not None
        self.queue_id, self.config, self.messages, self.bytes = 0, QueueConfig(), 0, 0
        self._slices: list[SegmentSlice] = []
        if found is not None:
            queue = machine.queue(found)
            # A batch that was being published is in the backup as staged rows and not in the queue.
            unseen = machine.state.stages.unseen(found)
            self.queue_id, self.config, self.bytes = found, queue.config, queue.bytes
            self.messages = queue.length - unseen
            machine.commit(machine.applied_index)  # else what was not committed yet would be left out
            held = machine.browse(found, 0, 0)
            assert sum(each.count for each in held) == self.messages, "browse leaves something out"
            self._slices = machine.segments_of(found, held, delivered=False)

    def batches(self) -> Iterator[Batch]:
        """In the order of the queue. Raises CorruptRecord."""
        first = 1
        for part in self._slices:
            record = self.backup.read(self.number, part.log_index)
            if record is None:
                raise CorruptRecord(
                    f"Record {part.log_index} of domain {self.domain} is missing", str(self.backup.path)
                )
            prefix = verify_stored(record)
            body = bytes(split(record)[2])
            if prefix.flags & FLAG_VOLATILE_BODY and not body:
                self.lost += part.count
                continue
            for batch in self._of_record(prefix, body, part, first):
                yield batch
                first += len(batch.ordinals)

    def _of_record(self, prefix: Prefix, body: bytes, part: SegmentSlice, first: int) -> Iterator[Batch]:
        try:
            stored = EnqueueBatch.FromString(body).messages
        except DecodeError as error:
            raise CorruptRecord(f"Record {part.log_index} of domain {self.domain} holds no batch") from error
        ordinals = list(part.ordinals or range(part.first_ordinal, part.first_ordinal + part.count))
        at = 0
        while at < len(ordinals):
            rows: list[Message] = []
            size = 0
            while at + len(rows) < len(ordinals) and len(rows) < BATCH_MESSAGES and (not rows or size < BATCH_BYTES):
                row = row_of(stored, ordinals[at + len(rows)])
                row.ClearField("delay")
                row.ClearField("dedup_id")
                origin = message_id(self.number, prefix.epoch, prefix.log_index, ordinals[at + len(rows)])
                row.properties[RESTORED_FROM].data = origin
                rows.append(row)
                size += row.ByteSize()
            made = EnqueueBatch(queue=self.name, first_sequence=first + at, messages=batch_of(rows))
            place = part.first_index + at
            yield Batch(made.SerializeToString(), made, first + at, prefix, place, ordinals[at : at + len(rows)])
            at += len(rows)

    def close(self) -> None:
        """Of the file."""
        self.backup.close()


def open_queue(path: Path, name: str) -> QueueSource | None:
    """The queue of this name in a backup, whichever domain it is in; None: there is none. Not from a running loop.

    Raises StorageError, OSError.
    """
    with ExitStack() as undo:
        backup = open_backup(path)
        undo.callback(backup.close)
        for number in states_in(backup.meta_items("")):
            source = QueueSource(backup, number, name)
            if source.is_there:
                undo.pop_all()
                return source
    return None

"""Turns a page of the journal into an Arrow batch: buffers are wrapped as they came, no row is looked at by itself."""

from __future__ import annotations

import sys
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from tandemq.client.journal import ID_BYTES, JournalKind
from tandemq.spark.attributes import ATTRIBUTES, attribute_columns
from tandemq.v1 import journal_service_pb2 as pb

SCHEMA = pa.schema(
    [
        ("log_index", pa.int64()),
        ("epoch", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("kind", pa.string()),
        ("queue", pa.string()),
        ("queue_id", pa.int64()),
        ("index", pa.int64()),
        ("count", pa.int64()),
        ("id", pa.binary()),
        ("lease_id", pa.int64()),
        ("producer", pa.binary()),
        ("sequence", pa.int64()),
        ("payload", pa.binary()),
    ]
)
WITH_ATTRIBUTES = pa.schema([*SCHEMA, *ATTRIBUTES])
# Arrow and the contract agree on little-endian; a machine that is not would read every number wrong.
assert sys.byteorder == "little", "format('tandemq') needs a little-endian machine"


def batch_of(columns: pb.JournalColumns, *, attributes: bool = False) -> pa.RecordBatch:
    """The rows of one page, in SCHEMA or WITH_ATTRIBUTES. Its buffers are those of the page."""
    count = columns.count

    def wrapped(kind: pa.DataType, data: bytes) -> pa.Array:
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])

    kinds = wrapped(pa.uint8(), columns.kinds)
    queue_ids = wrapped(pa.uint32(), columns.queue_ids)
    return pa.RecordBatch.from_arrays(
        [
            wrapped(pa.int64(), columns.log_indexes),
            wrapped(pa.int64(), columns.epochs),
            wrapped(pa.timestamp("ms", "UTC"), columns.times_ms).cast(pa.timestamp("us", "UTC")),
            _kind_names().take(kinds),
            _queue_names(columns, queue_ids),
            queue_ids.cast(pa.int64()),
            wrapped(pa.int64(), columns.indexes),
            wrapped(pa.int64(), columns.counts),
            _ids(columns.ids, pc.equal(kinds, pa.scalar(int(JournalKind.ENQUEUED), pa.uint8()))),
            wrapped(pa.int64(), columns.lease_ids),
            _producers(columns, wrapped(pa.uint32(), columns.producers)),
            wrapped(pa.int64(), columns.sequences),
            _payloads(columns, wrapped(pa.uint8(), columns.payload_states)),
            *(attribute_columns(columns) if attributes else ()),
        ],
        schema=WITH_ATTRIBUTES if attributes else SCHEMA,
    )


def before_message(batch: pa.RecordBatch, log_index: int, index: int) -> pa.RecordBatch:
    """The rows before the message with that index, which this record stored. The batch is of that message's queue."""
    stored = pc.and_(
        pc.equal(batch["log_index"], log_index),
        pc.and_(pc.equal(batch["kind"], JournalKind.ENQUEUED.name), pc.greater_equal(batch["index"], index)),
    )
    at = pc.index(stored, True).as_py()
    return batch if at < 0 else batch.slice(0, at)


@cache
def _kind_names() -> pa.Array:
    """Name by number; a kind that is newer than this program is named by its number."""
    known = {int(kind): kind.name for kind in JournalKind}
    return pa.array([known.get(number, str(number)) for number in range(256)], pa.string())


def _queue_names(columns: pb.JournalColumns, queue_ids: pa.Array) -> pa.Array:
    """Null where the row names no queue, or its queue is gone."""
    numbers = pa.array([queue.queue_id for queue in columns.queues], pa.uint32())
    names = pa.array([queue.name or None for queue in columns.queues], pa.string())
    return names.take(pc.index_in(queue_ids, numbers))


@cache
def _id_offsets(count: int) -> pa.Buffer:
    return pa.array(range(0, (count + 1) * ID_BYTES, ID_BYTES), pa.int32()).buffers()[1]


def _ids(data: bytes, entered: pa.Array) -> pa.Array:
    """Null where no message entered."""
    count = len(entered)
    validity = entered.buffers()[1]  # one bit a row: as Arrow keeps what is true, and what is there
    return pa.Array.from_buffers(pa.binary(), count, [validity, _id_offsets(count), pa.py_buffer(data)])


def _producers(columns: pb.JournalColumns, places: pa.Array) -> pa.Array:
    """Places count from 1; 0 is what the manager put there itself, null here."""
    known = pa.array([None, *columns.producer_ids], pa.binary())
    return known.take(places)


def _payloads(columns: pb.JournalColumns, states: pa.Array) -> pa.Array:
    """Null where there is none to show: another kind, left out, or a volatile message."""
    present = pc.equal(states, pa.scalar(pb.JOURNAL_PAYLOAD_PRESENT, pa.uint8()))
    offsets, data = pa.py_buffer(columns.payload_offsets), pa.py_buffer(columns.payloads)
    return pa.Array.from_buffers(pa.binary(), columns.count, [present.buffers()[1], offsets, data])

"""Writes the whole state as bytes and reads it back; never decides when.

Format 1: magic, format, commit index, then sections (length, msgpack): the domain, its queues by id, the producers by
last use, the requests by age. To change the format: add a field at the end of a struct with a default; for anything
else raise FORMAT and keep reading the old one. The commit index is no part of the state and stands outside the digest.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections import deque
from collections.abc import Iterator
from typing import cast

import msgspec

from replica.machine.dedup import Chunk, Producer, Refusals
from replica.machine.errors import Refused
from replica.machine.limits import Limits
from replica.machine.queue import Lease, QueueState, Totals
from replica.machine.ranges import RangeSet
from replica.machine.segments import COLUMNS, PLAIN, Extra, Segments, extra_of
from replica.machine.state import State
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

FORMAT = 1
_MAGIC = b"TQS"
_HEAD = struct.Struct(">3sBQ")
_LENGTH = struct.Struct(">Q")


class _DomainRow(msgspec.Struct, array_like=True):
    domain: int
    applied_index: int
    time_ms: int
    next_queue_id: int
    queues: int
    producers: int


class _LeaseRow(msgspec.Struct, array_like=True):
    lease_id: int
    edges: bytes
    client_id: bytes
    expires_at_ms: int
    duration_ms: int


class _ExtraRow(msgspec.Struct, array_like=True):
    place: int
    ordinals: bytes
    priorities: bytes
    expires_at_ms: bytes


class _QueueRow(msgspec.Struct, array_like=True):
    queue_id: int
    name: str
    config: bytes
    version: int
    members: list[str]
    open_members: list[str]
    closed_members: list[str]
    created_ms: int
    last_activity_ms: int
    next_index: int
    length: int
    payload_bytes: int
    timed: int
    totals: list[int]
    segments: list[bytes]
    extras: list[_ExtraRow]
    ready: list[bytes]
    volatile: bytes
    leases: list[_LeaseRow]
    deliveries: list[tuple[int, int]]
    settled: list[tuple[int, bytes]]


class _ChunkRow(msgspec.Struct, array_like=True):
    epoch: int
    base: tuple[int, int, int]
    end_sequence: int
    time_ms: int
    columns: list[bytes]
    refusals: list[tuple[int, list[tuple[int, int]]]]


class _ProducerRow(msgspec.Struct, array_like=True):
    queue_id: int
    client_id: bytes
    last_sequence: int
    time_ms: int
    chunks: list[_ChunkRow]
    fingerprints: bytes


class _RequestRows(msgspec.Struct, array_like=True):
    rows: list[tuple[bytes, bytes]]
    marks: list[tuple[int, int]]
    seen: int


def _bytes_of(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _column(kind: str, data: bytes) -> array[int]:
    column: array[int] = array(kind, data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def sections(state: State) -> Iterator[bytes]:
    """Equal for equal states."""
    encode = msgspec.msgpack.Encoder().encode
    producers = list(state.producers)
    yield encode(
        _DomainRow(
            state.domain,
            state.applied_index,
            state.time_ms,
            state.next_queue_id,
            len(state.queues),
            len(producers),
        )
    )
    for _, queue in sorted(state.queues.items()):
        yield encode(_queue_row(queue))
    for queue_id, client_id, producer in producers:
        chunks = [_chunk_row(chunk) for chunk in producer.chunks]
        marks = _bytes_of(producer.fingerprints)
        yield encode(_ProducerRow(queue_id, client_id, producer.last_sequence, producer.time_ms, chunks, marks))
    yield encode(_RequestRows(*state.requests.dump()))


def _queue_row(queue: QueueState) -> _QueueRow:
    columns, extras = queue.segments.columns()
    return _QueueRow(
        queue_id=queue.queue_id,
        name=queue.name,
        config=queue.config.SerializeToString(deterministic=True),
        version=queue.version,
        members=sorted(queue.members),
        open_members=sorted(queue.open_members),
        closed_members=sorted(queue.closed_members),
        created_ms=queue.created_ms,
        last_activity_ms=queue.last_activity_ms,
        next_index=queue.next_index,
        length=queue.length,
        payload_bytes=queue.bytes,
        timed=queue.timed,
        totals=queue.totals.row(),
        segments=[_bytes_of(column) for column in columns],
        extras=[
            _ExtraRow(place, _bytes_of(extra.ordinals), extra.priorities, _bytes_of(extra.expires_at_ms))
            for place, extra in sorted(extras.items())
        ],
        ready=[_bytes_of(level.edges()) for level in queue.ready],
        volatile=_bytes_of(queue.volatile.edges()),
        leases=[
            _LeaseRow(
                lease.lease_id,
                _bytes_of(lease.ranges.edges()),
                lease.client_id,
                lease.expires_at_ms,
                lease.duration_ms,
            )
            for _, lease in sorted(queue.leases.items())
        ],
        deliveries=sorted(queue.deliveries.items()),
        settled=[(key, _bytes_of(array("Q", queue.settled[key]))) for key in queue.settled_order],
    )


def _chunk_row(chunk: Chunk) -> _ChunkRow:
    columns = [_bytes_of(column) for column in (chunk.sequences, chunk.indexes, chunk.logs, chunk.flags)]
    refusals = [(row, [(at, int(why)) for at, why in refused]) for row, refused in sorted(chunk.refusals.items())]
    return _ChunkRow(chunk.epoch, chunk.base, chunk.end_sequence, chunk.time_ms, columns, refusals)


def snapshot(state: State) -> bytes:
    parts = [_HEAD.pack(_MAGIC, FORMAT, state.commit_index)]
    for section in sections(state):
        parts += (_LENGTH.pack(len(section)), section)
    return b"".join(parts)


def digest(state: State) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for section in sections(state):
        found.update(_LENGTH.pack(len(section)))
        found.update(section)
    return found.digest()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = _HEAD.size

    def section(self) -> memoryview:
        (length,) = _LENGTH.unpack_from(self._data, self._at)
        start = self._at + _LENGTH.size
        self._at = start + length
        assert self._at <= len(self._data), "the snapshot is cut short"
        return self._data[start : self._at]

    def check_end(self) -> None:
        assert self._at == len(self._data), "the snapshot goes on"


def restore(data: bytes, limits: Limits) -> State:
    magic, version, commit_index = _HEAD.unpack_from(data)
    assert magic == _MAGIC, "not a snapshot"
    if version > FORMAT:
        raise Refused(
            common_pb2.REASON_NEWER_FORMAT, f"the snapshot has format {version}, this version reads up to {FORMAT}"
        )
    reader = _Reader(data)
    head = msgspec.msgpack.decode(reader.section(), type=_DomainRow)
    state = State(head.domain, limits)
    state.applied_index, state.time_ms, state.next_queue_id = head.applied_index, head.time_ms, head.next_queue_id
    state.commit_index = commit_index
    queue_decoder = msgspec.msgpack.Decoder(_QueueRow)
    for _ in range(head.queues):
        queue = _queue(queue_decoder.decode(reader.section()))
        state.queues[queue.queue_id] = queue
        state.ids[queue.name] = queue.queue_id
        state.leases |= queue.leases
    producer_decoder = msgspec.msgpack.Decoder(_ProducerRow)
    for _ in range(head.producers):
        row = producer_decoder.decode(reader.section())
        state.producers.put(row.queue_id, row.client_id, _producer(row))
    requests = msgspec.msgpack.decode(reader.section(), type=_RequestRows)
    state.requests.load(iter(requests.rows), iter(requests.marks), requests.seen)
    reader.check_end()
    _derive(state)
    return state


def _derive(state: State) -> None:
    """What is not in the snapshot because it follows from it."""
    pending = []
    for queue in state.queues.values():
        beyond = queue.segments.after(state.commit_index)
        queue.visible_index = (beyond[0][1] if beyond else queue.next_index) - 1
        pending += [(log_index, queue.queue_id, first + count - 1) for log_index, first, count in beyond]
    state.pending.extend(sorted(pending))
    state.rebuild_schedules()


def _range_set(edges: bytes) -> RangeSet:
    return RangeSet.from_edges(_column("Q", edges))


def _queue(row: _QueueRow) -> QueueState:
    queue = QueueState(row.queue_id, row.name, admin_pb2.QueueConfig.FromString(row.config), row.created_ms)
    queue.version = row.version
    queue.members, queue.open_members = set(row.members), set(row.open_members)
    queue.closed_members = set(row.closed_members)
    queue.last_activity_ms = row.last_activity_ms
    queue.next_index, queue.length, queue.bytes, queue.timed = (
        row.next_index,
        row.length,
        row.payload_bytes,
        row.timed,
    )
    queue.totals = Totals(*row.totals)
    columns = [_column(kind, data) for kind, data in zip(COLUMNS, row.segments, strict=True)]
    queue.segments = Segments.from_columns(columns, {extra.place: _extra(extra) for extra in row.extras})
    queue.ready = [_range_set(edges) for edges in row.ready]
    queue.volatile = _range_set(row.volatile)
    queue.leases = {
        lease.lease_id: Lease(
            lease.lease_id,
            row.queue_id,
            _range_set(lease.edges),
            lease.client_id,
            lease.expires_at_ms,
            lease.duration_ms,
        )
        for lease in row.leases
    }
    queue.deliveries = dict(row.deliveries)
    queue.settled = {key: tuple(_column("Q", edges)) for key, edges in row.settled}
    queue.settled_order = deque(queue.settled)
    return queue


def _extra(row: _ExtraRow) -> Extra:
    ordinals, expires_at_ms = _column("H", row.ordinals), _column("Q", row.expires_at_ms)
    return extra_of(ordinals, row.priorities, expires_at_ms) if ordinals or row.priorities or expires_at_ms else PLAIN


def _producer(row: _ProducerRow) -> Producer:
    producer = Producer()
    producer.last_sequence, producer.time_ms = row.last_sequence, row.time_ms
    producer.fingerprints = _column("I", row.fingerprints)
    for kept in row.chunks:
        chunk = Chunk(kept.epoch, kept.base)
        chunk.sequences, chunk.indexes, chunk.logs, chunk.flags = (
            _column(kind, data) for kind, data in zip("IIIB", kept.columns, strict=True)
        )
        chunk.end_sequence, chunk.time_ms = kept.end_sequence, kept.time_ms
        chunk.refusals = {at: _refusals(refused) for at, refused in kept.refusals}
        producer.chunks.append(chunk)
        producer.rows += len(chunk.sequences)
    return producer


def _refusals(rows: list[tuple[int, int]]) -> Refusals:
    return tuple((ordinal, cast("common_pb2.Reason", why)) for ordinal, why in rows)

"""Writes what is known of a domain's producers as rows of the snapshot, and reads it back; never decides when."""

from __future__ import annotations

from typing import cast

import msgspec

from replica.machine.sets.packing import bytes_of, column_of
from replica.machine.state.dedup import Chunk, DealtPart, Producer, Refusals
from tandemq.v1 import common_pb2


class _ChunkRow(msgspec.Struct, array_like=True):
    epoch: int
    base: tuple[int, int, int]
    end_sequence: int
    time_ms: int
    columns: list[bytes]
    refusals: list[tuple[int, list[tuple[int, int]]]]
    doubles: list[tuple[int, list[tuple[int, int]]]] = msgspec.field(default_factory=list)
    queues: list[tuple[int, int]] = msgspec.field(default_factory=list)
    parts: list[tuple[int, list[tuple[int, int, bytes]]]] = msgspec.field(default_factory=list)


class ProducerRow(msgspec.Struct, array_like=True):
    queue_id: int
    client_id: bytes
    last_sequence: int
    time_ms: int
    chunks: list[_ChunkRow]
    fingerprints: bytes


def producer_row(key: tuple[int, bytes], producer: Producer) -> ProducerRow:
    queue_id, client_id = key
    chunks = [_chunk_row(chunk) for chunk in producer.chunks]
    marks = bytes_of(producer.fingerprints)
    return ProducerRow(queue_id, client_id, producer.last_sequence, producer.time_ms, chunks, marks)


def _chunk_row(chunk: Chunk) -> _ChunkRow:
    columns = [bytes_of(column) for column in (chunk.sequences, chunk.indexes, chunk.logs, chunk.flags)]
    refusals = [(row, [(at, int(why)) for at, why in refused]) for row, refused in sorted(chunk.refusals.items())]
    doubles = [(row, list(double)) for row, double in sorted(chunk.doubles.items())]
    queues = sorted(chunk.queues.items())
    parts = [(row, [_part_row(part) for part in parts]) for row, parts in sorted(chunk.parts.items())]
    return _ChunkRow(
        chunk.epoch, chunk.base, chunk.end_sequence, chunk.time_ms, columns, refusals, doubles, queues, parts
    )


def _part_row(part: DealtPart) -> tuple[int, int, bytes]:
    return part.queue_id, part.first_index, bytes_of(part.ordinals)


def _part(row: tuple[int, int, bytes]) -> DealtPart:
    queue_id, first_index, ordinals = row
    return DealtPart(queue_id, first_index, column_of("H", ordinals))


def producer_of(row: ProducerRow) -> Producer:
    producer = Producer()
    producer.last_sequence, producer.time_ms = row.last_sequence, row.time_ms
    producer.fingerprints = column_of("I", row.fingerprints)
    for kept in row.chunks:
        chunk = Chunk(kept.epoch, kept.base)
        chunk.sequences, chunk.indexes, chunk.logs, chunk.flags = (
            column_of(kind, data) for kind, data in zip("IIIB", kept.columns, strict=True)
        )
        chunk.end_sequence, chunk.time_ms = kept.end_sequence, kept.time_ms
        chunk.refusals = {at: _refusals(refused) for at, refused in kept.refusals}
        chunk.doubles = {at: tuple(doubles) for at, doubles in kept.doubles}
        chunk.queues = dict(kept.queues)
        chunk.parts = {at: tuple(map(_part, parts)) for at, parts in kept.parts}
        producer.chunks.append(chunk)
        producer.rows += len(chunk.sequences)
    return producer


def _refusals(rows: list[tuple[int, int]]) -> Refusals:
    return tuple((ordinal, cast("common_pb2.Reason", why)) for ordinal, why in rows)

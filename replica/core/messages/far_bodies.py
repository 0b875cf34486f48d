"""Reads and packs messages of another manager: what of its answer may be believed, and how a consumer here gets it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from replica.core.messages.bodies import batch_of, message_id, messages_into, part_of
from replica.core.state.far_runs import FarRun
from replica.machine.state.segments import PRIORITY_DEFAULT
from tandemq.far_leases import FAR_LEASE
from tandemq.v1.message_pb2 import DeliveredMessage, DeliveredSegment
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tandemq.v1.message_pb2 import MessageBatch
    from tandemq.v1.queue_service_pb2 import DequeueResponse

TIME_MS_MAX = 1000 << 37
"""Of a time of entry: more is none that a timestamp may have."""
INDEX_MAX, LOG_INDEX_MAX, ORDINALS_MAX = 1 << 62, 1 << 48, 1 << 16


class UnsoundError(ValueError):
    """Another manager has sent what nobody could settle, or read."""


def into_segment(run: FarRun, segment: DeliveredSegment) -> None:
    """Filled in place: a message copied into another copies every body."""
    found, start, end = run.segment, run.start, run.end
    is_whole = run.size == len(run.batch.payloads)
    segment.batch = found.batch if is_whole else _packed(part_of(run.batch, range(start, end)))
    segment.epoch, segment.log_index = found.epoch, found.log_index
    segment.enqueue_time_ms, segment.id_domain = found.enqueue_time_ms, found.id_domain
    segment.first_index = run.index_at(start)
    segment.indexes.extend(found.indexes[start:end])
    segment.first_ordinal = found.ordinals[start] if found.ordinals else found.first_ordinal + start
    segment.ordinals.extend(found.ordinals[start:end])
    counts = found.delivery_counts
    segment.delivery_counts.extend(counts if len(counts) == 1 else counts[start:end])


def fill_rows(run: FarRun, queue: str, lease_id: int, add: Callable[[], DeliveredMessage]) -> None:
    """One message each."""
    found, counts = run.segment, run.segment.delivery_counts
    for place, row in messages_into(run.batch, range(run.start, run.end), add):
        ordinal = found.ordinals[place] if found.ordinals else found.first_ordinal + place
        row.queue, row.index, row.lease_id = queue, run.index_at(place), lease_id
        if found.id_domain:
            row.id = message_id(found.id_domain, found.epoch, found.log_index, ordinal)
        row.delivery_count = counts[place if len(counts) > 1 else 0] if counts else 1
        row.enqueue_time.FromMilliseconds(found.enqueue_time_ms)


def fill_segments(runs: Iterable[FarRun], add: Callable[[], DeliveredSegment]) -> None:
    """In their order; neighbours of one batch together."""
    last: FarRun | None = None
    for run in runs:
        if last is not None and last.segment is run.segment and last.end == run.start:
            last = last._replace(end=run.end)
            continue
        if last is not None:
            into_segment(last, add())
        last = run
    if last is not None:
        into_segment(last, add())


def runs_of(reply: DequeueResponse) -> list[FarRun]:
    """What another manager has given. Raises UnsoundError: nothing of it may be believed.

    A manager of an older release gives rows, each of which is a batch of its own then.
    """
    runs = [run for segment in reply.segments for run in _runs(reply.lease_id, segment)]
    return runs + [run for row in reply.messages for run in _runs(row.lease_id, _segment_of(row))]


def _runs(lease_id: int, segment: DeliveredSegment) -> Iterator[FarRun]:
    try:
        batch = EnqueueBatch.FromString(segment.batch).messages
    except DecodeError as error:
        raise UnsoundError("a batch that nobody can read") from error
    count = len(batch.payloads)
    if not (0 < lease_id < FAR_LEASE and _is_sound(segment, count) and _is_even(batch, count)):
        raise UnsoundError("messages that nobody could settle")
    start = 0
    priorities = batch.priorities if len(batch.priorities) > 1 else [_first(batch.priorities)] * count
    for priority, group in groupby(priorities):
        end = start + sum(1 for _ in group)
        yield FarRun(lease_id, segment, batch, start, end, priority)
        start = end


def _first(priorities: Sequence[int]) -> int:
    return priorities[0] if priorities else PRIORITY_DEFAULT


def _is_sound(segment: DeliveredSegment, count: int) -> bool:
    indexes, ordinals = segment.indexes, segment.ordinals
    first, last = (min(indexes), max(indexes)) if indexes else (segment.first_index, segment.first_index + count - 1)
    ordinal = max(ordinals) if ordinals else segment.first_ordinal + count - 1
    return (
        count > 0
        and 0 < first <= last < INDEX_MAX
        and len(indexes) in (0, count)
        and len(ordinals) in (0, count)
        and len(segment.delivery_counts) in (0, 1, count)
        and ordinal < ORDINALS_MAX
        and segment.log_index < LOG_INDEX_MAX
        and segment.enqueue_time_ms < TIME_MS_MAX
    )


def _is_even(batch: MessageBatch, count: int) -> bool:
    """A column is empty, has one entry for all, or one a message."""
    return all(len(column) in (1, count) for _, column in batch.ListFields())


def _segment_of(row: DeliveredMessage) -> DeliveredSegment:
    time = row.enqueue_time
    if not (0 <= time.seconds * 1000 < TIME_MS_MAX and 0 <= time.nanos < 1_000_000_000):
        raise UnsoundError("messages that nobody could settle")
    made = DeliveredSegment(
        batch=_packed(batch_of([row.message])),
        first_index=row.index,
        enqueue_time_ms=time.ToMilliseconds(),
        delivery_counts=[row.delivery_count] if row.delivery_count > 1 else [],
    )
    if len(row.id) == 16:
        made.id_domain = int.from_bytes(row.id[:4], "big")
        made.epoch = int.from_bytes(row.id[4:8], "big")
        made.log_index = int.from_bytes(row.id[8:14], "big")
        made.first_ordinal = int.from_bytes(row.id[14:], "big")
    return made


def _packed(batch: MessageBatch) -> bytes:
    return EnqueueBatch(messages=batch).SerializeToString()

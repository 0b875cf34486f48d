"""Numbered batches: which messages a consumer has taken under which number. Decides whether a number may be taken or
acknowledged, and does what a record says of it.

A batch is an ordinary lease with a name and a number; it lives as long as that lease holds all of its messages. What is
kept beside the leases is which numbers there were.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from replica.machine.features.readers import check_reader_name
from replica.machine.plan.lease import LeaseCall, Narrower, plan_lease
from replica.machine.plan.sides import refuse_where_sides
from replica.machine.sets.ranges import Run
from replica.machine.state.errors import Refused
from replica.machine.state.feature_rows import BatchConsumer, NumberedBatch
from replica.machine.state.queue import Lease, QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK

OPEN_MAX = 8
"""Batches of one consumer that are not acknowledged and whose leases live."""
ACKED_KEPT = 64
"""Latest acknowledged numbers of a consumer: repetitions of those are answered."""
NUMBER_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class BatchCall:
    queue: str
    consumer: str
    number: int
    max_messages: int
    max_bytes: int
    duration_ms: int
    wanted: Narrower | None = None  # None: everything
    may_skip: bool = False  # numbers that were used elsewhere


@dataclass(frozen=True, slots=True)
class AckBatchCall:
    queue: str
    consumer: str
    number: int


def plan_batch(state: State, now_ms: int, call: BatchCall) -> record_pb2.RecordHeader | None:
    """None: it is taken already, or there is nothing to take."""
    queue = state.named(call.queue)
    check_reader_name(call.consumer)
    _check_kind(queue, call.number)
    known = state.batches.get((queue.queue_id, call.consumer))
    if known is not None:
        if call.number in known.open:
            open_batch(state, queue, call.consumer, call.number)
            return None
        if call.number <= known.last:
            raise _gone(queue, call.consumer, call.number)
        if call.number != known.last + 1 and not call.may_skip:
            text = (
                f"batch {call.number} of consumer {call.consumer} does not follow: the last one of queue {queue.name} "
                f"is {known.last}; take {known.last + 1}"
            )
            raise Refused(common_pb2.REASON_BATCH_GAP, text, {"last_number": str(known.last)})
        if sum(holder(queue, batch) is not None for batch in known.open.values()) >= OPEN_MAX:
            text = (
                f"consumer {call.consumer} has {OPEN_MAX} batches that it has not acknowledged; acknowledge one first"
            )
            raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, {"limit": str(OPEN_MAX)})
    elif len(state.batches) >= state.limits.batch_consumers_max and _idlest(state) is None:
        text = (
            f"{len(state.batches)} consumers have batches that they have not acknowledged, which is the most there may"
        )
        raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, f"{text} be", {"limit": str(state.limits.batch_consumers_max)})
    header = plan_lease(
        state,
        now_ms,
        LeaseCall(
            queue.queue_id,
            call.max_messages,
            call.max_bytes,
            call.consumer.encode(),
            call.duration_ms,
            immediate=False,
            wanted=call.wanted,
        ),
    )
    if header is not None:
        header.lease.batch_consumer, header.lease.batch_number = call.consumer, call.number
    return header


def _check_kind(queue: QueueState, number: int) -> None:
    if not 0 < number <= NUMBER_MAX:
        raise Refused(common_pb2.REASON_BAD_REQUEST, f"batches are numbered from 1; {number} is no number of one")
    if queue.config.queue_type == QUEUE_TYPE_TWO_WAY:
        text = f"queue {queue.name} is TWO_WAY: a request is answered by a reply, and no batch is acknowledged whole"
        raise Refused(common_pb2.REASON_REPLY_REQUIRED, text)
    refuse_where_sides(queue, "each side is consumed by a stream at its member, and has no batches")
    if queue.config.single_active:
        text = f"queue {queue.name} is single_active: consume it by a stream; a batch belongs to whoever knows its name"
        raise Refused(common_pb2.REASON_INVALID_STATE, text)


def open_batch(state: State, queue: QueueState, consumer: str, number: int) -> tuple[NumberedBatch, Lease]:
    """One that can be read and acknowledged, with its lease. Refused (BATCH_GONE) when that does not hold all."""
    known = state.batches.get((queue.queue_id, consumer))
    batch = known.open.get(number) if known is not None else None
    lease = holder(queue, batch) if batch is not None else None
    if batch is None or lease is None:
        raise _gone(queue, consumer, number)
    return batch, lease


def open_batches(state: State, queue: QueueState, consumer: str) -> list[tuple[int, NumberedBatch, Lease]]:
    """Those that can be read, by number."""
    known = state.batches.get((queue.queue_id, consumer))
    rows = sorted(known.open.items()) if known is not None else []
    return [(number, batch, lease) for number, batch in rows if (lease := holder(queue, batch)) is not None]


def last_batch(state: State, queue: QueueState, consumer: str) -> int:
    """Highest number that was taken; 0: none is known."""
    known = state.batches.get((queue.queue_id, consumer))
    return known.last if known is not None else 0


def holder(queue: QueueState, batch: NumberedBatch) -> Lease | None:
    """The lease, as long as it holds every message of the batch: then its content is what it was."""
    lease = queue.leases.get(batch.lease_id)
    if lease is None or not all(lease.ranges.covers(start, end) for start, end in batch.runs):
        return None
    return lease


def _gone(queue: QueueState, consumer: str, number: int) -> Refused:
    text = (
        f"batch {number} of consumer {consumer} of queue {queue.name} is gone: it was acknowledged, its lease has "
        "ended (then its messages are delivered again, under another number), or nobody took it"
    )
    return Refused(common_pb2.REASON_BATCH_GONE, text, {"consumer": consumer, "number": str(number)})


def _idlest(state: State) -> tuple[int, str] | None:
    """The consumer that is forgotten for a new one: used longest ago of those that hold nothing."""
    idle = [
        (row.used_ms, key)
        for key, row in state.batches.items()
        if not any(holder(state.queues[key[0]], batch) for batch in row.open.values())
    ]
    return min(idle)[1] if idle else None


def plan_ack_batch(state: State, now_ms: int, call: AckBatchCall) -> record_pb2.RecordHeader | None:
    """None: it is acknowledged already."""
    queue = state.named(call.queue)
    known = state.batches.get((queue.queue_id, call.consumer))
    if known is not None and call.number in known.acked:
        return None
    batch, _ = open_batch(state, queue, call.consumer, call.number)
    effect = record_pb2.SettleEffect(
        lease_id=batch.lease_id,
        ranges=[common_pb2.IndexRange(first=start, count=end - start) for start, end in batch.runs],
        outcome=OUTCOME_ACK,
    )
    op = record_pb2.SettleOp(queue_id=queue.queue_id, effects=[effect])
    op.batch_consumer, op.batch_number = call.consumer, call.number
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), settle=op)


def note_batch(state: State, op: record_pb2.LeaseOp, lease_id: int, runs: list[Run]) -> None:
    """It is taken now."""
    key = op.queue_id, op.batch_consumer
    row = state.batches.get(key)
    if row is None:
        if len(state.batches) >= state.limits.batch_consumers_max and (idlest := _idlest(state)) is not None:
            del state.batches[idlest]
        row = state.batches[key] = BatchConsumer()
    queue = state.queues[op.queue_id]
    row.open = {number: batch for number, batch in row.open.items() if holder(queue, batch) is not None}
    row.open[op.batch_number] = NumberedBatch(lease_id, tuple(runs))
    row.last, row.used_ms = op.batch_number, state.time_ms


def note_acked(state: State, op: record_pb2.SettleOp) -> None:
    """It is acknowledged now."""
    row = state.batches[op.queue_id, op.batch_consumer]
    del row.open[op.batch_number]
    row.acked = [*row.acked, op.batch_number][-ACKED_KEPT:]
    row.used_ms = state.time_ms


def forget_batches(state: State, queue_id: int) -> None:
    """Its queue is gone."""
    for key in [key for key in state.batches if key[0] == queue_id]:
        del state.batches[key]


class BatchRow(msgspec.Struct, array_like=True):
    """A consumer as it stands in a snapshot."""

    queue_id: int
    consumer: str
    last: int
    used_ms: int
    open: list[tuple[int, int, list[Run]]]
    acked: list[int]


def batch_rows(state: State) -> list[BatchRow]:
    return [
        BatchRow(
            *key,
            row.last,
            row.used_ms,
            [(number, batch.lease_id, list(batch.runs)) for number, batch in sorted(row.open.items())],
            row.acked,
        )
        for key, row in sorted(state.batches.items())
    ]


def batches_of(rows: list[BatchRow]) -> dict[tuple[int, str], BatchConsumer]:
    return {
        (row.queue_id, row.consumer): BatchConsumer(
            row.last,
            row.used_ms,
            {number: NumberedBatch(lease_id, tuple(runs)) for number, lease_id, runs in row.open},
            row.acked,
        )
        for row in rows
    }

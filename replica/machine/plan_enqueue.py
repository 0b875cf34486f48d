"""Decides what a batch of messages becomes: new, a repetition, or refused; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica.machine.columns import PERSISTENCE_PERSISTENT, PERSISTENCE_VOLATILE, Columns
from replica.machine.config import milliseconds
from replica.machine.dedup import DuplicateRun
from replica.machine.errors import Refused
from replica.machine.queue import QueueState
from replica.machine.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

CLIENT_ID_BYTES_MAX = 64
TIME_MS_MAX = (1 << 63) - 1  # far enough; the sum of a clock and any time to live must fit its field


@dataclass(frozen=True, slots=True)
class Fresh:
    """Order it: the record's body is the batch as it arrived."""

    header: record_pb2.RecordHeader


@dataclass(frozen=True, slots=True)
class Repeated:
    """All of it was executed before; these are the first answers."""

    runs: list[DuplicateRun]


EnqueuePlan = Fresh | Repeated


@dataclass(frozen=True, slots=True)
class EnqueueCall:
    now_ms: int
    queue: str
    client_id: bytes  # empty for a unary call
    first_sequence: int
    request_id: bytes  # empty for a stream
    request_hash: int
    columns: Columns
    member: str  # through which it came


def plan_enqueue(state: State, call: EnqueueCall) -> EnqueuePlan:
    queue = state.named(call.queue)
    count = call.columns.count
    if not 1 <= count <= state.limits.batch_messages_max:
        raise Refused(
            common_pb2.REASON_BAD_REQUEST,
            f"{count} messages in a batch; it may have 1 to {state.limits.batch_messages_max}",
        )
    # Before any other test: a repetition gets the first answer although the queue has changed since.
    repeated = _repetition(state, queue, call)
    if repeated is not None:
        return Repeated(repeated)
    if call.member not in queue.open_members:
        raise Refused(common_pb2.REASON_INVALID_STATE, f"queue {queue.name} is not open at {call.member}")
    if not queue.config.enqueue_enabled:
        raise Refused(common_pb2.REASON_ENQUEUE_DISABLED, f"sending to queue {queue.name} is disabled")
    return Fresh(_header(state, queue, call))


def _repetition(state: State, queue: QueueState, call: EnqueueCall) -> list[DuplicateRun] | None:
    if call.request_id:
        answer = state.requests.find(call.request_id, call.request_hash)
        return None if answer is None else [answer.duplicate_run()]
    if not 1 <= len(call.client_id) <= CLIENT_ID_BYTES_MAX or not call.first_sequence:
        raise Refused(
            common_pb2.REASON_BAD_REQUEST,
            f"a batch needs a client id of 1 to {CLIENT_ID_BYTES_MAX} bytes and sequences from 1, or a request id",
        )
    first, end = call.first_sequence, call.first_sequence + call.columns.count
    producer = state.producers.get(queue.queue_id, call.client_id)
    last = producer.last_sequence if producer else 0
    if first == last + 1:
        return None
    known = {"last_sequence": str(last)}
    if producer is None:
        raise Refused(
            common_pb2.REASON_DEDUP_EXPIRED,
            "this producer is not known here, or no longer; what it sent before cannot be told from what is new: "
            "begin at sequence 1, under a new client id if earlier batches may have arrived",
            known,
        )
    if end > last + 1:  # beyond the next one, or partly executed: a client that repeats sends the same batches
        raise Refused(
            common_pb2.REASON_SEQUENCE_GAP,
            f"sequences {first} to {end - 1} do not follow {last}; resend from it",
            known,
        )
    if first < producer.first_kept:
        raise Refused(
            common_pb2.REASON_DEDUP_EXPIRED,
            f"sequence {first} is older than what is remembered ({producer.first_kept}); it was not executed again",
            known,
        )
    held = producer.fingerprint_of(first, end - first)
    if held is not None and call.request_hash and held != call.request_hash & 0xFFFFFFFF:
        raise Refused(
            common_pb2.REASON_REQUEST_MISMATCH,
            f"sequences {first} to {end - 1} were executed with other content: another producer uses this client id; "
            "give each producer one of its own",
            known,
        )
    return producer.runs(first, end - first)


def _header(state: State, queue: QueueState, call: EnqueueCall) -> record_pb2.RecordHeader:
    columns = call.columns
    time_ms = state.at(call.now_ms)
    refusals, payload_bytes = _refusals(queue, columns)
    op = record_pb2.EnqueueOp(
        queue_id=queue.queue_id,
        client_id=call.client_id,
        first_sequence=call.first_sequence,
        count=columns.count,
        first_index=queue.next_index if len(refusals) < columns.count else 0,
        refusals=refusals,
        payload_bytes=payload_bytes,
    )
    if columns.priorities:
        op.priorities.extend(columns.priorities)
    default_ttl_ms = milliseconds(queue.config.default_ttl)
    if columns.ttls_ms or default_ttl_ms:
        ttls_ms = columns.ttls_ms or (default_ttl_ms,)
        # 0 in a batch's column: this message names no time to live, so the queue's counts.
        op.expires_at_ms.extend(_expiry(time_ms, ttl or default_ttl_ms) for ttl in ttls_ms)
    op.volatiles.extend(_volatiles(queue.config.persistence, columns.persistence))
    op.downgraded = (
        queue.config.persistence == admin_pb2.PERSISTENCE_VOLATILE and PERSISTENCE_PERSISTENT in columns.persistence
    )
    return record_pb2.RecordHeader(
        time_ms=time_ms, request_id=call.request_id, request_hash=call.request_hash, enqueue=op
    )


def _expiry(time_ms: int, ttl_ms: int) -> int:
    return min(time_ms + ttl_ms, TIME_MS_MAX) if ttl_ms else 0


def _volatiles(mode: admin_pb2.Persistence, persistence: Sequence[int]) -> Sequence[int]:
    """R150-R152: PERSISTENT saves all, VOLATILE none, CONDITIONAL those that are marked persistent."""
    if mode == admin_pb2.PERSISTENCE_PERSISTENT:
        return ()
    if mode == admin_pb2.PERSISTENCE_VOLATILE or not persistence:
        return (PERSISTENCE_VOLATILE,)
    marks = [0 if mark == PERSISTENCE_PERSISTENT else PERSISTENCE_VOLATILE for mark in persistence]
    return marks if any(marks) else ()


def _refusals(queue: QueueState, columns: Columns) -> tuple[list[record_pb2.Refusal], int]:
    """Entries that cannot enter, and the payload bytes of those that do. The limits are exact (R157, R161)."""
    config = queue.config
    room = max(0, config.max_length - queue.length)
    room_bytes = max(0, config.max_bytes - queue.bytes) if config.max_bytes else columns.payload_bytes
    if (
        columns.count <= room
        and columns.payload_bytes <= room_bytes
        and columns.payload_bytes_max <= config.max_message_bytes
    ):
        return [], columns.payload_bytes
    refusals, payload_bytes, full = [], 0, False
    for ordinal, size in enumerate(columns.sizes):
        if size > config.max_message_bytes:
            refusals.append(record_pb2.Refusal(ordinal=ordinal, reason=common_pb2.REASON_MESSAGE_TOO_LARGE))
            continue
        # Nothing passes an entry that found the queue full: a smaller one behind it would overtake it.
        full = full or not room or size > room_bytes - payload_bytes
        if full:
            refusals.append(record_pb2.Refusal(ordinal=ordinal, reason=common_pb2.REASON_QUEUE_FULL))
        else:
            room -= 1
            payload_bytes += size
    return refusals, payload_bytes

"""Decides what a batch of messages becomes: new, a repetition, or refused; changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from replica.machine.plan.columns import PERSISTENCE_PERSISTENT, PERSISTENCE_VOLATILE, Columns
from replica.machine.plan.delays import TIME_MS_MAX, delivery_times
from replica.machine.plan.dropping import NOTHING_LEAVES, Departing, drops_for, drops_over, room_with_drops
from replica.machine.plan.gathering import Unfit, fitting
from replica.machine.plan.owners import check_entering, check_identity
from replica.machine.plan.reply_copies import addressed, check_reply_tos
from replica.machine.plan.sides import check_plain
from replica.machine.state.config import milliseconds
from replica.machine.state.dedup import DuplicateRun
from replica.machine.state.errors import Refused, disabled
from replica.machine.state.gathering import WholeGroups
from replica.machine.state.groups import hashes_of
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from replica.machine.state.system_names import target_of
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

CLIENT_ID_BYTES_MAX = 64


@dataclass(frozen=True, slots=True)
class Fresh:
    """Order it: the record's body is the batch as it arrived."""

    header: record_pb2.RecordHeader


@dataclass(frozen=True, slots=True)
class Repeated:
    """It was executed before; this is the first answer."""

    run: DuplicateRun


EnqueuePlan = Fresh | Repeated


@dataclass(frozen=True, slots=True)
class EnqueueCall:
    queue: str
    client_id: bytes  # empty for a unary call
    first_sequence: int
    columns: Columns
    member: str  # through which it came
    request_id: bytes = b""  # empty for a stream
    request_hash: int = 0
    left_out: Collection[int] | None = None
    """Not None: put back by the manager, whole and also into a closed queue, but for these ordinals, which are here."""
    promised: bool = False  # rows of a publication: the queue counts them already
    unfit: Unfit = Unfit.REFUSED  # of a queue whose groups are complete; rows and what is put back enter FREE
    free: Collection[int] = ()  # ordinals of no group, whatever they say: earlier versions of them entered like that
    leaving: Departing = NOTHING_LEAVES  # the queue, by the same record and before these enter


def plan_enqueue(state: State, now_ms: int, call: EnqueueCall, *, full: bool = False) -> EnqueuePlan:
    """`full`: others wait for room, so that there is none for this one."""
    queue = state.named(call.queue)
    check_count(state, call)
    # Before any other test: a repetition gets the first answer although the queue has changed since.
    repeated = find_repeated(state, queue.queue_id, queue.name, call)
    if repeated is not None:
        return Repeated(repeated)
    if call.left_out is None:
        check_may_enqueue(queue, call.member)
    if call.columns.reply_tos and call.left_out is None:
        check_reply_tos(queue, call.columns.reply_tos)
    header = header_of(state, queue, now_ms, call, full=full)
    if queue.owned is not None and call.left_out is None:
        check_entering(state, (header.enqueue,), {queue.queue_id: call.leaving})
        if call.client_id:
            check_identity(state, queue, call.client_id, header.time_ms)
    return Fresh(header)


def check_count(state: State, call: EnqueueCall) -> None:
    count = call.columns.count
    if not 1 <= count <= state.limits.batch_messages_max:
        raise Refused(
            common_pb2.REASON_BAD_REQUEST,
            f"{count} messages in a batch; it may have 1 to {state.limits.batch_messages_max}",
        )


def check_may_enqueue(queue: QueueState, member: str) -> None:
    if member not in queue.open_members:
        raise Refused(common_pb2.REASON_INVALID_STATE, f"queue {queue.name} is not open at {member}; open it first")
    if not queue.config.enqueue_enabled:
        raise disabled(queue.name, queue.config)


def find_repeated(state: State, queue_id: int, name: str, call: EnqueueCall) -> DuplicateRun | None:
    """The first answer to a batch that was executed; None: it was not. The identity is that of a queue, or of a macro
    queue. Refused where its sequences say that it can be neither.
    """
    if call.request_id:
        answer = state.requests.find(call.request_id, call.request_hash)
        return None if answer is None else answer.duplicate_run()
    if not 1 <= len(call.client_id) <= CLIENT_ID_BYTES_MAX or not call.first_sequence:
        raise Refused(
            common_pb2.REASON_BAD_REQUEST,
            f"a batch needs a client id of 1 to {CLIENT_ID_BYTES_MAX} bytes and sequences from 1, or a request id",
        )
    first, end = call.first_sequence, call.first_sequence + call.columns.count
    producer = state.producers.get(queue_id, call.client_id)
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
    if first > last + 1:
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
    # Only the same batch is a repetition. Any other over used sequences may hold another producer's messages, and would
    # be acknowledged without being stored. Parts and joins of batches are not compared: what is remembered of a batch
    # is a checksum of its bytes.
    found = producer.find(first, end - first)
    if found is None or (found[1] is not None and call.request_hash and found[1] != call.request_hash & 0xFFFFFFFF):
        how = "in other batches" if found is None else "with other content"
        raise Refused(
            common_pb2.REASON_REQUEST_MISMATCH,
            f"sequences {first} to {end - 1} of queue {name}: up to {last} they were executed {how}, and this "
            "batch was not: another producer uses this client id or used it before, or this one re-cut its "
            "batches; go on under a new client id",
            known,
        )
    return found[0]


def header_of(
    state: State, queue: QueueState, now_ms: int, call: EnqueueCall, *, full: bool = False
) -> record_pb2.RecordHeader:
    columns = call.columns
    time_ms = state.at(now_ms)
    if queue.passed is not None and not call.promised:
        check_plain(queue, columns)
    refusals: list[record_pb2.Refusal] = []
    doubles: list[queue_service_pb2.EntryDuplicate] = []
    if call.promised:
        payload_bytes = columns.payload_bytes
    elif call.left_out is None:
        refusals, doubles, payload_bytes = _sift(queue, state, call, time_ms, full=full)
    else:
        refusals, payload_bytes = put_back(queue, columns, call.left_out)
    left_out = len(refusals) + len(doubles)
    op = record_pb2.EnqueueOp(
        queue_id=queue.queue_id,
        client_id=call.client_id,
        first_sequence=call.first_sequence,
        count=columns.count,
        first_index=queue.next_index if left_out < columns.count else 0,
        refusals=refusals,
        duplicates=doubles,
        dedup_ids=columns.dedup_ids,
        payload_bytes=payload_bytes,
        internal=call.left_out is not None or call.promised,
    )
    if queue.config.overflow == admin_pb2.OVERFLOW_DROP_HEAD and call.left_out is None:
        for start, end in (
            drops_over(queue)
            if call.promised
            else drops_for(queue, columns.count - left_out, payload_bytes, call.leaving)
        ):
            op.dropped.add(first=start, count=end - start)
    if columns.priorities:
        op.priorities.extend(columns.priorities)
    if columns.group_ids and queue.groups is not None:
        hashes = hashes_of(columns.group_ids, columns.count)
        if hashes and isinstance(queue.groups, WholeGroups):
            hashes = _name_places(state, queue, op, call, hashes)
        op.groups.extend(hashes)
    default_ttl_ms = milliseconds(queue.config.default_ttl)
    if columns.ttls_ms or default_ttl_ms:
        ttls_ms = columns.ttls_ms or (default_ttl_ms,)
        # 0 in a batch's column: this message names no time to live, so the queue's counts.
        op.expires_at_ms.extend(_expiry(time_ms, ttl or default_ttl_ms) for ttl in ttls_ms)
    if columns.delays_ms or columns.deliver_at_ms:
        op.deliver_at_ms.extend(delivery_times(time_ms, columns.delays_ms, columns.deliver_at_ms))
    if columns.reply_tos:
        op.addressed.extend(addressed(queue, columns.reply_tos))
    op.volatiles.extend(_volatiles(queue, columns.persistence))
    op.downgraded = (
        queue.config.persistence == admin_pb2.PERSISTENCE_VOLATILE and PERSISTENCE_PERSISTENT in columns.persistence
    )
    return record_pb2.RecordHeader(
        time_ms=time_ms, request_id=call.request_id, request_hash=call.request_hash, enqueue=op
    )


def _name_places(
    state: State, queue: QueueState, op: record_pb2.EnqueueOp, call: EnqueueCall, hashes: list[int]
) -> list[int]:
    """Of the members of groups (V19). What the manager puts here and does not fit its group enters without one."""
    columns = call.columns
    for ordinal in call.free:
        hashes[ordinal] = 0
    if call.promised or call.left_out is not None or call.unfit is Unfit.FREE:
        asked = fitting(queue, columns, state.limits)
        out = {refusal.ordinal for refusal in op.refusals} | {double.ordinal for double in op.duplicates}
        for ordinal in range(columns.count) if asked is not None else ():
            if ordinal in out or not hashes[ordinal]:
                continue
            assert asked is not None
            if asked.problem(ordinal):
                hashes[ordinal] = 0
            else:
                asked.enters(ordinal)
    for ordinal, group in enumerate(hashes):
        sequence, is_last = columns.group_place(ordinal)
        op.group_sequences.append(sequence if group else 0)
        op.lasts_in_group.append(is_last and group != 0)
        op.group_bytes.append(columns.sizes[ordinal] if group else 0)
    return hashes


def _expiry(time_ms: int, ttl_ms: int) -> int:
    return min(time_ms + ttl_ms, TIME_MS_MAX) if ttl_ms else 0


def _volatiles(queue: QueueState, persistence: Sequence[int]) -> Sequence[int]:
    """R150-R152: PERSISTENT saves all, VOLATILE none, CONDITIONAL those that are marked persistent; of what goes to
    another manager all but those that are marked volatile, since the queue that decides is not here (X7).
    """
    mode = queue.config.persistence
    if mode == admin_pb2.PERSISTENCE_PERSISTENT:
        return ()
    if mode == admin_pb2.PERSISTENCE_VOLATILE:
        return (PERSISTENCE_VOLATILE,)
    if target_of(queue.name):
        marks = [PERSISTENCE_VOLATILE if mark == PERSISTENCE_VOLATILE else 0 for mark in persistence]
        return marks if any(marks) else ()
    if not persistence:
        return (PERSISTENCE_VOLATILE,)
    marks = [0 if mark == PERSISTENCE_PERSISTENT else PERSISTENCE_VOLATILE for mark in persistence]
    return marks if any(marks) else ()


def is_volatile_now(queue: QueueState, persistence: Sequence[int]) -> bool:
    """Whether no message of a batch with these marks is on a disk for certain, if it entered at some time."""
    if queue.unsaved is not None and PERSISTENCE_PERSISTENT not in persistence:
        return True
    marks = _volatiles(queue, persistence)
    return len(marks) > 0 and min(marks) == PERSISTENCE_VOLATILE


def _sift(
    queue: QueueState, state: State, call: EnqueueCall, time_ms: int, *, full: bool
) -> tuple[list[record_pb2.Refusal], list[queue_service_pb2.EntryDuplicate], int]:
    """Entries that cannot enter, those that are known by their dedup id, and the payload bytes of the rest.

    The limits are exact (R157, R161).
    """
    config, columns, leaving = queue.config, call.columns, call.leaving
    if config.overflow == admin_pb2.OVERFLOW_DROP_HEAD:
        room, room_bytes = room_with_drops(queue, columns, leaving)
    else:
        room = 0 if full else max(0, config.max_length - queue.length + leaving.messages)
        held = queue.bytes - leaving.payload_bytes
        room_bytes = max(0, config.max_bytes - held) if config.max_bytes else columns.payload_bytes
    groups = None
    if queue.groups is not None and call.unfit is Unfit.REFUSED:
        groups = fitting(queue, columns, state.limits)
    if (
        groups is None
        and columns.count <= room
        and columns.payload_bytes <= room_bytes
        and columns.payload_bytes_max <= config.max_message_bytes
        and not columns.dedup_ids
    ):
        return [], [], columns.payload_bytes
    refusals: list[record_pb2.Refusal] = []
    doubles: list[queue_service_pb2.EntryDuplicate] = []
    fresh: dict[str, int] = {}  # dedup ids of this batch
    next_index, payload_bytes = queue.next_index, 0
    for ordinal, size in enumerate(columns.sizes):
        if name := columns.dedup_id(ordinal):
            known = queue.dedup_ids.find(name, time_ms, config) if queue.dedup_ids else 0
            if known := known or fresh.get(name, 0):
                doubles.append(queue_service_pb2.EntryDuplicate(ordinal=ordinal, index=known))
                continue
        if size > config.max_message_bytes:
            refusals.append(record_pb2.Refusal(ordinal=ordinal, reason=common_pb2.REASON_MESSAGE_TOO_LARGE))
            continue
        if groups is not None and (problem := groups.problem(ordinal)):
            refusals.append(record_pb2.Refusal(ordinal=ordinal, reason=problem))
            continue
        # Nothing passes an entry that found the queue full: a smaller one behind it would overtake it.
        full = full or not room or size > room_bytes - payload_bytes
        if full:
            refusals.append(record_pb2.Refusal(ordinal=ordinal, reason=common_pb2.REASON_QUEUE_FULL))
        else:
            room -= 1
            payload_bytes += size
            if groups is not None:
                groups.enters(ordinal)
            if name:
                fresh[name] = next_index
            next_index += 1
    return refusals, doubles, payload_bytes


def put_back(queue: QueueState, columns: Columns, left_out: Collection[int]) -> tuple[list[record_pb2.Refusal], int]:
    """Entries that are there already, and the payload bytes of the others. Refused when one of them does not fit: a
    part that was refused would be remembered as executed, and the repetition would never bring it. What is there
    already consumes its sequence and nothing more. Nothing is dropped to make room: that would take away what is newer.
    """
    sizes = [size for ordinal, size in enumerate(columns.sizes) if ordinal not in left_out]
    config, payload_bytes = queue.config, sum(sizes)
    too_large = max(sizes, default=0) > config.max_message_bytes
    length, size = queue.length + len(sizes), queue.bytes + payload_bytes
    if too_large or length > config.max_length or (config.max_bytes and size > config.max_bytes):
        reason = common_pb2.REASON_MESSAGE_TOO_LARGE if too_large else common_pb2.REASON_QUEUE_FULL
        text = f"queue {queue.name} cannot take all that is put back: raise its limits, or close it to other producers"
        raise Refused(reason, text)
    there = common_pb2.REASON_INVALID_STATE
    return [record_pb2.Refusal(ordinal=ordinal, reason=there) for ordinal in sorted(left_out)], payload_bytes

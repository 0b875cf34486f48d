"""Decides whether rows may be staged, and what a publication of them does; changes nothing.

(stage id, part) is the identity of a part, (writer, batch) that of a publication: both may be repeated for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica.machine.plan.columns import Columns
from replica.machine.plan.enqueue import EnqueueCall, check_may_enqueue, header_of
from replica.machine.plan.owners import check_stored
from replica.machine.plan.reply_copies import check_reply_tos
from replica.machine.plan.sides import check_plain
from replica.machine.plan.writers import check_room_for_writer, writer_of
from replica.machine.state.errors import Refused
from replica.machine.state.queue import QueueState
from replica.machine.state.stages import Stage, Writer
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

STAGE_ID_BYTES = 16
NAME_BYTES_MAX = 255
STAGES_OF_CALL_MAX = 10_000


@dataclass(frozen=True, slots=True)
class StageCall:
    stage_id: bytes
    part: int
    queue: str
    columns: Columns
    ttl_ms: int  # 0: the default
    fingerprint: int
    member: str  # through which it came


@dataclass(frozen=True, slots=True)
class PublishCall:
    writer: str
    query_id: str
    batch: int
    stage_ids: Sequence[bytes]
    member: str
    previous_batch: int | None = None  # that its caller has published; None: he does not say
    history_id: bytes = b""  # of what he has published; empty: he does not say


class PublishPlan(NamedTuple):
    header: record_pb2.RecordHeader | None  # None: there is nothing to do
    duplicate: bool
    payload_bytes: int  # that are written once more
    queue_ids: tuple[int, ...]  # that get rows


def plan_stage(state: State, now_ms: int, call: StageCall) -> record_pb2.RecordHeader | None:
    """Its body is the batch as it arrived. None: the part is here already."""
    stages, columns, limits = state.stages, call.columns, state.limits
    if len(call.stage_id) != STAGE_ID_BYTES or not call.part:
        raise _bad(f"a stage has an id of {STAGE_ID_BYTES} bytes, and its parts are numbered from 1")
    stage = stages.by_id.get(call.stage_id)
    if _is_there(stage, call):
        return None
    queue = state.named(call.queue)
    check_may_enqueue(queue, call.member)
    if not 1 <= columns.count <= limits.batch_messages_max:
        raise _bad(f"{columns.count} rows in a part; it may have 1 to {limits.batch_messages_max}")
    _check_rows(queue, columns)
    _check_room(state, call)
    op = record_pb2.StageOp(
        stage_id=call.stage_id,
        part=call.part,
        queue_id=queue.queue_id,
        count=columns.count,
        payload_bytes=columns.payload_bytes,
        expires_at_ms=state.at(now_ms) + (call.ttl_ms or limits.stage_ms),
    )
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), request_hash=call.fingerprint, stage=op)


def _is_there(stage: Stage | None, call: StageCall) -> bool:
    have = len(stage.parts) if stage is not None else 0
    if stage is not None and call.part <= have:
        if stage.parts[call.part - 1].fingerprint != call.fingerprint:
            text = f"part {call.part} of stage {call.stage_id.hex()} has other rows; number each part once"
            raise Refused(common_pb2.REASON_REQUEST_MISMATCH, text)
        return True
    if stage is None and call.part > 1:
        raise _no_stage([call.stage_id])
    if call.part > have + 1:
        text = f"part {call.part} of stage {call.stage_id.hex()} does not follow {have}; send the parts in order"
        raise Refused(common_pb2.REASON_SEQUENCE_GAP, text, {"last_part": str(have)})
    return False


def _check_rows(queue: QueueState, columns: Columns) -> None:
    """What no publication could put into the queue is refused here, where its sender still has it."""
    if columns.payload_bytes_max > queue.config.max_message_bytes:
        text = (
            f"a row of {columns.payload_bytes_max} bytes; queue {queue.name} takes {queue.config.max_message_bytes} "
            "(max_message_bytes); send less, or raise it"
        )
        raise Refused(common_pb2.REASON_MESSAGE_TOO_LARGE, text)
    if (
        any(columns.group_sequences) or any(columns.lasts_in_group)
    ) and queue.config.group_mode == admin_pb2.GROUP_MODE_COMPLETE:
        text = (
            f"queue {queue.name} has group_mode COMPLETE, and a publication cannot be refused: leave out the "
            "group_sequence, or send the messages"
        )
        raise Refused(common_pb2.REASON_GROUP_MISMATCH, text)
    if queue.passed is not None:
        check_plain(queue, columns)
    if any(columns.dedup_ids):
        text = "a staged row has a dedup id; leave it out: the writer's batch number is what keeps it from coming twice"
        raise Refused(common_pb2.REASON_BAD_ATTRIBUTE, text)
    if columns.reply_tos:
        check_reply_tos(queue, columns.reply_tos)


def _check_room(state: State, call: StageCall) -> None:
    stages, limits = state.stages, state.limits
    for what, there, more, most in (
        ("stages", len(stages.by_id), call.stage_id not in stages.by_id, limits.stages_max),
        ("parts", len(stages.records), 1, limits.stage_parts_max),
        ("rows", stages.rows, call.columns.count, limits.stage_rows_max),
        ("bytes", stages.payload_bytes, call.columns.payload_bytes, limits.stage_bytes_max),
    ):
        if there + more > most:
            text = f"{there} {what} are staged in this domain and {most} may be; publish or abort stages first"
            raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, {"limit": str(most), "of": what}, 1000)


def plan_publish(state: State, now_ms: int, call: PublishCall) -> PublishPlan:
    """Once it is applied, the first publication is carried out by the records that `plan_staged` makes."""
    stages = state.stages
    _check_names(call)
    known = writer_of(stages, call.writer, call.query_id)
    if call.previous_batch is not None and (known is None or known.batch < call.previous_batch):
        raise _unheard_of(state, call, known)
    op = record_pb2.PublishOp(writer=call.writer, query_id=call.query_id, batch=call.batch)
    header = record_pb2.RecordHeader(time_ms=state.at(now_ms), publish=op)
    if known is not None and call.batch <= known.batch:
        header.publish.stage_ids.extend(each for each in call.stage_ids if each in stages.by_id)
        header.publish.duplicate = True
        return PublishPlan(header if header.publish.stage_ids else None, True, 0, ())
    check_room_for_writer(state, call.writer)
    if missing := [stage_id for stage_id in call.stage_ids if stage_id not in stages.by_id]:
        raise _no_stage(missing)
    queue_ids = _check_queues(state, call)
    header.publish.stage_ids.extend(call.stage_ids)
    size = sum(stages.by_id[stage_id].payload_bytes for stage_id in call.stage_ids)
    return PublishPlan(header, False, size, queue_ids)


def _unheard_of(state: State, call: PublishCall, known: Writer | None) -> Refused:
    """What the caller has published was published elsewhere, or was given up: his next batch would hide that."""
    here = f"its last batch here is {known.batch}" if known is not None else "it is not known here"
    facts = {"writer": call.writer, "batch": str(known.batch) if known is not None else ""}
    if known is None and not call.history_id:
        text = (
            f"writer {call.writer!r} has published before, and {here}: another pair answers, or this one was begun "
            f"anew (its history is {state.history_id.hex() or 'without an id'}); begin there with a new checkpoint"
        )
        return Refused(common_pb2.REASON_PAIR_CHANGED, text, {**facts, "history_id": state.history_id.hex()})
    text = (
        f"writer {call.writer!r} has published batch {call.previous_batch}, and {here}: the pair went back behind it, "
        "to a backup for example, or the writer was released; whoever wrote it knows what is missing: begin with a new "
        "checkpoint"
    )
    return Refused(common_pb2.REASON_EPOCH_DIVERGED, text, facts)


def _check_names(call: PublishCall) -> None:
    for what, name in (("writer", call.writer), ("query_id", call.query_id)):
        if not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
            raise _bad(f"{what} has {len(name.encode())} bytes; it may have 1 to {NAME_BYTES_MAX}")
    if len(call.stage_ids) > STAGES_OF_CALL_MAX or len(set(call.stage_ids)) < len(call.stage_ids):
        raise _bad(f"{len(call.stage_ids)} stages; a call names each once, and {STAGES_OF_CALL_MAX} at most")


def _check_queues(state: State, call: PublishCall) -> tuple[int, ...]:
    """All of it, or nothing: what is decided here is carried out whatever comes meanwhile."""
    rows: dict[int, tuple[int, int]] = {}
    for stage_id in call.stage_ids:
        for part in state.stages.by_id[stage_id].parts:
            count, size = rows.get(part.queue_id, (0, 0))
            rows[part.queue_id] = count + part.count, size + part.payload_bytes
    for queue_id, (count, size) in rows.items():
        queue = state.queues[queue_id]
        check_may_enqueue(queue, call.member)
        config = queue.config
        drops = config.overflow == admin_pb2.OVERFLOW_DROP_HEAD
        length, held = (0, 0) if drops else (queue.length, queue.bytes)
        if length + count > config.max_length or (config.max_bytes and held + size > config.max_bytes):
            text = (
                f"queue {queue.name} has no room for {count} rows of {size} bytes: {queue.length} of "
                f"{config.max_length} messages are in it; consume, or raise its limits, and repeat the call"
            )
            raise Refused(common_pb2.REASON_QUEUE_FULL, text, {"queue": queue.name}, 1000)
    check_stored(state, ((state.queues[queue_id], size) for queue_id, (_, size) in rows.items()))
    return tuple(rows)


def plan_staged(state: State, now_ms: int, columns: Columns) -> record_pb2.RecordHeader:
    """The ENQUEUE record of the next part of the first publication; its body is that of the part."""
    part = state.stages.publications[0].parts[0]
    queue = state.queues[part.queue_id]
    assert columns.count == part.count, "the part holds other rows than its record says"
    call = EnqueueCall(queue.name, b"", 0, columns, "", promised=True)
    header = header_of(state, queue, now_ms, call)
    header.enqueue.staged = part.log_index
    return header


def plan_unstage(state: State, now_ms: int, stage_ids: Sequence[bytes]) -> record_pb2.RecordHeader | None:
    """None: none of them is there."""
    if len(stage_ids) > STAGES_OF_CALL_MAX:
        raise _bad(f"{len(stage_ids)} stages; a call may name {STAGES_OF_CALL_MAX}")
    found = [stage_id for stage_id in dict.fromkeys(stage_ids) if stage_id in state.stages.by_id]
    op = record_pb2.UnstageOp(stage_ids=found)
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), unstage=op) if found else None


def plan_release(state: State, now_ms: int, writer: str) -> record_pb2.RecordHeader | None:
    """None: nobody of that name is known."""
    if writer not in state.stages.writers:
        return None
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), release=record_pb2.ReleaseOp(writer=writer))


def _bad(text: str) -> Refused:
    return Refused(common_pb2.REASON_BAD_REQUEST, text)


def _no_stage(stage_ids: Sequence[bytes]) -> Refused:
    text = (
        f"{len(stage_ids)} stages are not here, {stage_ids[0].hex()} is the first: they were dropped when their time "
        "was over, published, or never made; stage the rows again under a new id"
    )
    return Refused(common_pb2.REASON_STAGE_NOT_FOUND, text, {"stage_id": stage_ids[0].hex()})

"""Decides whether copies of a queue's messages may enter another one and leave the first in the same record; changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica.machine.plan.columns import Columns
from replica.machine.plan.dead_letters import dead_letter_name
from replica.machine.plan.dropping import NOTHING_LEAVES, Departing, room_with_drops
from replica.machine.plan.enqueue import EnqueueCall, header_of
from replica.machine.plan.gathering import Unfit
from replica.machine.plan.reply_copies import check_reply_tos
from replica.machine.plan.sides import refuse_where_plain, refuse_where_sides
from replica.machine.sets.ranges import Run
from replica.machine.sets.spans import SpanRow
from replica.machine.state.errors import Refused, disabled
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

ONE_SIDE = "what an administrator takes out one side may have been given already"


@dataclass(frozen=True, slots=True)
class MoveCall:
    queue_id: int  # where the messages are
    to: str
    indexes: Sequence[int]  # rising; none of them leased
    columns: Columns  # of the copies, in that order
    final: service_pb2.FinalState
    expires_at_ms: Sequence[int] = ()  # one each, 0: as the other queue has it; empty: as the columns say
    deliver_at_ms: Sequence[int] = ()  # one each, 0: at once
    request_id: bytes = b""
    request_hash: int = 0
    lease_id: int = 0  # not 0: the lease that holds them, and ends by the same record before
    leaving: Departing = NOTHING_LEAVES  # the other queue, by the same record and before these enter
    more: Sequence[tuple[int, Sequence[int]]] = ()  # other queues, and what leaves them: their copies follow


class QueueRoom(NamedTuple):
    """What a queue takes at once."""

    messages: int
    payload_bytes: int


class DyingRows(NamedTuple):
    """Some dying messages of a queue, by rising index."""

    queue: str
    to: str  # empty: it has no dead-letter queue any more
    made: bool  # whether that one exists
    makes: bool  # whether the manager makes it
    rows: list[SpanRow]  # start, end, place of the reason
    reasons: list[str]


def room_in(state: State, name: str, *, drops: bool = True, leaving: Departing = NOTHING_LEAVES) -> QueueRoom:
    """Refused when it takes nothing: not there, closed, disabled or full.

    `drops`: a DROP_HEAD queue makes room. Not for a sweep: its next record would drop what the one before it brought.
    """
    queue = state.named(name)
    if not queue.open_members:
        raise Refused(common_pb2.REASON_INVALID_STATE, f"queue {name} is not open; open it first")
    config = queue.config
    if not config.enqueue_enabled:
        raise disabled(name, config)
    messages = config.max_length - queue.length + leaving.messages
    payload_bytes = config.max_bytes - queue.bytes + leaving.payload_bytes if config.max_bytes else 1 << 62
    if drops and config.overflow == admin_pb2.OVERFLOW_DROP_HEAD:
        messages, payload_bytes = messages + queue.droppable_count, config.max_bytes or payload_bytes
    if messages <= 0 or payload_bytes <= 0:
        raise Refused(common_pb2.REASON_QUEUE_FULL, f"queue {name} is full")
    return QueueRoom(messages, payload_bytes)


def room_for_moved(state: State, name: str, *, drops: bool = True, leaving: Departing = NOTHING_LEAVES) -> QueueRoom:
    """The same for what was a message of another queue: where there are sides none enters."""
    refuse_where_sides(state.named(name), "it takes messages of producers, and no moved ones")
    return room_in(state, name, drops=drops, leaving=leaving)


def check_copy(state: State, name: str, payload_bytes: int, reply_to: str) -> None:
    """Refused when no time makes such a message one of that queue, whatever leaves it."""
    queue = state.named(name)
    limit = queue.config.max_bytes
    if limit and payload_bytes > limit:
        text = f"more payload than queue {name} may hold in all (max_bytes {limit})"
        raise Refused(common_pb2.REASON_MESSAGE_TOO_LARGE, text)
    if reply_to:
        check_reply_tos(queue, (reply_to,))


def fits_in(state: State, name: str, columns: Columns) -> int:
    """How many of these copies, the first ones, a queue takes now, which drops what it can. What is leased there it
    cannot: `room_in`, which looks at no message, does not count that.
    """
    room, room_bytes = room_with_drops(state.named(name), columns)
    if columns.count <= room and columns.payload_bytes <= room_bytes:
        return columns.count
    for count, size in enumerate(columns.sizes):
        room_bytes -= size
        if count >= room or room_bytes < 0:
            return count
    return columns.count


def dying_of(state: State, queue_id: int, from_index: int, limit: int) -> DyingRows:
    queue = state.queues[queue_id]
    rows: list[SpanRow] = []
    for start, end, number in queue.dying.rows(from_index, queue.visible_index + 1):
        rows.append((start, min(end, start + limit), number))
        limit -= end - start
        if limit <= 0:
            break
    to = dead_letter_name(queue)
    makes = not queue.config.HasField("dead_letter_queue")
    return DyingRows(queue.name, to, to in state.ids, makes, rows, list(queue.reasons))


def plan_move(state: State, now_ms: int, call: MoveCall) -> record_pb2.RecordHeader:
    """Its body is a batch of the copies; the source's messages leave when it is applied."""
    source, to = state.numbered(call.queue_id), state.named(call.to)
    refuse_where_plain(source, ONE_SIDE)
    assert call.request_id not in state.requests, "find_request comes first"
    sources = [(source, call.indexes), *((state.numbered(queue_id), indexes) for queue_id, indexes in call.more)]
    count = sum(len(indexes) for _, indexes in sources)
    assert 0 < count == call.columns.count, "a copy for each message"
    if any(each is to for each, _ in sources):
        raise Refused(common_pb2.REASON_BAD_REQUEST, f"queue {to.name} is where the messages are already")
    drops = call.final == service_pb2.FINAL_STATE_DEAD_LETTERED
    room = room_for_moved(state, call.to, drops=drops, leaving=call.leaving)
    if count > room.messages or call.columns.payload_bytes > room.payload_bytes:
        raise Refused(common_pb2.REASON_QUEUE_FULL, f"queue {to.name} has no room for {count} messages")
    if call.columns.reply_tos:
        check_reply_tos(to, call.columns.reply_tos)
    for each, indexes in sources:
        _check_there(each, ranges_of(indexes), call.lease_id)
    # What the source let in may be longer than what the other queue takes from its producers: it is here already.
    columns = call.columns._replace(payload_bytes_max=0, delays_ms=(), deliver_at_ms=())
    if call.expires_at_ms:
        columns = columns._replace(ttls_ms=())
    member = min(to.open_members)
    # A dead letter waits for no other one: who looks after them is to see each of them.
    free = range(columns.count) if call.final == service_pb2.FINAL_STATE_DEAD_LETTERED else ()
    ids = call.request_id, call.request_hash
    enqueue = EnqueueCall(to.name, b"", 0, columns, member, *ids, leaving=call.leaving, unfit=Unfit.FREE, free=free)
    header = header_of(state, to, now_ms, enqueue)
    op = header.enqueue
    if op.refusals:  # what is leased there cannot be dropped
        raise Refused(common_pb2.REASON_QUEUE_FULL, f"queue {to.name} has no room for {count} messages")
    op.internal = True
    _note_source(op.moved_from, source, call.indexes)
    for each, indexes in sources[1:]:
        _note_source(op.more_moved_from.add(), each, indexes)
    op.moved_final = call.final
    if any(call.expires_at_ms):
        otherwise = op.expires_at_ms[0] if op.expires_at_ms else 0
        del op.expires_at_ms[:]
        op.expires_at_ms.extend(expiry or otherwise for expiry in call.expires_at_ms)
    if any(call.deliver_at_ms):
        op.deliver_at_ms.extend(call.deliver_at_ms)
    return header


def _note_source(left: record_pb2.QueueRanges, source: QueueState, indexes: Sequence[int]) -> None:
    left.queue_id = source.queue_id
    runs = ranges_of(indexes)
    left.ranges.extend(common_pb2.IndexRange(first=start, count=end - start) for start, end in runs)


def ranges_of(indexes: Sequence[int]) -> list[Run]:
    runs: list[Run] = []
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def _check_there(source: QueueState, runs: Sequence[Run], lease_id: int = 0) -> None:
    lease = source.leases.get(lease_id)
    for start, end in runs:
        if lease is not None and lease.ranges.covers(start, end):
            continue
        if sum(high - low for low, high in source.unleased_in(start, end)) < end - start:
            raise Refused(
                common_pb2.REASON_MESSAGE_NOT_FOUND,
                f"a message of queue {source.name} is gone, or was leased meanwhile",
            )


@dataclass(frozen=True, slots=True)
class RemoveCall:
    """Some of an administrator's removal; or the beginning or the end of a call that goes through a queue (a sweep)."""

    queue_id: int
    indexes: Sequence[int] = ()  # rising; none of them leased
    total: int = 0
    left: int = 0
    request_id: bytes = b""
    request_hash: int = 0
    leased: int = 0
    behind: Sequence[admin_pb2.LeftBehind] = ()


def plan_remove(state: State, now_ms: int, call: RemoveCall) -> record_pb2.RecordHeader:
    queue = state.numbered(call.queue_id)
    refuse_where_plain(queue, ONE_SIDE)
    assert call.request_id not in state.requests, "find_request comes first"
    runs = ranges_of(call.indexes)
    _check_there(queue, runs)
    op = record_pb2.RemoveOp(
        queue_id=queue.queue_id,
        ranges=[common_pb2.IndexRange(first=start, count=end - start) for start, end in runs],
        final_state=service_pb2.FINAL_STATE_PURGED,
        total=call.total,
        left=call.left,
        leased=call.leased,
        behind=call.behind,
    )
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, remove=op
    )

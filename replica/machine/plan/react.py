"""Decides whether a reaction may act on the messages that were found for it, and what its record is; changes nothing.

Which messages those are is decided before, with their bodies at hand (V4, V5). All of it is one record (V6): what
leaves, what enters in its place, reports of it, and what the call came to, for its repetition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica.machine.plan.columns import Columns
from replica.machine.plan.dropping import NOTHING_LEAVES, Departing, leaving_of
from replica.machine.plan.enqueue import EnqueueCall, check_may_enqueue, header_of
from replica.machine.plan.gathering import Unfit, of_no_group
from replica.machine.plan.lock import check_waiting, index_ranges
from replica.machine.plan.move import MoveCall, plan_move, ranges_of
from replica.machine.plan.owners import check_entering
from replica.machine.plan.reply_copies import check_reply_tos
from replica.machine.plan.unit_identity import UnitIdentity, check_follows
from replica.machine.sets.ranges import Run
from replica.machine.state.config import milliseconds
from replica.machine.state.errors import Refused
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from replica.machine.state.system_names import kept_queue
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_REACTED

TARGETS_MAX = 10_000
"""Of one reaction (V6)."""


@dataclass(frozen=True, slots=True)
class Copies:
    """What enters one queue in the place of some targets, one each, in their order."""

    to: str
    columns: Columns
    expires_at_ms: Sequence[int]  # one each, 0: as the queue has it
    deliver_at_ms: Sequence[int]  # one each, 0: at once
    targets: Sequence[int]  # rising indexes
    queue_id: int  # where they are
    others: Sequence[tuple[int, Sequence[int]]] = ()  # of other queues, whose copies follow


class ReactHome(NamedTuple):
    """A reaction at one of several queues (V18)."""

    queue_id: int
    targets: Sequence[int]
    found: record_pb2.ReactionCounts


@dataclass(frozen=True, slots=True)
class DeniedHit:
    """A kept reaction, and messages that it has no right to act on (V16)."""

    store_id: int  # where it is kept
    index: int  # and at which index
    runs: Sequence[Run]

    @property
    def count(self) -> int:
        """Of the messages."""
        return sum(high - low for low, high in self.runs)


@dataclass(frozen=True, slots=True)
class ReactCall:
    queue_id: int  # where the targets are
    targets: Sequence[int]  # rising indexes, of ready, delayed and blocked messages
    found: record_pb2.ReactionCounts  # what was found beside them, and them
    request_id: bytes
    request_hash: int
    copies: Sequence[Copies] = ()  # by queue; those in the place of which nothing enters are removed
    reports: Sequence[record_pb2.EnqueueOp] = ()  # of other queues, planned
    keeps: Sequence[record_pb2.EnqueueOp] = ()  # it is kept as well, planned; one a queue
    used: tuple[int, int] | None = None  # it was kept in that queue, at that index, and is used up
    forwards: record_pb2.EnqueueOp | None = None  # it goes on to another manager, planned
    identity: UnitIdentity | None = None  # of a step of the link that it came by
    lease_id: int = 0  # not 0: of a unit of work, which has locked the targets so
    others: Sequence[ReactHome] = ()  # the same at other queues

    @property
    def homes(self) -> list[ReactHome]:
        """At each queue."""
        return [ReactHome(self.queue_id, self.targets, self.found), *self.others]

    def removed(self, home: ReactHome) -> list[int]:
        """Targets there in the place of which nothing enters."""
        replaced = {
            index
            for each in self.copies
            for queue_id, indexes in ((each.queue_id, each.targets), *each.others)
            if queue_id == home.queue_id
            for index in indexes
        }
        return [index for index in home.targets if index not in replaced]

    @property
    def entries(self) -> int:
        """Of the record's body."""
        made = sum(each.columns.count for each in self.copies)
        beside = sum(each.count for each in self.reports) + sum(each.count for each in self.keeps)
        return made + beside + (self.forwards.count if self.forwards is not None else 0)


def check_reactions(queue: QueueState, name: str = "") -> None:
    """V1. `name`: by which it was called, the only one that the caller need know."""
    if not queue.config.reactions_enabled:
        name = name or queue.name
        text = f"reactions are off at queue {name}: set reactions_enabled (`tandemq queue update --reactions`)"
        raise Refused(common_pb2.REASON_REACTION_DISABLED, text, {"queue": name})


def check_count(queue: QueueState, count: int) -> None:
    """V6."""
    if count > TARGETS_MAX:
        text = (
            f"the reaction fits {count} messages of queue {queue.name}; it may act on {TARGETS_MAX} at once: name "
            "fewer, or use DeleteMessages or MoveMessages, which go through a queue in many steps"
        )
        raise Refused(common_pb2.REASON_TXN_TOO_LARGE, text, {"limit": str(TARGETS_MAX)})


def check_once(queues: Sequence[QueueState]) -> None:
    """V18: a record has one entry a queue."""
    for place, queue in enumerate(queues):
        if queue in queues[:place]:
            text = f"queue {queue.name} is named twice: name each queue once"
            raise Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": queue.name})


def check_other(state: State, queue: QueueState, to: str, report_to: str) -> None:
    """Refused, also when nothing fits. A record has one entry a queue."""
    other = state.named(to) if to else None
    if other is queue:
        text = f"queue {queue.name} is where the messages are already"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": queue.name})
    if report_to and state.named(report_to) in (queue, other):
        text = f"report_to is queue {report_to}, which the reaction acts on or moves to; name another one"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": report_to})


def plan_react(state: State, now_ms: int, call: ReactCall) -> record_pb2.RecordHeader:
    """Its body is one EnqueueBatch with the copies and the reports. Raises Refused with nothing done."""
    assert call.request_id not in state.requests, "find_request comes first"
    header = record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash
    )
    if (own := call.identity) is not None:
        check_follows(state, own)
        txn = header.txn
        txn.writer, txn.query_id, txn.number, txn.digest = own.writer, own.query_id, own.number, own.digest
    check_count(state.numbered(call.queue_id), sum(len(home.targets) for home in call.homes))
    leaving: dict[int, Departing] = {}
    for home in call.homes:
        queue = state.numbered(home.queue_id)
        assert home.found.applied == len(home.targets), "what is acted on is what was found"
        check_reactions(queue)
        removed = header.txn.removes.add(queue_id=queue.queue_id, final_state=FINAL_STATE_REACTED, reaction=home.found)
        if home.targets:
            check_waiting(queue, home.targets)
            removed.ranges.extend(index_ranges(call.removed(home)))
        leaving[queue.queue_id] = leaving_of(queue, ranges_of(home.targets))
    if call.used is not None:
        store_id, index = call.used
        header.txn.removes.add(queue_id=store_id, final_state=FINAL_STATE_REACTED, ranges=index_ranges([index]))
    header.txn.enqueues.extend(entering(state, now_ms, call, leaving, 0))
    if call.request_id:  # what is kept acts when it fits, and nobody is there to repeat it
        check_entering(state, header.txn.enqueues, leaving)
    return header


def entering(
    state: State, now_ms: int, call: ReactCall, leaving: Mapping[int, Departing], first_ordinal: int
) -> list[record_pb2.EnqueueOp]:
    """What a reaction puts into queues, from that place of the record's body on. `leaving`: of each queue, what leaves
    it by the same record before. Raises Refused.
    """
    found: list[record_pb2.EnqueueOp] = []
    for each in call.copies:
        queue = state.numbered(each.queue_id)
        if each.to == queue.name:
            found.append(_change(state, now_ms, queue, each, leaving))
        else:
            found.append(_move(state, now_ms, queue, call, each, leaving))
    found += call.reports
    found += call.keeps
    if call.forwards is not None:
        found.append(call.forwards)
    for op in found:
        op.first_ordinal = first_ordinal
        first_ordinal += op.count
    return found


def plan_report(
    state: State,
    now_ms: int,
    queue: str,
    columns: Columns,
    *,
    full: bool = False,
    leaving: Departing = NOTHING_LEAVES,
) -> record_pb2.EnqueueOp:
    """Messages of the manager for that queue, which name no `reply_to`; what finds no room is among its refusals.
    Raises Refused.

    `full`: others wait for room. `leaving`: what leaves that queue by the same record before.
    """
    to = state.named(queue)
    check_may_enqueue(to, min(to.open_members, default=""))
    call = EnqueueCall(to.name, b"", 0, columns, min(to.open_members), leaving=leaving, unfit=Unfit.FREE)
    op = header_of(state, to, now_ms, call, full=full).enqueue
    op.queue, op.internal = to.name, True
    return op


def kept_ms(state: State, queue: QueueState, ttl_ms: int) -> int:
    """V11: how long it is kept; 0: as long as it may. Raises Refused."""
    most = milliseconds(queue.config.max_sticky_ttl) or state.limits.kept_ms  # an older version knew no attribute
    if not 0 <= ttl_ms <= most:
        text = (
            f"reaction.ttl is {ttl_ms} ms; queue {queue.name} keeps a reaction for {most} ms at most (max_sticky_ttl)"
        )
        raise Refused(common_pb2.REASON_BAD_REQUEST, text, {"limit_ms": str(most)})
    return ttl_ms or most


def plan_keep(
    state: State, now_ms: int, queue: QueueState, key: record_pb2.KeptKey, columns: Columns
) -> record_pb2.EnqueueOp:
    """V11: it enters the queue of those that are kept for that one. Raises Refused."""
    store = state.named(kept_queue(queue.name))
    limits, kept = state.limits, store.kept
    if kept is not None and len(kept) >= limits.kept_max:
        raise _too_many(queue, limits.kept_max, "reactions")
    if kept is not None and kept.hashes + len(key.hashes) > limits.kept_hashes_max:
        raise _too_many(queue, limits.kept_hashes_max, "ids in reactions")
    if kept is not None and key.by == record_pb2.KEPT_BY_SELECTOR and len(kept.selectors) >= limits.kept_selectors_max:
        raise _too_many(queue, limits.kept_selectors_max, "reactions with nothing but a selector")
    if kept is not None and kept.most(key.by, key.hashes) >= limits.kept_selectors_max:  # each is looked at, too
        raise _too_many(queue, limits.kept_selectors_max, "reactions of one id, correlation id or group id")
    call = EnqueueCall(store.name, b"", 0, columns, min(store.open_members, default=""))
    op = header_of(state, store, now_ms, call).enqueue
    if op.refusals:
        text = f"queue {store.name} does not take the reaction; see its attributes"
        raise Refused(op.refusals[0].reason, text, {"queue": store.name})
    op.queue, op.internal = store.name, True
    op.kept.CopyFrom(key)
    op.kept.queue_id = queue.queue_id
    return op


def plan_deny(
    state: State,
    now_ms: int,
    queue: QueueState,
    hits: Sequence[DeniedHit],
    reports: Sequence[record_pb2.EnqueueOp],
) -> record_pb2.RecordHeader:
    """V16: kept reactions leave messages of that queue alone for good. `reports`: planned."""
    oldest = next(queue.segments.parts(1, queue.next_index), None)
    first_index = queue.next_index if oldest is None else oldest.start
    header = record_pb2.RecordHeader(time_ms=state.at(now_ms))
    for hit in hits:
        ranges = [common_pb2.IndexRange(first=low, count=high - low) for low, high in hit.runs]
        header.txn.removes.add(
            queue_id=queue.queue_id,
            final_state=FINAL_STATE_REACTED,
            reaction=record_pb2.ReactionCounts(denied=hit.count),
            denied=record_pb2.DeniedHits(
                store_id=hit.store_id, index=hit.index, ranges=ranges, first_index=first_index
            ),
        )
    header.txn.enqueues.extend(reports)
    first_ordinal = 0
    for op in header.txn.enqueues:
        op.first_ordinal = first_ordinal
        first_ordinal += op.count
    return header


def _too_many(queue: QueueState, limit: int, what: str) -> Refused:
    text = f"{limit} {what} are kept for queue {queue.name}, which is the most; wait until some end, or purge them"
    return Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, {"queue": queue.name, "limit": str(limit)})


def _move(
    state: State,
    now_ms: int,
    queue: QueueState,
    call: ReactCall,
    copies: Copies,
    leaving: Mapping[int, Departing],
) -> record_pb2.EnqueueOp:
    """V9: they leave the one queue and enter the other at once."""
    times = copies.expires_at_ms, copies.deliver_at_ms
    to = state.named(copies.to)
    move = MoveCall(
        queue.queue_id,
        copies.to,
        copies.targets,
        copies.columns,
        FINAL_STATE_REACTED,
        *times,
        lease_id=call.lease_id,
        more=copies.others,
        leaving=leaving.get(to.queue_id, NOTHING_LEAVES),
    )
    op = plan_move(state, now_ms, move).enqueue
    op.queue = to.name
    return op


def _change(
    state: State, now_ms: int, queue: QueueState, copies: Copies, leaves: Mapping[int, Departing]
) -> record_pb2.EnqueueOp:
    """V8: they leave and enter again."""
    check_may_enqueue(queue, min(queue.open_members, default=""))
    columns = copies.columns._replace(ttls_ms=(), delays_ms=(), deliver_at_ms=())
    if columns.reply_tos:
        check_reply_tos(queue, columns.reply_tos)
    leaving = leaves[queue.queue_id]
    size = queue.bytes - leaving.payload_bytes + columns.payload_bytes
    length = queue.length - leaving.messages + columns.count
    # Before anything is dropped for them: that might be themselves.
    if length > queue.config.max_length or 0 < queue.config.max_bytes < size:
        raise _beyond(queue, common_pb2.REASON_QUEUE_FULL, "max_length or max_bytes")
    free, through = of_no_group(queue, copies.targets), min(queue.open_members)
    entry = EnqueueCall(queue.name, b"", 0, columns, through, leaving=leaving, unfit=Unfit.NEVER, free=free)
    op = header_of(state, queue, now_ms, entry).enqueue
    if op.refusals:
        raise _beyond(queue, op.refusals[0].reason, "max_message_bytes")
    assert not op.dropped, "they take their own place"
    op.queue, op.internal, op.updated = queue.name, True, True
    op.moved_from.queue_id = queue.queue_id
    op.moved_from.ranges.extend(index_ranges(copies.targets))
    op.moved_final = FINAL_STATE_REACTED
    if any(copies.expires_at_ms):
        otherwise = op.expires_at_ms[0] if op.expires_at_ms else 0
        del op.expires_at_ms[:]
        op.expires_at_ms.extend(expiry or otherwise for expiry in copies.expires_at_ms)
    if any(copies.deliver_at_ms):
        op.deliver_at_ms.extend(copies.deliver_at_ms)
    return op


def _beyond(queue: QueueState, reason: common_pb2.Reason, limit: str) -> Refused:
    text = f"what the reaction makes of a message is more than {limit} of queue {queue.name} allows"
    return Refused(reason, text, {"queue": queue.name})

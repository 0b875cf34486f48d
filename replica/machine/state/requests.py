"""Remembers how unary calls were answered, by request id; never decides what a call does.

A row is one bytes object, so that hundreds of thousands of calls fit and a snapshot copies them as they are.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replica.machine.state.dealing import dealt_run
from replica.machine.state.dedup import Doubles, DuplicateRun, Refusals
from replica.machine.state.errors import Refused
from replica.machine.state.limits import Limits
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

REQUEST_ID_BYTES = 16
_ROW = struct.Struct(">QBQQQ")  # request hash, kind, log index, epoch, version of the queue after it
_KINDS = (
    "enqueue",
    "lease",
    "settle",
    "queue",
    "reply",
    "remove",
    "alias",
    "defaults",
    "reader",
    "weights",
    "txn",
    "macro",
    "rights",
    "proxy",
)


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """The first answer. Which fields count follows from the kind."""

    kind: str  # one of _KINDS
    log_index: int
    epoch: int
    queue_id: int = 0
    # enqueue
    first_index: int = 0
    count: int = 0
    refusals: Refusals = ()
    doubles: Doubles = ()
    downgraded: bool = False
    macro_id: int = 0  # not 0: it was sent to this macro queue
    # lease
    lease_id: int = 0
    ranges: Sequence[common_pb2.IndexRange] = ()
    delivery_counts: Sequence[int] = ()  # of what was removed at delivery, in the order of the ranges; empty: 1 each
    # settle
    results: Sequence[queue_service_pb2.SettleResult] = ()
    # queue; of an alias its queue's name; of the defaults the version alone
    action: record_pb2.QueueAction = record_pb2.QUEUE_ACTION_UNSPECIFIED
    name: str = ""
    removed: int = 0  # remove too
    version: int = 0  # weights and rights too
    # weights
    valid_until_ms: int = 0
    # remove
    left: int = 0
    leased: int = 0
    behind: Sequence[admin_pb2.LeftBehind] = ()
    # txn: as in the record, without what only applying it needs
    entered: Sequence[record_pb2.EnqueueOp] = ()
    reactions: tuple[record_pb2.ReactionCounts, ...] = ()  # by queue, in the order of the call; empty: it was none
    deal: record_pb2.DealOp | None = None  # a macro queue has dealt it to the members of `entered`

    def duplicate_run(self) -> DuplicateRun:
        if self.deal is not None:
            return dealt_run(self.log_index, self.epoch, self.deal, self.entered)
        answer = self.first_index, self.log_index, self.epoch, self.refusals, self.downgraded, self.doubles
        return DuplicateRun(0, self.count, *answer, self.queue_id if self.macro_id else 0)


def lease_id_of(epoch: int, log_index: int) -> int:
    return epoch << 40 | log_index


class Requests:
    __slots__ = ("_limits", "_marks", "_order", "_rows", "_seen")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rows: dict[bytes, bytes] = {}
        self._order: deque[bytes] = deque()
        # (time, rows ever added by then), at most one a second: a row's age to the second is enough.
        self._marks: deque[tuple[int, int]] = deque()
        self._seen = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, request_id: bytes) -> bool:
        return request_id in self._rows

    def add(self, log_index: int, epoch: int, header: record_pb2.RecordHeader, name: str, version: int) -> None:
        """Remembers a record that answered a unary call; `name` and `version` are of the queue it was about."""
        request_id, time_ms = header.request_id, header.time_ms
        assert request_id not in self._rows, "a request was executed twice"
        kind = header.WhichOneof("op")
        assert kind in _KINDS, "a record of the master's own answers no call"
        row = _ROW.pack(header.request_hash, _KINDS.index(kind), log_index, epoch, version)
        self._rows[request_id] = row + _answer_of(kind, header, name).SerializeToString(deterministic=True)
        self._order.append(request_id)
        self._seen += 1
        if not self._marks or time_ms - self._marks[-1][0] >= 1_000:
            self._marks.append((time_ms, self._seen - 1))
        self._forget(time_ms - self._limits.dedup_window_ms)

    def _forget(self, before_ms: int) -> None:
        # Rows up to the second mark are older than that mark.
        while len(self._marks) > 1 and self._marks[1][0] < before_ms:
            until = min(self._marks[1][1], self._seen - self._limits.requests_kept)
            for _ in range(until - (self._seen - len(self._order))):
                del self._rows[self._order.popleft()]
            if until < self._marks[1][1]:
                return
            self._marks.popleft()

    def find(self, request_id: bytes, request_hash: int) -> RequestAnswer | None:
        row = self._rows.get(request_id) if request_id else None
        if row is None:
            return None
        known_hash, kind, log_index, epoch, version = _ROW.unpack_from(row)
        if known_hash != request_hash:
            raise Refused(
                common_pb2.REASON_REQUEST_MISMATCH,
                f"request id {request_id.hex()} was used for a different request; choose a new id for each request",
            )
        return _parse(_KINDS[kind], row[_ROW.size :], log_index, epoch, version)

    def hash_of(self, request_id: bytes) -> int | None:
        """Of the call that is remembered under it."""
        row = self._rows.get(request_id)
        return None if row is None else int(_ROW.unpack_from(row)[0])

    def dump(self) -> tuple[list[tuple[bytes, bytes]], list[tuple[int, int]], int]:
        return [(request_id, self._rows[request_id]) for request_id in self._order], list(self._marks), self._seen

    def load(self, rows: Iterator[tuple[bytes, bytes]], marks: Iterator[tuple[int, int]], seen: int) -> None:
        self._rows = dict(rows)
        self._order = deque(self._rows)
        self._marks = deque(marks)
        self._seen = seen


def _answer_of(kind: str, header: record_pb2.RecordHeader, name: str) -> record_pb2.RecordHeader:
    """What a repetition needs, in the words of the record."""
    match kind:
        case "enqueue":
            return record_pb2.RecordHeader(enqueue=_kept(header.enqueue))
        case "txn":
            return record_pb2.RecordHeader(txn=_kept_of_txn(header.txn))
        case "lease":
            given = header.lease
            lease = record_pb2.LeaseOp(
                queue_id=given.queue_id,
                ranges=given.ranges,
                immediate=given.immediate,
                delivery_counts=given.delivery_counts,
            )
            return record_pb2.RecordHeader(lease=lease)
        case "settle":
            settle = record_pb2.SettleOp(queue_id=header.settle.queue_id, results=header.settle.results)
            return record_pb2.RecordHeader(settle=settle)
        case "reply":
            return record_pb2.RecordHeader(reply=record_pb2.ReplyOp(queue_id=header.reply.queue_id))
        case "alias":
            told = record_pb2.QueueOp(queue_id=header.alias.queue_id, name=name)
            return record_pb2.RecordHeader(queue=told)
        case "defaults" | "reader" | "macro" | "rights" | "proxy":
            return record_pb2.RecordHeader()
        case "weights":
            table = header.weights
            weights = record_pb2.WeightsOp(version=table.version, valid_until_ms=table.valid_until_ms)
            return record_pb2.RecordHeader(weights=weights)
        case "remove":
            gone = header.remove
            remove = record_pb2.RemoveOp(
                queue_id=gone.queue_id, total=gone.total, left=gone.left, leased=gone.leased, behind=gone.behind
            )
            return record_pb2.RecordHeader(remove=remove)
    queue = header.queue
    told = record_pb2.QueueOp(action=queue.action, queue_id=queue.queue_id, name=name, removed=queue.removed)
    return record_pb2.RecordHeader(queue=told)


def _kept(made: record_pb2.EnqueueOp) -> record_pb2.EnqueueOp:
    return record_pb2.EnqueueOp(
        queue_id=made.queue_id,
        count=made.count,
        first_index=made.first_index,
        refusals=made.refusals,
        duplicates=made.duplicates,
        downgraded=made.downgraded,
        macro_id=made.macro_id,
    )


def _kept_of_txn(made: record_pb2.TxnOp) -> record_pb2.TxnOp:
    named = bool(made.unit_id)
    # What reactions of a unit put into queues is no answer to its commit.
    entered = [each for each in made.enqueues if not (named and each.internal)]
    kept = record_pb2.TxnOp(enqueues=[_kept_of_unit(each, named=named) for each in entered])
    if made.HasField("deal"):
        kept.deal.CopyFrom(made.deal)
    for remove in made.removes:
        if remove.HasField("reaction"):
            kept.removes.add(queue_id=remove.queue_id, reaction=remove.reaction)
    return kept


def _kept_of_unit(made: record_pb2.EnqueueOp, *, named: bool) -> record_pb2.EnqueueOp:
    """`named`: whoever repeats the commit of an open unit does not say again what is in it."""
    kept = _kept(made)
    kept.first_ordinal = made.first_ordinal
    kept.ordinals.extend(made.ordinals)
    if named:
        kept.queue = made.queue
    if made.volatiles and all(made.volatiles):  # the answer says where messages are: in memory alone
        kept.volatiles.append(1)
    return kept


def _parse(kind: str, data: bytes, log_index: int, epoch: int, version: int) -> RequestAnswer:
    answer = record_pb2.RecordHeader.FromString(data)
    match kind:
        case "enqueue":
            made = answer.enqueue
            refusals = tuple((refusal.ordinal, refusal.reason) for refusal in made.refusals)
            return RequestAnswer(
                kind,
                log_index,
                epoch,
                made.queue_id,
                first_index=made.first_index,
                count=made.count,
                refusals=refusals,
                doubles=tuple((double.ordinal, double.index) for double in made.duplicates),
                downgraded=made.downgraded,
                macro_id=made.macro_id,
            )
        case "lease":
            lease = answer.lease
            lease_id = 0 if lease.immediate else lease_id_of(epoch, log_index)
            return RequestAnswer(
                kind,
                log_index,
                epoch,
                lease.queue_id,
                lease_id=lease_id,
                ranges=lease.ranges,
                delivery_counts=lease.delivery_counts,
            )
        case "settle":
            settle = answer.settle
            return RequestAnswer(kind, log_index, epoch, settle.queue_id, results=settle.results)
        case "reply":
            return RequestAnswer(kind, log_index, epoch, answer.reply.queue_id)
        case "txn":
            unit = answer.txn
            queue_id = unit.removes[0].queue_id if unit.removes else 0
            reactions = tuple(each.reaction for each in unit.removes if each.HasField("reaction"))
            deal = unit.deal if unit.HasField("deal") else None
            return RequestAnswer(
                kind, log_index, epoch, queue_id, entered=unit.enqueues, reactions=reactions, deal=deal
            )
        case "weights":
            table = answer.weights
            return RequestAnswer(kind, log_index, epoch, version=table.version, valid_until_ms=table.valid_until_ms)
        case "remove":
            gone = answer.remove
            return RequestAnswer(
                kind,
                log_index,
                epoch,
                gone.queue_id,
                removed=gone.total,
                left=gone.left,
                leased=gone.leased,
                behind=gone.behind,
            )
    queue = answer.queue
    return RequestAnswer(
        kind,
        log_index,
        epoch,
        queue.queue_id,
        action=queue.action,
        name=queue.name,
        removed=queue.removed,
        version=version,
    )

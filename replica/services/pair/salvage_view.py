"""Shows a salvage file as operations, and says which messages of it are done with; reads, and changes nothing.

Done: refused when it was ordered, or settled, answered, delivered at most once, or ended by its time later in the same
file. To enqueue such a message again would hand a consumer what it has acknowledged.
"""

from __future__ import annotations

from bisect import bisect_right
from types import MappingProxyType
from typing import TYPE_CHECKING

from replica.core.messages.bodies import cut, row_of
from replica.node.salvage import Certainty, is_operation
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.pair_service_pb2 import ReadSalvageResponse
from tandemq.v1.queue_service_pb2 import FINAL_STATE_REACTED, OUTCOME_ACK, EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from replica.node.salvage import SalvagedRecord, SalvageFiles, SalvageInfo
    from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader, TxnOp

_CERTAINTY = MappingProxyType(
    {
        Certainty.ACKNOWLEDGED: pb.ACKNOWLEDGEMENT_CERTAIN,
        Certainty.PERHAPS: pb.ACKNOWLEDGEMENT_PERHAPS,
        Certainty.UNACKNOWLEDGED: pb.ACKNOWLEDGEMENT_NONE,
    }
)

_Spans = list[tuple[int, int]]
"""(first, one beyond the last), apart and rising once merged."""


class SalvageView:
    """One file."""

    def __init__(self, files: SalvageFiles, info: SalvageInfo, gone: dict[int, _Spans]) -> None:
        self.files = files
        self.info = info
        self.gone = gone
        """By queue: indexes of messages that are done with."""

    @classmethod
    def of(cls, files: SalvageFiles, info: SalvageInfo) -> SalvageView:
        """Reads the file once. Raises CorruptRecord."""
        gone: dict[int, _Spans] = {}
        for record in files.records(info.name):
            for queue_id, ranges in _ended(record.header):
                spans = gone.setdefault(queue_id, [])
                spans.extend((each.first, each.first + each.count) for each in ranges)
        return cls(files, info, {queue_id: _merged(spans) for queue_id, spans in gone.items()})

    def operations(self) -> Iterator[ReadSalvageResponse]:
        """In log order. Raises CorruptRecord."""
        for record in self.files.records(self.info.name):
            if record.damaged or is_operation(record.header):
                yield from self._operations(record)

    def _operations(self, record: SalvagedRecord) -> Iterator[ReadSalvageResponse]:
        header = record.header
        if header.WhichOneof("op") == "enqueue":
            op, body = header.enqueue, record.body
            if op.macro_id and body:
                body = cut(body, range(op.count), op.queue)  # else a macro queue would choose a member once more
            yield self._enqueued(record, op, body)
        elif header.txn.enqueues:
            # Each of its queues gets its messages back by itself; that they came together is not brought back.
            for op in header.txn.enqueues:
                ordinals = op.ordinals or range(op.first_ordinal, op.first_ordinal + op.count)
                body = cut(record.body, ordinals, op.queue) if record.body else b""
                yield self._enqueued(record, op, body)
        else:
            yield self._operation(record)

    def _operation(self, record: SalvagedRecord) -> ReadSalvageResponse:
        header, head = record.header, self.info.head
        return ReadSalvageResponse(
            log_index=record.log_index,
            epoch=record.epoch,
            operation="damaged" if record.damaged else header.WhichOneof("op") or "unknown",
            acknowledged=record.certainty is Certainty.ACKNOWLEDGED,
            certainty=_CERTAINTY[record.certainty],
            request_id=header.request_id,
            pair=head.pair,
            domain=head.domain,
        )

    def _enqueued(self, record: SalvagedRecord, op: EnqueueOp, body: bytes) -> ReadSalvageResponse:
        answer = self._operation(record)
        answer.operation = "enqueue"
        answer.client_id = op.client_id
        answer.first_sequence = op.first_sequence
        answer.first_index = op.first_index
        answer.count = op.count
        answer.done.extend(self._done(op))
        answer.batch = body
        if body:
            batch = EnqueueBatch.FromString(body)
            answer.queue = batch.queue
            if record.header.request_id:
                answer.messages.extend(row_of(batch.messages, place) for place in range(op.count))
        return answer

    def _done(self, op: EnqueueOp) -> Iterator[int]:
        refused = {refusal.ordinal for refusal in op.refusals} | {double.ordinal for double in op.duplicates}
        spans = self.gone.get(op.queue_id, [])
        index = op.first_index
        for ordinal in range(op.count):
            if ordinal in refused:
                yield ordinal
                continue
            if _within(spans, index):
                yield ordinal
            index += 1


def _ended(header: RecordHeader) -> Iterator[tuple[int, Iterable[IndexRange]]]:
    kind = header.WhichOneof("op")
    if kind in ("settle", "txn"):
        for settle in (header.settle,) if kind == "settle" else header.txn.settles:
            for effect in settle.effects:
                if effect.outcome == OUTCOME_ACK:
                    yield settle.queue_id, effect.ranges
        for reply in header.txn.replies:
            yield reply.queue_id, (IndexRange(first=reply.index, count=1),)
        yield from _reacted(header.txn)
    elif kind == "lease" and header.lease.immediate:
        yield header.lease.queue_id, header.lease.ranges
    elif kind == "reply":
        yield header.reply.queue_id, (IndexRange(first=header.reply.index, count=1),)
    elif kind == "expire":
        for part in (*header.expire.messages, *header.expire.reply_timeouts):
            yield part.queue_id, part.ranges


def _reacted(op: TxnOp) -> Iterator[tuple[int, Iterable[IndexRange]]]:
    """What a reaction cancelled or put elsewhere: a copy that enters there has its own entry in the file."""
    for remove in op.removes:
        yield remove.queue_id, remove.ranges
    for enqueue in op.enqueues:
        if enqueue.moved_final == FINAL_STATE_REACTED:
            for left in (enqueue.moved_from, *enqueue.more_moved_from):
                yield left.queue_id, left.ranges


def _merged(spans: _Spans) -> _Spans:
    out: _Spans = []
    for first, end in sorted(spans):
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((first, end))
    return out


def _within(spans: _Spans, index: int) -> bool:
    at = bisect_right(spans, (index, 1 << 63)) - 1
    return at >= 0 and spans[at][0] <= index < spans[at][1]

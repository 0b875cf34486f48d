"""Turns records of the log into the columns of the journal; reads no store and keeps nothing.

The rows of a record, and their order, are a function of the record alone: a position inside a record means the same at
both members, whatever a reader leaves out.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from replica.core.messages.bodies import row_of
from replica.machine.state.requests import lease_id_of
from tandemq.peer.v1 import record_pb2
from tandemq.v1.journal_service_pb2 import JournalColumns, JournalKind, JournalPayload
from tandemq.v1.queue_service_pb2 import FINAL_STATE_DEAD_LETTERED, EnqueueBatch, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.records import Prefix
    from tandemq.v1.common_pb2 import IndexRange
    from tandemq.v1.message_pb2 import MessageBatch

ENQUEUED = JournalKind.JOURNAL_KIND_ENQUEUED
NOTHING = JournalKind.JOURNAL_KIND_NOTHING

_SETTLED = MappingProxyType(
    {
        Outcome.OUTCOME_ACK: JournalKind.JOURNAL_KIND_ACKED,
        Outcome.OUTCOME_RELEASE: JournalKind.JOURNAL_KIND_RELEASED,
        Outcome.OUTCOME_REJECT: JournalKind.JOURNAL_KIND_REJECTED,
        Outcome.OUTCOME_EXTEND: JournalKind.JOURNAL_KIND_EXTENDED,
    }
)
_ACTIONS = MappingProxyType(
    {
        record_pb2.QUEUE_ACTION_CREATE: JournalKind.JOURNAL_KIND_QUEUE_CREATED,
        record_pb2.QUEUE_ACTION_DELETE: JournalKind.JOURNAL_KIND_QUEUE_DELETED,
        record_pb2.QUEUE_ACTION_PURGE: JournalKind.JOURNAL_KIND_PURGED,
    }
)
_PLAIN = MappingProxyType(
    {
        "alias": JournalKind.JOURNAL_KIND_CONFIGURED,
        "defaults": JournalKind.JOURNAL_KIND_CONFIGURED,
        "role": JournalKind.JOURNAL_KIND_EPOCH_BEGAN,
        "publish": JournalKind.JOURNAL_KIND_PUBLISHED,
        "release": JournalKind.JOURNAL_KIND_CONFIGURED,
    }
)


class Fact(NamedTuple):
    """A row that is no message of its own."""

    kind: int
    queue_id: int = 0
    first: int = 0
    messages: int = 0
    lease_id: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader asked for."""

    queue_ids: frozenset[int] = frozenset()
    """Empty: all."""
    kinds: frozenset[int] = frozenset()
    """Empty: all."""
    payloads: bool = True
    attributes: bool = False
    every_record: bool = False
    """Records that did nothing to a queue or a message have a row too."""

    def takes(self, kind: int, queue_id: int) -> bool:
        """Whether a row is given; one that is not is counted all the same."""
        if kind == NOTHING and not self.every_record:
            return False
        return (not self.kinds or kind in self.kinds) and (not self.queue_ids or queue_id in self.queue_ids)


def facts_of(prefix: Prefix, header: record_pb2.RecordHeader) -> list[Fact]:
    """What a record did besides storing messages, in order."""
    kind = header.WhichOneof("op")
    match kind:
        case "enqueue":
            return _of_enqueue(header.enqueue)
        case "lease":
            op = header.lease
            what = JournalKind.JOURNAL_KIND_TAKEN if op.immediate else JournalKind.JOURNAL_KIND_LEASED
            return _ranges(what, op.queue_id, op.ranges, lease_id_of(prefix.epoch, prefix.log_index))
        case "settle":
            return _of_settle(header.settle)
        case "txn":
            settled = [fact for settle in header.txn.settles for fact in _of_settle(settle)]
            settled += map(_of_reply, header.txn.replies)
            gone = [fact for op in header.txn.removes for fact in _of_remove(op)]
            return settled + gone + [fact for enqueue in header.txn.enqueues for fact in _of_enqueue(enqueue)]
        case "expire":
            return _of_expire(header.expire)
        case "queue":
            queue = header.queue
            what = _ACTIONS.get(queue.action, JournalKind.JOURNAL_KIND_CONFIGURED)
            return [Fact(what, queue.queue_id, messages=queue.removed), *_of_passed(queue)]
        case "reply":
            # Where it ends under no lease, the queue has sides: it leaves by what they pass.
            return [_of_reply(header.reply)] if header.reply.lease_id else []
        case "remove":
            return _of_remove(header.remove)
        case "save" | "passed" | "select":
            return _of_ranges(header)
        case "reader" | "weights" | "side" | "macro" | "proxy" | "rights":
            return []  # it happened to no queue, and who follows the end would read of what he himself has led to
        case "stage":
            return [Fact(JournalKind.JOURNAL_KIND_STAGED, header.stage.queue_id, messages=header.stage.count)]
        case "publish" if header.publish.duplicate:
            return [Fact(JournalKind.JOURNAL_KIND_UNSTAGED) for _ in header.publish.stage_ids]
        case "unstage":
            return [Fact(JournalKind.JOURNAL_KIND_UNSTAGED) for _ in header.unstage.stage_ids]
        case _:
            assert kind in _PLAIN, f"no record is of kind {kind}"
            plain = Fact(_PLAIN[kind], header.alias.queue_id if kind == "alias" else 0)
            # An epoch ends the leases of units that were open before it.
            ended = header.role.unit_leases
            return [plain, *(Fact(JournalKind.JOURNAL_KIND_LEASE_ENDED, lease_id=each) for each in ended)]


def _ranges(kind: int, queue_id: int, ranges: Iterable[IndexRange], lease_id: int = 0) -> list[Fact]:
    return [Fact(kind, queue_id, part.first, part.count, lease_id) for part in ranges]


def _of_enqueue(op: record_pb2.EnqueueOp) -> list[Fact]:
    dead = op.moved_final == FINAL_STATE_DEAD_LETTERED
    left = JournalKind.JOURNAL_KIND_DEAD_LETTERED if dead else JournalKind.JOURNAL_KIND_MOVED
    more = [fact for part in op.more_moved_from for fact in _ranges(left, part.queue_id, part.ranges)]
    return [
        *_ranges(left, op.moved_from.queue_id, op.moved_from.ranges),
        *more,
        *_ranges(JournalKind.JOURNAL_KIND_DROPPED, op.queue_id, op.dropped),
    ]


def _of_reply(op: record_pb2.ReplyOp) -> Fact:
    return Fact(JournalKind.JOURNAL_KIND_REPLIED, op.queue_id, op.index, 1, op.lease_id)


def _of_remove(op: record_pb2.RemoveOp) -> list[Fact]:
    return _ranges(JournalKind.JOURNAL_KIND_REMOVED, op.queue_id, op.ranges)


def _of_ranges(header: record_pb2.RecordHeader) -> list[Fact]:
    match header.WhichOneof("op"):
        case "save":
            return _ranges(JournalKind.JOURNAL_KIND_SAVED, header.save.queue_id, header.save.ranges)
        case "select":
            return _ranges(JournalKind.JOURNAL_KIND_SELECTED, header.select.queue_id, header.select.ranges)
        case _:
            return _of_passed(header.passed)


def _of_passed(op: record_pb2.PassedOp | record_pb2.QueueOp) -> list[Fact]:
    """All sides have settled them."""
    gone = [op.gone] if op.gone.count else op.gone_selected
    return _ranges(JournalKind.JOURNAL_KIND_ACKED, op.queue_id, gone)


def _of_settle(op: record_pb2.SettleOp) -> list[Fact]:
    found: list[Fact] = []
    for effect in op.effects:
        kind = _SETTLED[effect.outcome]
        if effect.ranges:
            found += _ranges(kind, op.queue_id, effect.ranges, effect.lease_id)
        else:
            found.append(Fact(kind, op.queue_id, lease_id=effect.lease_id))
    return found


def _of_expire(op: record_pb2.ExpireOp) -> list[Fact]:
    found: list[Fact] = []
    for kind, groups in (
        (JournalKind.JOURNAL_KIND_EXPIRED, op.messages),
        (JournalKind.JOURNAL_KIND_LOST, op.volatile_lost),
        (JournalKind.JOURNAL_KIND_MATURED, op.matured),
        (JournalKind.JOURNAL_KIND_REPLY_TIMED_OUT, op.reply_timeouts),
    ):
        for group in groups:
            found += _ranges(kind, group.queue_id, group.ranges)
    found += [Fact(JournalKind.JOURNAL_KIND_LEASE_ENDED, lease_id=lease_id) for lease_id in op.lease_ids]
    found += [Fact(JournalKind.JOURNAL_KIND_QUEUE_DELETED, queue_id) for queue_id in op.idle_queue_ids]
    found += [Fact(JournalKind.JOURNAL_KIND_CONFIGURED, queue_id) for queue_id in op.enabled_queue_ids]
    found += [Fact(JournalKind.JOURNAL_KIND_UNSTAGED) for _ in op.stage_ids]
    return found


def enqueues_of(header: record_pb2.RecordHeader) -> Sequence[record_pb2.EnqueueOp]:
    """What a record puts into queues, in the order of its rows."""
    if header.HasField("enqueue"):
        return (header.enqueue,)
    return header.txn.enqueues


def ordinals_of(op: record_pb2.EnqueueOp) -> Sequence[int]:
    """Places in the record's body of the entries that were stored."""
    places = op.ordinals or range(op.first_ordinal, op.first_ordinal + op.count)
    if not op.refusals and not op.duplicates:
        return places
    left_out = {each.ordinal for each in op.refusals} | {each.ordinal for each in op.duplicates}
    return [place for ordinal, place in enumerate(places) if ordinal not in left_out]


class JournalRows:
    """The columns of one page, filled record by record."""

    def __init__(self, domain: int, wanted: Wanted, *, rows_max: int, bytes_max: int) -> None:
        self.domain = domain
        self.wanted = wanted
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.count = 0
        self.bytes = 0
        """Of payloads and attributes."""
        self._log_indexes, self._epochs, self._times_ms = array("Q"), array("Q"), array("q")
        self._kinds, self._queue_ids = bytearray(), array("I")
        self._indexes, self._counts = array("Q"), array("Q")
        self._ids = bytearray()
        self._leases, self._sequences, self._producers = array("Q"), array("Q"), array("I")
        self._states = bytearray()
        self._ends = array("i", (0,))
        self._payloads: list[bytes] = []
        self._attribute_ends = array("i", (0,))
        self._attributes: list[bytes] = []
        self._producer_places: dict[bytes, int] = {}

    def is_full(self) -> bool:
        """No further row has room."""
        return self.count >= self.rows_max or self.bytes >= self.bytes_max

    def take(self, prefix: Prefix, header: record_pb2.RecordHeader, body: bytes, first_row: int) -> int | None:
        """Take the rows of a record from that row on. None: all of them; else the row at which there was no room."""
        row, stored = first_row, 0
        batch: MessageBatch | None = None
        for op in enqueues_of(header):
            ordinals = ordinals_of(op)
            begin, stored = stored, stored + len(ordinals)
            if row < stored:
                if self.wanted.takes(ENQUEUED, op.queue_id):
                    if batch is None and body:
                        batch = EnqueueBatch.FromString(body).messages
                    row += self._messages(prefix, header, op, batch, ordinals, row - begin)
                    if row < stored:
                        return row
                else:
                    row = stored
        facts = facts_of(prefix, header)
        if not facts and not stored:
            facts = [Fact(NOTHING)]
        for fact in facts[row - stored :]:
            if self.wanted.takes(fact.kind, fact.queue_id):
                if self.is_full():
                    return row
                self._fact(prefix, header.time_ms, fact)
            row += 1
        return None

    def _messages(
        self,
        prefix: Prefix,
        header: record_pb2.RecordHeader,
        op: record_pb2.EnqueueOp,
        batch: MessageBatch | None,
        ordinals: Sequence[int],
        first: int,
    ) -> int:
        """The messages of one record for one queue, from the first-th stored one on; how many had room."""
        ordinals = ordinals[first : first + self.rows_max - self.count]
        payloads, state = self._bodies(batch, ordinals)
        attributes = _attributes(batch, ordinals) if self.wanted.attributes and batch is not None else []
        sizes = list(map(len, payloads)) or [0] * len(ordinals)
        if attributes:
            sizes = [size + len(extra) for size, extra in zip(sizes, attributes, strict=True)]
        taken = bisect_right(list(accumulate(sizes)), self.bytes_max - self.bytes)
        if not self.count:
            taken = max(taken, 1)  # a page with nothing in it would be asked for again for ever
        ordinals = ordinals[:taken]
        self.bytes += sum(sizes[:taken])
        self._common(prefix, header.time_ms, ENQUEUED, op.queue_id, taken)
        start = op.first_index + first
        self._indexes.extend(range(start, start + taken))
        self._counts.extend(_ONE * taken)
        self._leases.extend(_ZERO * taken)
        self._ids += _ids(self.domain, prefix, ordinals)
        self._identities(header, op, ordinals)
        self._states += bytes((state,)) * taken
        self._payloads += payloads[:taken]
        self._ends.extend(_ends(self._ends[-1], map(len, payloads[:taken]), taken))
        self._attributes += attributes[:taken]
        self._attribute_ends.extend(_ends(self._attribute_ends[-1], map(len, attributes[:taken]), taken))
        return taken

    def _bodies(self, batch: MessageBatch | None, ordinals: Sequence[int]) -> tuple[list[bytes], int]:
        if not self.wanted.payloads:
            return [], JournalPayload.JOURNAL_PAYLOAD_LEFT_OUT
        if batch is None:
            return [], JournalPayload.JOURNAL_PAYLOAD_VOLATILE
        payloads = batch.payloads
        if isinstance(ordinals, range):
            return payloads[ordinals.start : ordinals.stop], JournalPayload.JOURNAL_PAYLOAD_PRESENT
        return [payloads[ordinal] for ordinal in ordinals], JournalPayload.JOURNAL_PAYLOAD_PRESENT

    def _identities(self, header: record_pb2.RecordHeader, op: record_pb2.EnqueueOp, ordinals: Sequence[int]) -> None:
        name = op.client_id or header.request_id
        place = self._producer_places.setdefault(name, len(self._producer_places) + 1) if name else 0
        self._producers.extend(array("I", (place,)) * len(ordinals))
        if op.first_sequence:
            self._sequences.extend([op.first_sequence + ordinal for ordinal in ordinals])
        else:
            self._sequences.extend(_ZERO * len(ordinals))

    def _fact(self, prefix: Prefix, time_ms: int, fact: Fact) -> None:
        self._common(prefix, time_ms, fact.kind, fact.queue_id, 1)
        self._indexes.append(fact.first)
        self._counts.append(fact.messages)
        self._leases.append(fact.lease_id)
        self._ids += bytes(16)
        self._producers.append(0)
        self._sequences.append(0)
        self._states.append(0)
        self._ends.append(self._ends[-1])
        self._attribute_ends.append(self._attribute_ends[-1])

    def _common(self, prefix: Prefix, time_ms: int, kind: int, queue_id: int, rows: int) -> None:
        self.count += rows
        self._log_indexes.extend(array("Q", (prefix.log_index,)) * rows)
        self._epochs.extend(array("Q", (prefix.epoch,)) * rows)
        self._times_ms.extend(array("q", (time_ms,)) * rows)
        self._kinds += bytes((kind,)) * rows
        self._queue_ids.extend(array("I", (queue_id,)) * rows)

    def queue_ids(self) -> set[int]:
        """Numbers of the queues that the rows name."""
        return set(self._queue_ids) - {0}

    def columns(self) -> JournalColumns:
        """The page; its queues are named by the caller."""
        has_attributes = self._attribute_ends[-1] > 0
        return JournalColumns(
            count=self.count,
            log_indexes=_packed(self._log_indexes),
            epochs=_packed(self._epochs),
            times_ms=_packed(self._times_ms),
            kinds=bytes(self._kinds),
            queue_ids=_packed(self._queue_ids),
            indexes=_packed(self._indexes),
            counts=_packed(self._counts),
            ids=bytes(self._ids),
            lease_ids=_packed(self._leases),
            producers=_packed(self._producers),
            sequences=_packed(self._sequences),
            payload_states=bytes(self._states),
            payload_offsets=_packed(self._ends),
            payloads=b"".join(self._payloads),
            attribute_offsets=_packed(self._attribute_ends) if has_attributes else b"",
            attributes=b"".join(self._attributes),
            producer_ids=list(self._producer_places),
        )


_ONE, _ZERO = array("Q", (1,)), array("Q", (0,))


def _packed(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column.tobytes()


def _ends(end: int, sizes: Iterable[int], count: int) -> Iterable[int]:
    """Where each entry ends; of entries that have nothing, at the last end."""
    found = list(accumulate(sizes, initial=end))[1:]
    return found or [end] * count


def _ids(domain: int, prefix: Prefix, ordinals: Sequence[int]) -> bytearray:
    """Message ids, as `bodies.message_id` makes each."""
    first = (
        domain.to_bytes(4, "big") + (prefix.epoch & 0xFFFFFFFF).to_bytes(4, "big") + prefix.log_index.to_bytes(6, "big")
    )
    ids = bytearray((first + b"\x00\x00") * len(ordinals))
    ids[14::16] = bytes(ordinal >> 8 for ordinal in ordinals)
    ids[15::16] = bytes(ordinal & 0xFF for ordinal in ordinals)
    return ids


def _attributes(batch: MessageBatch, ordinals: Sequence[int]) -> list[bytes]:
    """Empty when no message of the batch has more than its payload. Maps in order: both members give the same bytes."""
    columns = [column for field, column in batch.ListFields() if field.name != "payloads"]
    if not columns:
        return []
    if all(len(column) == 1 for column in columns):  # one entry for all
        return [_attributes_of(batch, ordinals[0])] * len(ordinals) if ordinals else []
    return [_attributes_of(batch, ordinal) for ordinal in ordinals]


def _attributes_of(batch: MessageBatch, ordinal: int) -> bytes:
    message = row_of(batch, ordinal)
    message.ClearField("payload")
    return message.SerializeToString(deterministic=True)

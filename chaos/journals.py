"""What an audit is about: rows of both members' journals, what clients were answered, what can be wrong; judges
nothing.

`chaos.journal_checks` judges what fits in memory, `pipeline.audit` any number of rows.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tandemq.v1.journal_service_pb2 import JournalKind

LOST = "LOST"
DUPLICATE = "DUPLICATE"
INDEX_TWICE = "INDEX_TWICE"
GHOST = "GHOST"
UNSENT = "UNSENT"
SETTLED_TWICE = "SETTLED_TWICE"
SETTLE_LOST = "SETTLE_LOST"
COPIES_DIFFER = "COPIES_DIFFER"
GAP = "GAP"
EPOCH_NOT_FENCED = "EPOCH_NOT_FENCED"
REAL_TIME_ORDER = "REAL_TIME_ORDER"
TAIL_CUT = "TAIL_CUT"
MEMBER_ABSENT = "MEMBER_ABSENT"
TIME_BACKWARDS = "TIME_BACKWARDS"
ID_OF_OTHER = "ID_OF_OTHER"
KIND_UNKNOWN = "KIND_UNKNOWN"
AFTER_DELETION = "AFTER_DELETION"
LEASE_UNKNOWN = "LEASE_UNKNOWN"
NEVER_ENTERED = "NEVER_ENTERED"
BEFORE_ENTERED = "BEFORE_ENTERED"
LEASED_TWICE = "LEASED_TWICE"
LEASED_AFTER_END = "LEASED_AFTER_END"
SETTLED_UNLEASED = "SETTLED_UNLEASED"
ACK_LOST = "ACK_LOST"
RECEIVED_LOST = "RECEIVED_LOST"
RECEIVED_AFTER_ACK = "RECEIVED_AFTER_ACK"
DELIVERY_ORDER = "DELIVERY_ORDER"
EPOCH_TOLD = "EPOCH_TOLD"
RECORD_MISSING = "RECORD_MISSING"
SENT_BY_OTHER = "SENT_BY_OTHER"
BODY_NOT_SENT = "BODY_NOT_SENT"
BODY_CHANGED = "BODY_CHANGED"

# What a row does to its messages. A rejected message may be moved to the dead-letter queue by a later record: that is
# one end, in two rows.
CONSUMED = frozenset({"TAKEN", "ACKED", "REPLIED"})
ENDED = CONSUMED | {"EXPIRED", "LOST", "MOVED", "DEAD_LETTERED", "DROPPED", "REMOVED", "REPLY_TIMED_OUT"}
REJECTED = "REJECTED"
LEASES = frozenset({"LEASED", "TAKEN"})
RELEASED = "RELEASED"
SETTLES = frozenset({"ACKED", REJECTED, RELEASED, "EXTENDED", "REPLIED"})
"""Rows that name the lease they speak for."""
TOUCHES = LEASES | SETTLES | ENDED
"""Rows about messages that are in a queue."""
NOTHING = "NOTHING"
"""Of a record that did nothing to a queue or a message: a row for who asked for every record, and no copy of one."""
LEASE_BITS = 40
"""A lease is named by the record that gave it: its epoch, and below these bits its log index."""
MOVED_HERE = frozenset({"MOVED", "DEAD_LETTERED"})
"""A record with such a row put its messages where they are by itself: nobody sent them there."""
MEMBERS_MAX = 2
LEASE_ENDED, QUEUE_DELETED = "LEASE_ENDED", "QUEUE_DELETED"
ROW_KINDS = frozenset(name.removeprefix("JOURNAL_KIND_") for name in JournalKind.DESCRIPTOR.values_by_name) - {
    "UNSPECIFIED"
}
"""What a row of a journal can be."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a member's journal; the columns are those of docs/SPARK.md."""

    member: str
    log_index: int
    epoch: int
    kind: str
    queue_id: int = 0
    index: int = 0
    count: int = 0
    queue: str | None = None
    id: bytes | None = None
    lease_id: int = 0
    producer: bytes | None = None
    sequence: int = 0
    time_us: int = 0
    payload: bytes | None = None
    attributes: bytes | None = None
    """What stood beside the body, or a digest of it; None: nothing did, or it is not known."""
    """Or what tells it from other ones; then `body_crc32` is known."""
    body_crc32: int | None = None

    @property
    def crc32(self) -> int | None:
        """Of the body; None where there is none to show."""
        if self.payload is None:
            return None
        return zlib.crc32(self.payload) if self.body_crc32 is None else self.body_crc32


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asked about one message, and how that ended; `pipeline.schema.HISTORY` has the same columns."""

    op: str  # send, recv, ack
    outcome: str  # ok; fail, which certainly had no effect; unknown
    invoke_ns: int
    complete_ns: int | None
    queue: str
    index: int | None = None
    id: bytes | None = None
    epoch: int | None = None
    producer: bytes | None = None
    sequence: int | None = None
    client: str = ""
    priority: int | None = None
    """Of a recv, where the order of the queue depends on priority and index alone; None: it is not judged."""
    payload_crc32: int | None = None
    """Of the body that was sent or received; None: it is not judged."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a member said that its journal, and one queue in it, begins and ends."""

    member: str
    first_log_index: int
    next_log_index: int
    queue: str | None = None
    queue_id: int | None = None
    first_index: int | None = None
    next_index: int | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise. What does not apply is None."""

    kind: str
    member: str | None = None
    queue_id: int | None = None
    index: int | None = None
    count: int | None = None
    log_index: int | None = None
    queue: str | None = None
    id: str | None = None
    """Hexadecimal."""
    journals: str = ""
    """What the members say."""
    clients: str = ""
    """What the clients say."""


class Span(NamedTuple):
    """Which records of a member are there, or should be; the end is not."""

    first: int
    """What a head calls trimmed may have been read before it was."""
    next: int


@dataclass(frozen=True, slots=True)
class Place:
    """A message's place in a queue. None: the journals do not know the queue's name."""

    queue_id: int | None
    index: int


@dataclass(slots=True)
class Audited:
    """Everything that is judged, indexed once."""

    rows: Sequence[Row]
    asked: Sequence[Asked]
    heads: Sequence[Head]
    spans: dict[str, Span] = field(default_factory=dict)
    entered: dict[Place, list[Row]] = field(default_factory=lambda: defaultdict(list))
    ended: dict[Place, list[Row]] = field(default_factory=lambda: defaultdict(list))
    names: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """(first log index, queue id) of each queue that had the name, oldest first."""
    name_of: dict[int, str] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)
    """Log indexes of records that moved messages."""
    differ: bool = False
    """The two journals do, where both have rows."""
    chosen: str = ""
    """The member with the most rows."""
    absent: frozenset[str] = frozenset()
    """Members that have no row where they said that they have records, and the other one has rows."""
    whole_domain: bool = False
    """The journals have rows that name no queue: they were read without a choice of queues."""
    lowest: dict[int | None, int] = field(default_factory=dict)
    """By queue: from which index on its messages are kept; 0 where its creation is."""
    touched: dict[Place, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """Leases, settlements and ends of each message."""
    asked_at: dict[Place, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    """What clients were answered of each message."""

    def __post_init__(self) -> None:
        self.spans = spans_of(self.rows, self.heads)
        sizes = Counter(row.member for row in self.rows)
        self.chosen = max(self.spans, key=lambda member: sizes[member], default="")
        first: dict[tuple[str, int], int] = {}
        for row in self.rows:
            if row.kind == "ENQUEUED":
                self.entered[Place(row.queue_id, row.index)].append(row)
            elif row.kind in ENDED or row.kind == REJECTED:
                for index in range(row.index, row.index + row.count):
                    self.ended[Place(row.queue_id, index)].append(row)
            if row.kind in TOUCHES:
                for index in range(row.index, row.index + row.count):
                    self.touched[Place(row.queue_id, index)].append(row)
            if row.kind in MOVED_HERE:
                self.moved.add(row.log_index)
            if row.queue is not None:
                key = (row.queue, row.queue_id)
                first[key] = min(first.get(key, row.log_index), row.log_index)
        for head in self.heads:
            if head.queue is not None and head.queue_id is not None:
                first.setdefault((head.queue, head.queue_id), head.first_log_index)
        for (name, queue_id), log_index in first.items():
            self.names.setdefault(name, []).append((log_index, queue_id))
            self.name_of[queue_id] = max(name, self.name_of.get(queue_id, ""))
        for queues in self.names.values():
            queues.sort()
        self.whole_domain = any(not row.queue_id for row in self.rows)
        self.absent = absent_of(self.spans, self.rows)
        self._keep_lowest()
        self._keep_asked()

    def _keep_asked(self) -> None:
        for asked in self.asked:
            if asked.index is not None:
                self.asked_at[self.place(asked)].append(asked)

    def _keep_lowest(self) -> None:
        whole = {member for member, span in self.spans.items() if span.first <= 1}
        for place, rows in self.entered.items():
            low = 0 if any(row.member in whole for row in rows) else place.index
            self.lowest[place.queue_id] = min(self.lowest.get(place.queue_id, low), low)
        for row in self.rows:
            if row.kind == "QUEUE_CREATED" and row.queue_id in self.lowest:
                self.lowest[row.queue_id] = 0

    @property
    def kept_from(self) -> int:
        """The first record of all."""
        return min((span.first for span in self.spans.values()), default=1)

    def is_kept(self, place: Place) -> bool:
        """The record that stored the message of this index is one of those that are judged."""
        return self.kept_from <= 1 or place.index >= self.lowest.get(place.queue_id, place.index + 1)

    def place(self, asked: Asked) -> Place:
        """Where, by its answer, the client's message is. A name that was used again means the queue of that time."""
        assert asked.index is not None, "only what has an index has a place"
        queues = self.names.get(asked.queue, [])
        log_index = log_index_of(asked.id)
        older = [queue_id for first, queue_id in queues if log_index is None or first <= log_index]
        found = older[-1] if older else queues[0][1] if queues else None
        return Place(found, asked.index)

    def side(self, row: Row) -> int | None:
        """In whose journal a row is judged; None: it is a copy of one that is.

        Two journals that agree are one history, and what one of them alone keeps completes it. Two that differ are two.
        """
        members = list(self.spans)
        if self.differ:
            return members.index(row.member)
        span = self.spans[self.chosen]
        return 0 if row.member == self.chosen or not span.first <= row.log_index < span.next else None


def spans_of(rows: Iterable[Row], heads: Iterable[Head]) -> dict[str, Span]:
    """By member, as far as its rows and its head reach. Raises ValueError for more than two members."""
    found: dict[str, Span] = {}
    reach = [(row.member, row.log_index, row.log_index + 1) for row in rows]
    for member, first, end in (*reach, *((head.member, head.first_log_index, head.next_log_index) for head in heads)):
        span = found.get(member, Span(first, end))
        found[member] = Span(min(span.first, first), max(span.next, end))
    if len(found) > MEMBERS_MAX:
        raise ValueError(f"a pair has two members, and the journals are of {', '.join(sorted(found))}: audit one pair")
    return dict(sorted(found.items()))


def absent_of(spans: dict[str, Span], rows: Iterable[Row]) -> frozenset[str]:
    """Members of whose records there is no row, although the other one has rows among them."""
    found = {member: [row.log_index for row in rows if row.member == member] for member in spans}
    return frozenset(
        member
        for member, mine in found.items()
        if not mine and any(spans[member].first <= at < spans[member].next for other in found.values() for at in other)
    )


def lease_place(lease_id: int) -> tuple[int, int]:
    """Epoch and log index of the record that gave it."""
    return lease_id >> LEASE_BITS, lease_id & ((1 << LEASE_BITS) - 1)


def epoch_of(message_id: bytes) -> int:
    """The epoch in an id, which has 32 bits of it."""
    return int.from_bytes(message_id[4:8], "big")


def log_index_of(message_id: bytes | None) -> int | None:
    """The record that stored a message, out of its id (docs/PROTOCOL.md)."""
    return int.from_bytes(message_id[8:14], "big") if message_id else None


def ordinal_of(message_id: bytes | None) -> int:
    """Its place in the batch that it was sent in."""
    return int.from_bytes(message_id[14:16], "big") if message_id else 0

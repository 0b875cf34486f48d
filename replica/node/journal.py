"""Reads a domain's journal from the store for whoever asks: judges a position, finds a message, fills a page. Orders
nothing and keeps nothing but where queues begin.

What is committed is on disk here and never changes, so a range that is read twice gives the same rows twice, at either
member. Bodies that are on no disk are never told for that reason, though they may be in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from failover.marks import Role
from replica.core.state.outcomes import Failed
from replica.node.journal_rows import enqueues_of, ordinals_of
from replica.rpc.refusals import refusal
from storage.errors import CorruptRecord
from storage.records import split, verify_stored
from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replica.core.domain import Domain
    from replica.core.state.shared import Shared
    from replica.node.journal_rows import JournalRows
    from storage.records import Prefix
    from storage.store import Store

PAGE_BYTES = 1 << 20
"""Of payloads and attributes in a page: clients in other languages take 4 MiB by themselves."""
LOOK_BYTES_MAX = 16 << 20
"""Of log that one page looks at; then it ends, perhaps empty, and says where to go on."""
SCAN_BYTES, SCAN_RECORDS = 1 << 20, 1_024
NEAR_RECORDS = 512
"""When no more are left between the bounds of a search, they are read one after another."""
STALE_RETRY_MS = 100


class RowPlace(NamedTuple):
    """Between two rows: see JournalPosition of the contract."""

    log_index: int
    epoch: int
    row: int = 0
    history_id: bytes = b""


class Asking(NamedTuple):
    """Who asks whether he can go on: the words of a refusal."""

    done: str
    """What he did there before."""
    anew: str
    """What he can do instead."""


READING = Asking("read", "read it from the beginning, into a new place")


class Page(NamedTuple):
    """Some rows, and where the next ones are."""

    rows: JournalRows
    following: RowPlace
    at_end: bool


class Trimmed(Exception):  # noqa: N818 - what happened, to be turned into a refusal
    """The log was trimmed past what is being read."""


def is_in_step(domain: Domain) -> bool:
    """Whether this member's committed log is that of the pair: as master, or as a replica that holds all that was
    acknowledged. A copy that was left behind, or is being filled, says nothing about either.
    """
    if domain.shared.machine is None:
        return False
    if domain.shared.serving:
        return domain.mastership.commit.can_read
    return domain.shared.role is Role.REPLICA and domain.target.opened


class Bounds(NamedTuple):
    """What a member can tell of its log at one moment."""

    first: int
    """Every record from here on is kept."""
    end: int
    """One more than the last record that is committed and on this member's disk."""
    generation: int


def bounds_of(shared: Shared) -> Bounds:
    """Now. The commit index is the limit: what is above it may still be taken back by a takeover.

    A replica that is in step and not required yet hears of commits that its own disk does not have.
    """
    end = min(shared.progress.commit_index, shared.progress.durable_index) + 1
    return Bounds(max(1, shared.state.kept_from), end, shared.progress.generation)


def epoch_before(shared: Shared, log_index: int) -> int | None:
    """Epoch of the record before this one; 0 before the first; None: it is not known here."""
    if log_index <= 1:
        return 0
    found = shared.log.digest_at(log_index - 1)
    return found[0] if found is not None else None


def problem_of(shared: Shared, place: RowPlace, *, is_master: bool, asking: Asking = READING) -> Failed | None:
    """Why nothing can be read from that place. None: it can, though there may be nothing yet."""
    if (changed := problem_of_history(shared, place.history_id, asking)) is not None:
        return changed
    bounds = bounds_of(shared)
    facts = {"first_log_index": str(bounds.first), "next_log_index": str(bounds.end), "member": shared.member}
    if place.log_index < bounds.first:
        text = (
            f"the journal of domain {shared.name} at {shared.member} begins at log index {bounds.first}; "
            f"{place.log_index} is trimmed: what lies between is lost to this reader, go on from there knowingly"
        )
        return refusal(Reason.REASON_OUT_OF_RANGE, text, facts)
    last_read = place.log_index if place.row else place.log_index - 1
    problem = _problem_of_epoch(shared, last_read, place.epoch, asking)
    if problem is not None:
        return problem
    if last_read >= bounds.end and is_master:
        text = f"the journal of domain {shared.name} ends before log index {bounds.end}; {last_read} is not committed"
        return refusal(Reason.REASON_OUT_OF_RANGE, text, facts)
    return None


def history_id_of(shared: Shared) -> bytes:
    """Of the history that is kept here; empty: it is not known."""
    return shared.machine.history_id if shared.machine is not None else b""


def problem_of_history(shared: Shared, history_id: bytes, asking: Asking = READING) -> Failed | None:
    """Whether the reader has read the history that is kept here (J0). A member whose queues' state is being rebuilt, or
    that follows a master of an older version, does not know.
    """
    here = history_id_of(shared)
    if not history_id or not here or history_id == here:
        return None
    text = (
        f"what was {asking.done} is of history {history_id.hex()}, domain {shared.name} at {shared.member} has "
        f"{here.hex()}: this is another pair, or one that was begun anew; {asking.anew}"
    )
    facts = {"history_id": here.hex(), f"{asking.done}_history_id": history_id.hex(), "member": shared.member}
    return refusal(Reason.REASON_PAIR_CHANGED, text, facts)


def _problem_of_epoch(shared: Shared, last_read: int, epoch: int, asking: Asking) -> Failed | None:
    """Whether the reader's last record is one of this history. (epoch, log index) names one record, and records are
    chained: the same epoch there means that everything before it is the same too.
    """
    if not epoch or not last_read:
        return None
    log = shared.log
    here = epoch_before(shared, last_read + 1) if last_read <= log.last_index else log.last_epoch
    if here == epoch:
        return None
    facts = {"epoch": str(here or 0), "log_index": str(last_read), "member": shared.member}
    if last_read > log.last_index and epoch > log.last_epoch:
        text = f"who asks has seen epoch {epoch}, {shared.member} knows {log.last_epoch}; repeat the call"
        return Failed(Reason.REASON_STALE_EPOCH, text, facts, STALE_RETRY_MS)
    text = (
        f"log index {last_read} was {asking.done} in epoch {epoch}, at {shared.member} it is of epoch "
        f"{here or 'unknown'}: the history that was {asking.done} was given up; compare with `tandemq pair history`, "
        f"and {asking.anew if asking is not READING else 'read anew'}"
    )
    return refusal(Reason.REASON_EPOCH_DIVERGED, text, facts)


def read_page(store: Store, domain: int, place: RowPlace, bounds: Bounds, until: int, rows: JournalRows) -> Page:
    """Fill a page from that place, which `problem_of` has let pass. Any thread.

    Raises Trimmed when the log is cut off under it, CorruptRecord for a record that fails its checksum.
    """
    end = min(bounds.end, until) if until else bounds.end
    at, looked = place, 0
    for prefix, header, body in records(store, domain, at.log_index, end):
        row = rows.take(prefix, header, body, at.row if prefix.log_index == place.log_index else 0)
        if row is not None:
            before = at.epoch if not row else prefix.epoch
            return Page(rows, RowPlace(prefix.log_index, before, row), at_end=False)
        at = RowPlace(prefix.log_index + 1, prefix.epoch)
        looked += prefix.header_len + len(body)
        if rows.is_full() or looked >= LOOK_BYTES_MAX:
            break
    return Page(rows, at, at_end=at.log_index >= end)


def records(store: Store, domain: int, first: int, end: int) -> Iterator[tuple[Prefix, RecordHeader, bytes]]:
    """Every record from `first` up to before `end`, verified, without a gap. A body that is not stored is empty."""
    at, slice_records = first, 8
    while at < end:
        found = store.scan(domain, at, limit_records=slice_records, limit_bytes=SCAN_BYTES)
        slice_records = SCAN_RECORDS
        if not found:
            raise Trimmed
        for log_index, record in found:
            if log_index >= end:
                return
            if log_index != at:
                raise Trimmed
            prefix = verify_stored(record)
            if (prefix.domain, prefix.log_index) != (domain, log_index):
                raise CorruptRecord(f"record {log_index} says that it is {prefix.log_index} of {prefix.domain:#x}")
            _, header, body = split(record)
            yield prefix, RecordHeader.FromString(bytes(header)), bytes(body)
            at += 1


class Message(NamedTuple):
    """Where one message was stored."""

    log_index: int
    row: int
    epoch: int


class _Stored(NamedTuple):
    """Messages of one queue in one record."""

    prefix: Prefix
    op: EnqueueOp
    first_row: int
    """Of the first of them in the record."""
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here


def _next_of_queue(store: Store, domain: int, queue_id: int, first: int, end: int) -> _Stored | None:
    """In the first record in there that stored messages of the queue."""
    for prefix, header, _ in records(store, domain, first, end):
        row = 0
        for op in enqueues_of(header):
            if op.queue_id == queue_id and op.first_index:
                return _Stored(prefix, op, row, len(ordinals_of(op)))
            row += len(ordinals_of(op))
    return None


def find(store: Store, domain: int, queue_id: int, index: int, bounds: Bounds) -> Message | None:
    """Where the message with that index was stored, or None: not in what is kept. Any thread. Raises Trimmed.

    Indexes of a queue rise with the log, so the log is halved again and again; nothing is kept for it. Each half is
    read only up to the queue's next message, and in all no more than the log once.
    """
    low, high = bounds.first, bounds.end
    while low < high:
        middle = low if high - low <= NEAR_RECORDS else (low + high) // 2
        found = _next_of_queue(store, domain, queue_id, middle, high)
        if found is None:
            high = middle
            continue
        prefix, start = found.prefix, found.op.first_index
        if index < start:
            high = middle
        elif index >= start + found.count:
            low = prefix.log_index + 1
        else:
            return Message(prefix.log_index, found.first_row + index - start, prefix.epoch)
    return None


class Begins:
    """Where each queue's part of the journal begins at this member; found once, and again when it was trimmed."""

    def __init__(self) -> None:
        self._generation = -1
        self._known: dict[int, tuple[int, int]] = {}
        """By queue: log index of its first record that is kept, or up to where there is none; its first index, or 0."""

    def find(self, store: Store, domain: int, queue_id: int, bounds: Bounds) -> int:
        """Index of the first message that is kept with all that follow it; 0: none is. Any thread, one at a time."""
        if self._generation != bounds.generation:
            self._generation = bounds.generation
            self._known.clear()
        at, index = self._known.get(queue_id, (0, 0))
        if index and at >= bounds.first:
            return index
        start = max(bounds.first, at if not index else 0)
        found = _next_of_queue(store, domain, queue_id, start, bounds.end)
        self._known[queue_id] = (found.prefix.log_index, found.op.first_index) if found else (bounds.end, 0)
        return self._known[queue_id][1]

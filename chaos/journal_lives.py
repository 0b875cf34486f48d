"""Decides from the journals alone what is wrong with the life of a message, and with records; reads nothing.

A message enters, is leased, settled, perhaps leased again, and leaves; each step is a record. A delivery on a stream
leaves before its lease is durable, so the record of a lease may be lost with its master: whoever settles under such a
lease is right, and the settlement is counted, not accused (docs/decisions/0041-audit-coverage.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from chaos.journals import (
    AFTER_DELETION,
    BEFORE_ENTERED,
    ENDED,
    ID_OF_OTHER,
    KIND_UNKNOWN,
    LEASE_ENDED,
    LEASE_UNKNOWN,
    LEASED_AFTER_END,
    LEASED_TWICE,
    LEASES,
    MEMBER_ABSENT,
    NEVER_ENTERED,
    QUEUE_DELETED,
    REJECTED,
    RELEASED,
    ROW_KINDS,
    SETTLED_UNLEASED,
    SETTLES,
    TIME_BACKWARDS,
    Audited,
    Place,
    Row,
    Span,
    Violation,
    epoch_of,
    lease_place,
    log_index_of,
)

Reaches = Mapping[tuple[str, int], tuple[int, int]]
"""The first and the last log index of each member's epochs."""


UNLEASED, UNSTORED, TRIMMED = "UNLEASED", "UNSTORED", "TRIMMED"
"""Of a lease that no row gives: it never was; its record went with its master; its record is before the journal."""


def verdict_of(lease_id: int, settled_at: tuple[int, int], first: int, reach: Mapping[int, tuple[int, int]]) -> str:
    """Of a lease that no row of this history gives: what that means for a settlement at (epoch, log index).

    first: where the history begins. reach: the first and the last record of each of its epochs.
    """
    epoch, log_index = lease_place(lease_id)
    if (epoch, log_index) >= settled_at:
        return UNLEASED  # a lease of later
    if log_index < first:
        return TRIMMED
    if epoch not in reach or log_index > reach[epoch][1]:
        return UNSTORED
    return UNLEASED


def reach_of_side(
    side: int, spans: Mapping[str, Span], reaches: Reaches, *, differ: bool
) -> dict[int, tuple[int, int]]:
    """By epoch, in the history of one side: that of one member, or of both where they agree."""
    members = list(spans)[side : side + 1] if differ else list(spans)
    found: dict[int, tuple[int, int]] = {}
    for (member, epoch), (first, last) in reaches.items():
        if member in members:
            low, high = found.get(epoch, (first, last))
            found[epoch] = (min(low, first), max(high, last))
    return found


def first_of_side(side: int, spans: Mapping[str, Span], *, differ: bool) -> int:
    """The first record of that history."""
    members = list(spans)[side : side + 1] if differ else list(spans)
    return min((spans[member].first for member in members), default=1)


def reaches_of(rows: Iterable[Row]) -> dict[tuple[str, int], tuple[int, int]]:
    """By member and epoch, as far as there are rows."""
    reach: dict[tuple[str, int], tuple[int, int]] = {}
    for row in rows:
        first, last = reach.get((row.member, row.epoch), (row.log_index, row.log_index))
        reach[row.member, row.epoch] = (min(first, row.log_index), max(last, row.log_index))
    return reach


@dataclass(slots=True)
class Life:
    """Of one message in one history: log indexes of what happened to it."""

    entered: list[int] = field(default_factory=list)
    touched: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    leases: set[int] = field(default_factory=set)
    settles: list[Row] = field(default_factory=list)


Lives = Sequence[Mapping[Place, Life]]
"""By history: one, or two where the journals differ."""


def lives_are_right(found: Audited, lives: Lives) -> Iterator[Violation]:
    """Per history and message: it enters, is in one hand at a time, and is in none after it has left."""
    for side, messages in enumerate(lives):
        ends = _lease_ends(found, side)
        for place, life in messages.items():
            problems = []
            if life.entered and life.touched and min(life.touched) < min(life.entered):
                problems.append(BEFORE_ENTERED)
            if life.ended and any(lease_place(lease)[1] > min(life.ended) for lease in life.leases):
                problems.append(LEASED_AFTER_END)
            if found.whole_domain and _in_two_hands(life, ends):
                problems.append(LEASED_TWICE)
            for kind in problems:
                yield Violation(
                    kind, None, place.queue_id, place.index, 1, queue=found.name_of.get(place.queue_id or 0)
                )


def _in_two_hands(life: Life, ends: Mapping[int, int]) -> bool:
    leases = sorted(life.leases, key=lambda lease: (lease_place(lease)[1], lease))
    for before, after in pairwise(leases):
        first, last = lease_place(before)[1], lease_place(after)[1]
        free = any(first < at < last for at in (*life.released, *life.ended))
        if not free and not ends.get(before, last) < last:
            return True
    return False


def lives_of(found: Audited) -> Lives:
    """Of every message."""
    return [_lives(found, side) for side in range(len(found.spans) if found.differ else 1)]


def _lives(found: Audited, side: int) -> dict[Place, Life]:
    lives: dict[Place, Life] = defaultdict(Life)
    for place, rows in found.entered.items():
        lives[place].entered += [row.log_index for row in rows if found.side(row) == side]
    for place, rows in found.touched.items():
        for row in rows:
            if found.side(row) != side:
                continue
            life = lives[place]
            life.touched.append(row.log_index)
            if row.kind in LEASES:
                life.leases.add(row.lease_id)
            if row.kind in ENDED or row.kind == REJECTED:
                life.ended.append(row.log_index)
            if row.kind == RELEASED:
                life.released.append(row.log_index)
            if row.kind in SETTLES and row.lease_id:
                life.settles.append(row)
    return lives


def _lease_ends(found: Audited, side: int) -> dict[int, int]:
    """When the time of a lease was over: the log index, by lease."""
    ends: dict[int, int] = {}
    for row in found.rows:
        if row.kind == "LEASE_ENDED" and found.side(row) == side:
            ends[row.lease_id] = min(ends.get(row.lease_id, row.log_index), row.log_index)
    return ends


class Settlement(NamedTuple):
    """One row of settlements, whichever member's it is."""

    queue_id: int
    log_index: int
    kind: str
    lease_id: int
    first: int


def settled_under_their_leases(found: Audited, lives: Lives) -> Iterator[Violation]:
    """A row of settlements that no lease explains is one violation, with the number of its messages."""
    for (row, verdict), indexes in _unexplained(found, lives).items():
        if verdict == UNLEASED:
            name = found.name_of.get(row.queue_id)
            epoch, log_index = lease_place(row.lease_id)
            says = f"{row.kind} under lease {row.lease_id}, of record {log_index}/{epoch}, which leased none of them"
            count = len(indexes)
            yield Violation(
                SETTLED_UNLEASED, None, row.queue_id, min(indexes), count, row.log_index, name, journals=says
            )


def unexplained_counts(found: Audited, lives: Lives) -> dict[str, int]:
    """Settlements of messages, by what is known of a lease that no row gives."""
    counts: dict[str, int] = defaultdict(int)
    for (_, verdict), indexes in _unexplained(found, lives).items():
        counts[verdict] += len(indexes)
    return counts


def _unexplained(found: Audited, lives: Lives) -> dict[tuple[Settlement, str], set[int]]:
    """Rows of settlements whose lease no row of their history gives, and of which messages."""
    reaches, gone = reaches_of(found.rows), defaultdict[tuple[Settlement, str], set[int]](set)
    for side, messages in enumerate(lives):
        reach = reach_of_side(side, found.spans, reaches, differ=found.differ)
        first = first_of_side(side, found.spans, differ=found.differ)
        for place, life in messages.items():
            for row in life.settles:
                if row.lease_id not in life.leases:
                    verdict = verdict_of(row.lease_id, (row.epoch, row.log_index), first, reach)
                    key = Settlement(row.queue_id, row.log_index, row.kind, row.lease_id, row.index)
                    gone[key, verdict].add(place.index)
    return gone


def all_of_it_entered(found: Audited) -> Iterator[Violation]:
    """What was leased or left was stored before, unless that is of a time that was trimmed: a run of indexes each."""
    queues: dict[int, list[int]] = defaultdict(list)
    for place, rows in found.touched.items():
        judged = any(found.side(row) is not None for row in rows)
        if judged and not found.entered.get(place) and found.is_kept(place):
            queues[place.queue_id or 0].append(place.index)
    for queue_id, indexes in queues.items():
        name = found.name_of.get(queue_id)
        for first, count in runs_of(sorted(indexes)):
            yield Violation(NEVER_ENTERED, None, queue_id, first, count, queue=name)


def runs_of(indexes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbours together: the first, and how many."""
    first = before = 0
    for index in indexes:
        if first and index != before + 1:
            yield first, before - first + 1
            first = 0
        first, before = first or index, index
    if first:
        yield first, before - first + 1


def ids_name_their_records(found: Audited) -> Iterator[Violation]:
    """Per member: an id has the epoch and the log index of the record that stored the message, a lease of its own."""
    for row in found.rows:
        if row.kind in LEASES and lease_place(row.lease_id) != (row.epoch, row.log_index):
            epoch, log_index = lease_place(row.lease_id)
            says = f"{row.member}: lease {row.lease_id}, of record {log_index}/{epoch}, at {row.log_index}/{row.epoch}"
            name = found.name_of.get(row.queue_id)
            yield Violation(
                ID_OF_OTHER, row.member, row.queue_id, row.index, row.count, row.log_index, name, journals=says
            )
        if row.kind != "ENQUEUED" or row.id is None:
            continue
        if log_index_of(row.id) != row.log_index or epoch_of(row.id) != row.epoch & 0xFFFFFFFF:
            says = f"{row.member}: id {row.id.hex()} at {row.log_index}/{row.epoch}"
            name = found.name_of.get(row.queue_id)
            yield Violation(
                ID_OF_OTHER, row.member, row.queue_id, row.index, 1, row.log_index, name, row.id.hex(), says
            )


def kinds_are_known(found: Audited) -> Iterator[Violation]:
    """Per member and record, the rows of each kind that no journal has."""
    for (member, log_index, kind), rows in _grouped(row for row in found.rows if row.kind not in ROW_KINDS):
        says = f"{member}: {kind} at {log_index}/{rows[0].epoch}"
        yield Violation(KIND_UNKNOWN, member, _queue_of(rows), None, len(rows), log_index, journals=says)


def queues_are_there(found: Audited) -> Iterator[Violation]:
    """Per member and record, the rows about a queue that an earlier record of that member deleted."""
    deleted: dict[tuple[str, int], int] = {}
    for row in found.rows:
        if row.kind == QUEUE_DELETED:
            key = (row.member, row.queue_id)
            deleted[key] = min(deleted.get(key, row.log_index), row.log_index)
    late = (row for row in found.rows if row.queue_id and row.log_index > _deletion(deleted, row))
    for (member, log_index, kind), rows in _grouped(late):
        says = f"{member}: {kind} at {log_index}/{rows[0].epoch}, deleted by record {_deletion(deleted, rows[0])}"
        yield Violation(AFTER_DELETION, member, _queue_of(rows), None, len(rows), log_index, journals=says)


def _deletion(deleted: Mapping[tuple[str, int], int], row: Row) -> int:
    return deleted.get((row.member, row.queue_id), row.log_index)


def _queue_of(rows: Sequence[Row]) -> int | None:
    return max(row.queue_id for row in rows) or None


def _grouped(rows: Iterable[Row]) -> Iterable[tuple[tuple[str, int, str], list[Row]]]:
    """By member, record and kind."""
    groups: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.member, row.log_index, row.kind].append(row)
    return groups.items()


def leases_that_end_were_given(found: Audited) -> Iterator[Violation]:
    """Per history: the lease of a LEASE_ENDED is in a row, or its record is one that may be gone."""
    if not found.whole_domain:
        return
    reaches = reaches_of(found.rows)
    for side in range(len(found.spans) if found.differ else 1):
        rows = [row for row in found.rows if found.side(row) == side]
        given = {row.lease_id for row in rows if row.kind in LEASES}
        reach = reach_of_side(side, found.spans, reaches, differ=found.differ)
        first = first_of_side(side, found.spans, differ=found.differ)
        for row in rows:
            if row.kind != LEASE_ENDED or row.lease_id in given:
                continue
            if verdict_of(row.lease_id, (row.epoch, row.log_index), first, reach) == UNLEASED:
                epoch, log_index = lease_place(row.lease_id)
                says = f"lease {row.lease_id}, of record {log_index}/{epoch}, ended at {row.log_index}/{row.epoch}"
                yield Violation(LEASE_UNKNOWN, None, log_index=row.log_index, id=str(row.lease_id), journals=says)


def time_never_falls(found: Audited) -> Iterator[Violation]:
    """Per member: a record is not older than the one before it, of those that have rows."""
    times: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for row in found.rows:
        low, high = times[row.member].get(row.log_index, (row.time_us, row.time_us))
        times[row.member][row.log_index] = (min(low, row.time_us), max(high, row.time_us))
    for member, records in times.items():
        for (before, (_, high)), (log_index, (low, _)) in pairwise(sorted(records.items())):
            if low < high:
                says = f"{member}: record {log_index} is {high - low} us older than record {before}"
                yield Violation(TIME_BACKWARDS, member, log_index=log_index, journals=says)


def members_are_there(found: Audited) -> Iterator[Violation]:
    """One row for a member of which nothing is there."""
    return (absent(member, found.spans[member]) for member in sorted(found.absent))


def absent(member: str, span: Span) -> Violation:
    """As both audits say it."""
    says = f"{member}: its head said that it has records {span.first} to {span.next - 1}, and no row is there"
    return Violation(MEMBER_ABSENT, member, count=span.next - span.first, log_index=span.first, journals=says)

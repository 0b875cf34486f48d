"""Decides from the journals of both members, and what clients were answered, which promises were broken; it reads
nothing.

For drills that fit in memory; `pipeline.audit` gives the same verdict over any number of rows, and a test holds the two
against each other. What was trimmed, or is beyond a journal's end, is not judged. Each violation names what it is about
and what each side says of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from chaos.journal_answers import (
    epochs_are_those_of_ids,
    first_deliveries_are_in_order,
    messages_are_those_of_their_senders,
    order_is_real,
    received_no_more_after_an_acknowledgement,
    what_is_there_was_sent,
    what_was_answered_is_there,
)
from chaos.journal_bodies import bodies_are_those_that_were_sent
from chaos.journal_lives import (
    TRIMMED,
    UNSTORED,
    Lives,
    all_of_it_entered,
    ids_name_their_records,
    kinds_are_known,
    leases_that_end_were_given,
    lives_are_right,
    lives_of,
    members_are_there,
    queues_are_there,
    reaches_of,
    settled_under_their_leases,
    time_never_falls,
    unexplained_counts,
)
from chaos.journal_proof import about, described, hex_of, of_place
from chaos.journal_records import no_record_is_missing
from chaos.journal_sides import aside
from chaos.journal_unjudged import Seen, lines_of
from chaos.journals import (
    CONSUMED,
    COPIES_DIFFER,
    DUPLICATE,
    ENDED,
    EPOCH_NOT_FENCED,
    GAP,
    INDEX_TWICE,
    LOST,
    MEMBERS_MAX,
    NOTHING,
    REJECTED,
    SENT_BY_OTHER,
    SETTLED_TWICE,
    TAIL_CUT,
    Asked,
    Audited,
    Head,
    Place,
    Row,
    Violation,
    ordinal_of,
)


def copies_equal(found: Audited) -> Iterator[Violation]:
    """Between the first record that both keep and the first that one of them does not know, both have the same rows."""
    if len(found.spans) < MEMBERS_MAX or found.absent:
        return
    first = max(span.first for span in found.spans.values())
    end = min(span.next for span in found.spans.values())
    sides: dict[tuple[int, str, int, int, int], dict[str, list[Row]]] = {}
    for row in found.rows:
        if first <= row.log_index < end and row.kind != NOTHING:
            key = (row.log_index, row.kind, row.queue_id, row.index, row.lease_id)
            sides.setdefault(key, defaultdict(list))[row.member].append(row)
    saved, changed = _once_volatile(found)
    for (log_index, _, queue_id, index, _), says in sides.items():
        one, other = (says.get(member, []) for member in found.spans)
        volatile = Place(queue_id, index) in saved or changed.get(queue_id, 0) > log_index
        if not _same(one, other, volatile=volatile):
            row, count = (one or other)[0], max(each.count for each in (*one, *other))
            journals = "; ".join(f"{member}: {described(says.get(member, []))}" for member in found.spans)
            yield Violation(COPIES_DIFFER, None, queue_id, index, count, log_index, row.queue, hex_of(row.id), journals)


def _same(one: Sequence[Row], other: Sequence[Row], *, volatile: bool) -> bool:
    """A body, or what stood beside it, that one member cannot show is a difference, unless the message was volatile
    when the page was made.
    """
    contents = [
        Counter(replace(row, member="", queue=None, payload=None, attributes=None, body_crc32=None) for row in side)
        for side in (one, other)
    ]
    bodies = [
        Counter((row.payload, row.attributes) for row in side if (row.payload, row.attributes) != (None, None))
        for side in (one, other)
    ]
    hidden = any(row.payload is None for row in (*one, *other))
    return contents[0] == contents[1] and (bodies[0] == bodies[1] or (hidden and volatile))


def _once_volatile(found: Audited) -> tuple[set[Place], dict[int, int]]:
    """Messages that became persistent; and by queue the last record that may have begun to make them so."""
    saved, changed = set(), dict[int, int]()
    for row in found.rows:
        if row.kind == "SAVED":
            saved |= {Place(row.queue_id, index) for index in range(row.index, row.index + row.count)}
        elif row.kind == "CONFIGURED":
            changed[row.queue_id] = max(changed.get(row.queue_id, 0), row.log_index)
    return saved, changed


def indexes_are_dense(found: Audited) -> Iterator[Violation]:
    """Per member and queue, from the first that is kept: 1, where nothing was trimmed."""
    kept: dict[tuple[str, int], set[int]] = defaultdict(set)
    for rows in found.entered.values():
        for row in rows:
            kept[row.member, row.queue_id].add(row.index)
    whole = _whole(found)
    for (member, queue_id), indexes in kept.items():
        before = 0 if (member, queue_id) in whole else min(indexes) - 1
        for index in sorted(indexes):
            if index > before + 1:
                journals = f"{member}: {before or 'nothing'} and then {index}"
                yield about(found, GAP, queue_id, before + 1, member, index - before - 1, journals)
            before = index


def tails_are_there(found: Audited) -> Iterator[Violation]:
    """Per member and queue: every message below what the member called the next one."""
    last: dict[tuple[str, int], int] = {}
    for row in found.rows:
        if row.kind == "ENQUEUED":
            key = (row.member, row.queue_id)
            last[key] = max(last.get(key, 0), row.index)
    for head in found.heads:
        if head.queue_id is None or head.next_index is None or head.member in found.absent:
            continue
        end = last.get((head.member, head.queue_id), (head.first_index or 1) - 1)
        if end + 1 < head.next_index:
            journals = f"{head.member}: ends with {end}, and its head said that {head.next_index} is next"
            count = head.next_index - end - 1
            yield about(found, TAIL_CUT, head.queue_id, end + 1, head.member, count, journals)


def records_are_there(found: Audited, ends: Mapping[str, int]) -> Iterator[Violation]:
    """Per member: what was read reaches to where the member said that it stood. `ends`: where reading ended.

    Without `ends` it is not known: some records give no row, and the last ones often do not.
    """
    for member, end in ends.items():
        asked = max((head.next_log_index for head in found.heads if head.member == member), default=0)
        if end < asked and member not in found.absent:
            yield cut_short(member, end, asked)


def cut_short(member: str, end: int, asked: int) -> Violation:
    """As both audits say it."""
    says = f"{member}: read up to record {end - 1}, and its head said that {asked} is next"
    return Violation(TAIL_CUT, member, count=asked - end, log_index=end, journals=says)


def epochs_are_fenced(found: Audited) -> Iterator[Violation]:
    """Per member: a newer epoch begins after the last record of every older one."""
    for each in unfenced(reaches_of(found.rows)):
        asked = [row for row in found.rows if (row.member, row.log_index) == (each.member, each.log_index)]
        queue_id = max((row.queue_id for row in asked), default=0) or None
        yield replace(each, queue_id=queue_id, queue=found.name_of.get(queue_id or 0))


def unfenced(reach: Mapping[tuple[str, int], tuple[int, int]]) -> Iterator[Violation]:
    """Of the first and the last log index of each member's epochs: records of an older one behind a newer one's first.

    The last of them is named, once for all newer epochs.
    """
    ends: dict[str, tuple[int, int]] = {}
    found: dict[tuple[str, int], Violation] = {}
    for (member, epoch), (first, last) in sorted(reach.items()):
        end, older = ends.get(member, (-1, 0))
        if end >= first:
            journals = f"{member}: epoch {epoch} begins at record {first}, and {end} is of epoch {older}"
            found[member, end] = Violation(EPOCH_NOT_FENCED, member, log_index=end, journals=journals)
        ends[member] = max((end, older), (last, epoch))
    return iter(found.values())


def an_index_is_one_row(found: Audited) -> Iterator[Violation]:
    """Per journal: the same row twice is one too many."""
    for place, rows in found.entered.items():
        if any(count > 1 for side, count in Counter(map(found.side, rows)).items() if side is not None):
            yield of_place(found, INDEX_TWICE, place, rows)


def stored_once(found: Audited) -> Iterator[Violation]:
    """Per journal: who sent it, and as which one, names a message of a queue."""
    copies: dict[tuple[int, int, bytes, int, int], set[int]] = defaultdict(set)
    for place, rows in found.entered.items():
        for row in rows:
            side = found.side(row)
            if side is not None and row.producer is not None and row.log_index not in found.moved:
                ordinal = 0 if row.sequence else ordinal_of(row.id)
                copies[side, row.queue_id, row.producer, row.sequence, ordinal].add(place.index)
    more = {Place(key[1], index) for key, indexes in copies.items() for index in sorted(indexes)[1:]}
    for place in more:
        yield of_place(found, DUPLICATE, place, found.entered[place])


def settled_once(found: Audited) -> Iterator[Violation]:
    """Per journal: a message leaves its queue once."""
    for place, rows in found.ended.items():
        for side in range(len(found.spans)):
            kinds = [row.kind for row in rows if found.side(row) == side]
            ended = sum(kind in ENDED for kind in kinds)
            rejected = kinds.count(REJECTED)
            if ended > 1 or rejected > 1 or (rejected and CONSUMED.intersection(kinds)):
                yield of_place(found, SETTLED_TWICE, place, rows)
                break


CHECKS: tuple[Callable[[Audited], Iterator[Violation]], ...] = (
    members_are_there,
    indexes_are_dense,
    tails_are_there,
    epochs_are_fenced,
    time_never_falls,
    ids_name_their_records,
    kinds_are_known,
    queues_are_there,
    leases_that_end_were_given,
    an_index_is_one_row,
    stored_once,
    settled_once,
    all_of_it_entered,
    what_was_answered_is_there,
    what_is_there_was_sent,
    order_is_real,
    epochs_are_those_of_ids,
    messages_are_those_of_their_senders,
    received_no_more_after_an_acknowledgement,
    first_deliveries_are_in_order,
    bodies_are_those_that_were_sent,
)


def violations(
    rows: Sequence[Row],
    asked: Sequence[Asked] = (),
    heads: Sequence[Head] = (),
    ends: Mapping[str, int] | None = None,
    every_record_from: Mapping[str, int] | None = None,
) -> list[Violation]:
    """Every broken promise, each once. Raises ValueError where the rows are of more than two members."""
    return judged(rows, asked, heads, ends, every_record_from).violations


class Judged(NamedTuple):
    """What came of it."""

    violations: list[Violation]
    rows: dict[str, int]
    """Of the journal, by member."""
    asked: int
    """Rows of the client history."""
    unjudged: list[str]
    """What was not judged, and why; and what was seen that is no violation."""


def judged(
    rows: Sequence[Row],
    asked: Sequence[Asked] = (),
    heads: Sequence[Head] = (),
    ends: Mapping[str, int] | None = None,
    every_record_from: Mapping[str, int] | None = None,
) -> Judged:
    """The same, with what was not judged.

    ends: by member, the first record that was not read. every_record_from: by member, the first one from which on each
    record has a row; of members that are not in it no record is known to be missing.
    """
    judged_of, at_sides = aside(rows, asked)
    found = Audited(rows, judged_of, heads)
    differing = list(copies_equal(found))
    found.differ = bool(differing)
    lives = lives_of(found)
    others = [each for check in CHECKS for each in check(found)]
    others += [*lives_are_right(found, lives), *settled_under_their_leases(found, lives)]
    others += records_are_there(found, ends or {})
    others += no_record_is_missing(found, every_record_from or {}, ends or {})
    once = {_key(each): _proven(found, each) for each in (*differing, *others)}
    sizes = Counter(row.member for row in rows)
    counts = {member: sizes[member] for member in found.spans}
    kinds = Counter(each.kind for each in once.values())
    seen = _seen(found, lives, ends, every_record_from or {}, kinds[LOST] + kinds[SENT_BY_OTHER])
    seen = seen._replace(at_sides=at_sides)
    return Judged(list(once.values()), counts, len(asked), lines_of(seen))


def _proven(found: Audited, each: Violation) -> Violation:
    """With what each side says of the message."""
    if each.journals or each.clients or each.index is None:
        return each
    place = Place(each.queue_id, each.index)
    proof = of_place(found, each.kind, place, found.entered.get(place, []))
    return replace(each, journals=proof.journals, clients=proof.clients)


def _seen(
    found: Audited,
    lives: Lives,
    ends: Mapping[str, int] | None,
    every_record_from: Mapping[str, int],
    strange: int,
) -> Seen:
    unexplained = unexplained_counts(found, lives)
    records = Counter(member for member, _, _ in {(row.member, row.epoch, row.log_index) for row in found.rows})
    received = [asked for asked in found.asked if asked.op == "recv" and asked.outcome == "ok"]
    once = set(found.asked)
    answered = [asked for asked in once if asked.outcome == "ok" and asked.index is not None]
    early = list(_early(answered))
    return Seen(
        spans=found.spans,
        records=records,
        asked=dict(Counter(asked.op for asked in found.asked)),
        answered=dict(Counter(asked.op for asked in answered)),
        doubled=len(found.asked) - len(once),
        early=len(early),
        apart_ns=max(early, default=0),
        strange=strange,
        unordered=sum(asked.priority is None for asked in received),
        unstored=unexplained.get(UNSTORED, 0),
        trimmed=unexplained.get(TRIMMED, 0),
        whole_domain=found.whole_domain,
        absent=found.absent,
        heads=bool(found.heads),
        ends=ends is not None,
        every_record_from=every_record_from,
    )


def _early(answered: Iterable[Asked]) -> Iterator[int]:
    """Nanoseconds by which messages came, or were acknowledged, before they were sent."""
    sent, came = dict[tuple[str, int | None], int](), dict[tuple[str, int | None], int]()
    for asked in answered:
        place = (asked.queue, asked.index)
        if asked.op == "send":
            sent[place] = min(sent.get(place, asked.invoke_ns), asked.invoke_ns)
        elif asked.complete_ns is not None:
            came[place] = min(came.get(place, asked.complete_ns), asked.complete_ns)
    return (sent[place] - at_ns for place, at_ns in came.items() if at_ns < sent.get(place, at_ns))


def _key(each: Violation) -> tuple[object, ...]:
    return (each.kind, each.member, each.queue_id, each.index, each.count, each.log_index, each.id)


def _whole(found: Audited) -> set[tuple[str, int]]:
    """Members and queues of which the journal has the first message: it has all, or the queue's creation."""
    created = {(row.member, row.queue_id) for row in found.rows if row.kind == "QUEUE_CREATED"}
    all_of = {member for member, span in found.spans.items() if span.first <= 1}
    return created | {(row.member, row.queue_id) for row in found.rows if row.member in all_of}

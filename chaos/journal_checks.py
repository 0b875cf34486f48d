"""Decides from the journals of both members, and what clients were told, which promises were broken; it reads nothing.

For drills that fit in memory; `pipeline.audit` gives the same verdict over any number of rows, and a test holds the two
against each other. What was trimmed, or is beyond a journal's end, is not judged. Each violation names what it is about
and what each side says of it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from chaos.journals import (
    CONSUMED,
    COPIES_DIFFER,
    DUPLICATE,
    ENDED,
    EPOCH_NOT_FENCED,
    GAP,
    GHOST,
    INDEX_TWICE,
    LOST,
    MEMBERS_MAX,
    REAL_TIME_ORDER,
    REJECTED,
    SETTLE_LOST,
    SETTLED_TWICE,
    TAIL_CUT,
    UNSENT,
    Audited,
    Head,
    Place,
    Row,
    Told,
    Violation,
    log_index_of,
    ordinal_of,
)


def copies_equal(found: Audited) -> Iterator[Violation]:
    """Between the first record that both keep and the first that one of them does not know, both have the same rows."""
    if len(found.spans) < MEMBERS_MAX:
        return
    first = max(span.first for span in found.spans.values())
    end = min(span.next for span in found.spans.values())
    sides: dict[tuple[int, str, int, int, int], dict[str, list[Row]]] = {}
    for row in found.rows:
        if first <= row.log_index < end:
            key = (row.log_index, row.kind, row.queue_id, row.index, row.lease_id)
            sides.setdefault(key, defaultdict(list))[row.member].append(row)
    for (log_index, _, queue_id, index, _), says in sides.items():
        one, other = (says.get(member, []) for member in found.spans)
        if not _same(one, other):
            row = (one or other)[0]
            journals = "; ".join(f"{member}: {_telling(says.get(member, []))}" for member in found.spans)
            yield Violation(
                COPIES_DIFFER, None, queue_id, index, row.count, log_index, row.queue, _hex(row.id), journals
            )


def _same(one: Sequence[Row], other: Sequence[Row]) -> bool:
    """A body that one member cannot show is not a difference (docs/SPARK.md)."""
    contents = [Counter(replace(row, member="", queue=None, payload=None) for row in side) for side in (one, other)]
    bodies = [sorted(row.payload or b"" for row in side) for side in (one, other)]
    shown = all(row.payload is not None for row in (*one, *other))
    return contents[0] == contents[1] and (not shown or bodies[0] == bodies[1])


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
                yield _about(found, GAP, queue_id, before + 1, member, index - before - 1, journals)
            before = index


def tails_are_there(found: Audited) -> Iterator[Violation]:
    """Per member and queue: every message below what the member called the next one."""
    last: dict[tuple[str, int], int] = {}
    for row in found.rows:
        if row.kind == "ENQUEUED":
            key = (row.member, row.queue_id)
            last[key] = max(last.get(key, 0), row.index)
    for head in found.heads:
        if head.queue_id is None or head.next_index is None:
            continue
        end = last.get((head.member, head.queue_id), (head.first_index or 1) - 1)
        if end + 1 < head.next_index:
            journals = f"{head.member}: ends with {end}, and its head said that {head.next_index} is next"
            count = head.next_index - end - 1
            yield _about(found, TAIL_CUT, head.queue_id, end + 1, head.member, count, journals)


def epochs_are_fenced(found: Audited) -> Iterator[Violation]:
    """Per member: a newer epoch begins after the last record of every older one."""
    reach: dict[tuple[str, int], tuple[int, int]] = {}
    for row in found.rows:
        first, last = reach.get((row.member, row.epoch), (row.log_index, row.log_index))
        reach[row.member, row.epoch] = (min(first, row.log_index), max(last, row.log_index))
    return unfenced(reach)


def unfenced(reach: Mapping[tuple[str, int], tuple[int, int]]) -> Iterator[Violation]:
    """Of the first and the last log index of each member's epochs: those that begin before an older one has ended."""
    ends: dict[str, tuple[int, int]] = {}
    for (member, epoch), (first, last) in sorted(reach.items()):
        end, older = ends.get(member, (-1, 0))
        if end >= first:
            journals = f"{member}: epoch {epoch} begins at record {first}, and {end} is of epoch {older}"
            yield Violation(EPOCH_NOT_FENCED, member, log_index=first, journals=journals)
        ends[member] = max((end, older), (last, epoch))


def an_index_is_one_row(found: Audited) -> Iterator[Violation]:
    """Per journal: the same row twice is one too many."""
    for place, rows in found.entered.items():
        if any(count > 1 for side, count in Counter(map(found.side, rows)).items() if side is not None):
            yield _of_place(found, INDEX_TWICE, place, rows)


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
        yield _of_place(found, DUPLICATE, place, found.entered[place])


def settled_once(found: Audited) -> Iterator[Violation]:
    """Per journal: a message leaves its queue once."""
    for place, rows in found.ended.items():
        for side in range(len(found.spans)):
            kinds = [row.kind for row in rows if found.side(row) == side]
            ended = sum(kind in ENDED for kind in kinds)
            rejected = kinds.count(REJECTED)
            if ended > 1 or rejected > 1 or (rejected and CONSUMED.intersection(kinds)):
                yield _of_place(found, SETTLED_TWICE, place, rows)
                break


def what_was_answered_is_there(found: Audited) -> Iterator[Violation]:
    """What was stored and acknowledged for a client is in a journal, unless it is of a time that was trimmed."""
    kept_from = min((span.first for span in found.spans.values()), default=1)
    whole = {queue_id for _, queue_id in _whole(found)}
    first: dict[int | None, int] = {}
    for place in found.entered:
        first[place.queue_id] = min(first.get(place.queue_id, place.index), place.index)
    stored = {(row.id, row.index) for rows in found.entered.values() for row in rows}
    for told in found.told:
        if told.outcome != "ok" or told.index is None:
            continue
        place = found.place(told)
        rows = found.entered.get(place, [])
        if told.op == "send":
            log_index = log_index_of(told.id)
            if log_index is not None:
                kept = log_index >= kept_from
            else:
                kept = (
                    kept_from <= 1 or place.queue_id in whole or told.index >= first.get(place.queue_id, told.index + 1)
                )
            if kept and not ((told.id, told.index) in stored if told.id else rows):
                yield replace(_of_place(found, LOST, place, rows), id=_hex(told.id), queue=told.queue)
        elif told.op == "ack" and rows:
            after = {row.kind for row in found.ended.get(place, [])}
            if REJECTED not in after and not after & CONSUMED:
                yield _of_place(found, SETTLE_LOST, place, rows)


def what_is_there_was_sent(found: Audited) -> Iterator[Violation]:
    """In queues that a watched client sent to: each message was sent, and not answered with a certain refusal."""
    sends = [told for told in found.told if told.op == "send"]
    places = {found.place(told) for told in sends if told.outcome == "ok" and told.index is not None}
    outcomes: dict[tuple[str, bytes | None, int], set[str]] = defaultdict(set)
    for told in sends:  # a name that no journal knows may be another one of the same queue
        name = told.queue if told.queue in found.names else ""
        outcomes[name, told.producer, told.sequence or 0].add(told.outcome)
    watched = {told.queue for told in sends}
    for place, rows in found.entered.items():
        name = found.name_of.get(place.queue_id or 0, "")
        mine = [row for row in rows if row.producer is not None]
        if name not in watched or place in places:
            continue
        keys = {(known_as, row.producer, row.sequence) for row in mine for known_as in (name, "")}
        known = set().union(*(outcomes.get(key, ()) for key in keys))
        if known == {"fail"}:
            yield _of_place(found, GHOST, place, rows)
        elif not known and any(row.log_index not in found.moved for row in mine):
            yield _of_place(found, UNSENT, place, rows)


def order_is_real(found: Audited) -> Iterator[Violation]:
    """Per queue: what is sent after another was acknowledged has the higher index. One host's clock timed both."""
    queues: dict[int | str, list[Told]] = defaultdict(list)
    for told in found.told:
        if told.op == "send" and told.outcome == "ok" and told.index is not None:
            queues[found.place(told).queue_id or told.queue].append(told)
    for sends in queues.values():
        sends.sort(key=lambda told: -(told.index or 0))
        earliest: tuple[float, int] = (math.inf, 0)  # of higher indexes: when the first was acknowledged, and which
        at = 0
        for told in sends:
            while (sends[at].index or 0) > (told.index or 0):
                answered_ns = sends[at].complete_ns
                earliest = min(earliest, (math.inf if answered_ns is None else answered_ns, sends[at].index or 0))
                at += 1
            if earliest[0] < told.invoke_ns:
                place = found.place(told)
                says = f"sent at {told.invoke_ns} ns, and index {earliest[1]} had been acknowledged at {earliest[0]} ns"
                rows = found.entered.get(place, [])
                yield replace(_of_place(found, REAL_TIME_ORDER, place, rows), clients=says, queue=told.queue)


CHECKS: tuple[Callable[[Audited], Iterator[Violation]], ...] = (
    indexes_are_dense,
    tails_are_there,
    epochs_are_fenced,
    an_index_is_one_row,
    stored_once,
    settled_once,
    what_was_answered_is_there,
    what_is_there_was_sent,
    order_is_real,
)


def violations(rows: Sequence[Row], told: Sequence[Told] = (), heads: Sequence[Head] = ()) -> list[Violation]:
    """Every broken promise, each once. Raises ValueError where the rows are of more than two members."""
    found = Audited(rows, told, heads)
    differing = list(copies_equal(found))
    found.differ = bool(differing)
    others = [each for check in CHECKS for each in check(found)]
    return list({_key(each): each for each in (*differing, *others)}.values())


def _key(each: Violation) -> tuple[object, ...]:
    return (each.kind, each.member, each.queue_id, each.index, each.count, each.log_index, each.id)


def _whole(found: Audited) -> set[tuple[str, int]]:
    """Members and queues of which the journal has the first message: it has all, or the queue's creation."""
    created = {(row.member, row.queue_id) for row in found.rows if row.kind == "QUEUE_CREATED"}
    all_of = {member for member, span in found.spans.items() if span.first <= 1}
    return created | {(row.member, row.queue_id) for row in found.rows if row.member in all_of}


def _about(found: Audited, kind: str, queue_id: int, index: int, member: str, count: int, journals: str) -> Violation:
    name = found.name_of.get(queue_id)
    return Violation(kind, member, queue_id, index, count, queue=name, journals=journals)


def _of_place(found: Audited, kind: str, place: Place, rows: Sequence[Row]) -> Violation:
    row = rows[0] if rows else None
    all_rows = [*rows, *(each for each in found.ended.get(place, []) if each not in rows)]
    journals = "; ".join(
        f"{member}: {_telling([each for each in all_rows if each.member == member])}" for member in found.spans
    )
    mine = [told for told in found.told if told.index == place.index and found.place(told) == place]
    clients = ", ".join(f"{told.op} {told.outcome}" for told in mine) or "nothing"
    name = found.name_of.get(place.queue_id or 0)
    return Violation(
        kind, None, place.queue_id, place.index, 1, None, name, _hex(row.id if row else None), journals, clients
    )


def _telling(rows: Sequence[Row]) -> str:
    """For people."""
    told = (
        f"{row.kind} {row.index} at {row.log_index}/{row.epoch}{f' id {row.id.hex()}' if row.id else ''}"
        for row in sorted(rows, key=lambda row: row.log_index)
    )
    return ", ".join(told) or "nothing"


def _hex(data: bytes | None) -> str | None:
    return data.hex() if data else None

"""Decides what is wrong with what clients were answered of, sent and received; reads nothing.

A delivery may lie with a client for a while: on a stream it is sent before it is asked for. So what was received is
held against leases, and accused only where none explains it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from chaos.journal_proof import hex_of, of_place
from chaos.journals import (
    ACK_LOST,
    CONSUMED,
    DELIVERY_ORDER,
    EPOCH_TOLD,
    GHOST,
    LEASE_BITS,
    LEASES,
    LOST,
    REAL_TIME_ORDER,
    RECEIVED_AFTER_ACK,
    RECEIVED_LOST,
    REJECTED,
    SENT_BY_OTHER,
    SETTLE_LOST,
    UNSENT,
    Asked,
    Audited,
    Place,
    Violation,
    epoch_of,
    log_index_of,
)

_GONE = {"send": LOST, "recv": RECEIVED_LOST, "ack": ACK_LOST}


def what_was_answered_is_there(found: Audited) -> Iterator[Violation]:
    """What a client was answered is in a journal, unless it is of a time that was trimmed."""
    stored = {(row.id, row.index) for rows in found.entered.values() for row in rows}
    for asked in found.asked:
        if asked.outcome != "ok" or asked.index is None:
            continue
        place = found.place(asked)
        rows = found.entered.get(place, [])
        if place.queue_id is None and not found.whole_domain:
            continue  # of a queue that was not chosen
        log_index = log_index_of(asked.id)
        if log_index is not None:
            kept = log_index >= found.kept_from
        else:
            kept = found.is_kept(place) and (asked.op == "send" or place.queue_id is not None)
        if kept and not ((asked.id, asked.index) in stored if asked.id else rows):
            yield replace(of_place(found, _GONE[asked.op], place, rows), id=hex_of(asked.id), queue=asked.queue)
        if asked.op == "ack" and rows:
            after = {row.kind for row in found.ended.get(place, [])}
            if REJECTED not in after and not after & CONSUMED:
                yield of_place(found, SETTLE_LOST, place, rows)


def what_is_there_was_sent(found: Audited) -> Iterator[Violation]:
    """In queues that a watched client sent to: each message was sent, and not answered with a certain refusal."""
    sends = [asked for asked in found.asked if asked.op == "send"]
    places = {found.place(asked) for asked in sends if asked.outcome == "ok" and asked.index is not None}
    outcomes: dict[tuple[str, bytes | None, int], set[str]] = defaultdict(set)
    for asked in sends:  # a name that no journal knows may be another one of the same queue
        name = asked.queue if asked.queue in found.names else ""
        outcomes[name, asked.producer, asked.sequence or 0].add(asked.outcome)
    watched = {asked.queue for asked in sends}
    for place, rows in found.entered.items():
        name = found.name_of.get(place.queue_id or 0, "")
        mine = [row for row in rows if row.producer is not None]
        if name not in watched or place in places:
            continue
        keys = {(known_as, row.producer, row.sequence) for row in mine for known_as in (name, "")}
        known = set().union(*(outcomes.get(key, ()) for key in keys))
        if known == {"fail"}:
            yield of_place(found, GHOST, place, rows)
        elif not known and any(row.log_index not in found.moved for row in mine):
            yield of_place(found, UNSENT, place, rows)


def messages_are_those_of_their_senders(found: Audited) -> Iterator[Violation]:
    """Who sent it, and as which one, is what the record that stores it has."""
    for asked in found.asked:
        if asked.op != "send" or asked.outcome != "ok" or asked.index is None:
            continue
        if asked.producer is None or asked.sequence is None:
            continue
        place = found.place(asked)
        for row in found.entered.get(place, []):
            same_id = asked.id is None or row.id is None or asked.id == row.id
            if found.side(row) is None or not same_id:
                continue
            if (row.producer, row.sequence) != (asked.producer, asked.sequence):
                stored_by = "nobody" if row.producer is None else row.producer.hex()
                says = (
                    f"sent as {asked.sequence} of {asked.producer.hex()}, and stored as {row.sequence} of {stored_by}"
                )
                yield replace(of_place(found, SENT_BY_OTHER, place, found.entered[place]), clients=says)
                break


def order_is_real(found: Audited) -> Iterator[Violation]:
    """Per queue: what is sent after another was acknowledged has the higher index. One host's clock timed both."""
    queues: dict[int | str, list[Asked]] = defaultdict(list)
    for asked in found.asked:
        if asked.op == "send" and asked.outcome == "ok" and asked.index is not None:
            queues[found.place(asked).queue_id or asked.queue].append(asked)
    for sends in queues.values():
        sends.sort(key=lambda asked: -(asked.index or 0))
        earliest: tuple[float, int] = (math.inf, 0)  # of higher indexes: when the first was acknowledged, and which
        at = 0
        for asked in sends:
            while (sends[at].index or 0) > (asked.index or 0):
                answered_ns = sends[at].complete_ns
                earliest = min(earliest, (math.inf if answered_ns is None else answered_ns, sends[at].index or 0))
                at += 1
            if earliest[0] < asked.invoke_ns:
                place = found.place(asked)
                says = (
                    f"sent at {asked.invoke_ns} ns, and index {earliest[1]} had been acknowledged at {earliest[0]} ns"
                )
                rows = found.entered.get(place, [])
                yield replace(of_place(found, REAL_TIME_ORDER, place, rows), clients=says, queue=asked.queue)


def epochs_are_those_of_ids(found: Audited) -> Iterator[Violation]:
    """A receipt's epoch is that of the record that its id names."""
    for asked in found.asked:
        if asked.op != "send" or asked.outcome != "ok" or not asked.id or asked.epoch is None:
            continue
        if asked.epoch & 0xFFFFFFFF != epoch_of(asked.id):
            says = f"sent, and answered with epoch {asked.epoch} and id {asked.id.hex()}"
            queue_id = None if asked.index is None else found.place(asked).queue_id
            yield Violation(
                EPOCH_TOLD, None, queue_id, asked.index, 1, queue=asked.queue, id=asked.id.hex(), clients=says
            )


def received_no_more_after_an_acknowledgement(found: Audited) -> Iterator[Violation]:
    """A message that came again after its acknowledgement was confirmed has as many leases as it was received.

    A takeover may have lost the record of one lease, so each epoch from its entering to its end explains one more.
    """
    acked: dict[Place, int] = {}
    received: dict[Place, dict[tuple[str, int], int]] = defaultdict(dict)
    """Each delivery once, though its row may be there twice."""
    for asked in found.asked:
        if asked.outcome != "ok" or asked.index is None or asked.op == "send":
            continue
        place = found.place(asked)
        if asked.op == "recv":
            received[place][asked.client, asked.invoke_ns] = asked.invoke_ns
        elif asked.complete_ns is not None:
            acked[place] = min(acked.get(place, asked.complete_ns), asked.complete_ns)
    for place, answered_ns in acked.items():
        times = list(received.get(place, {}).values())
        entered = [row.epoch for row in found.entered.get(place, [])]
        ended = [row.epoch for row in found.ended.get(place, []) if row.kind in CONSUMED]
        if not entered or not ended or max(times, default=0) <= answered_ns:
            continue
        leases = len(_leases(found, place))
        if len(times) > leases + max(ended) - min(entered):
            says = (
                f"received {len(times)} times with {leases} leases, at {max(times)} ns too, "
                f"and its acknowledgement was confirmed at {answered_ns} ns"
            )
            name = found.name_of.get(place.queue_id or 0)
            yield Violation(RECEIVED_AFTER_ACK, None, place.queue_id, place.index, 1, queue=name, clients=says)


def _leases(found: Audited, place: Place) -> set[int]:
    """Of both members."""
    return {row.lease_id for row in found.touched.get(place, []) if row.kind in LEASES}


class _First(NamedTuple):
    """The first time that a message was received."""

    invoke_ns: int
    complete_ns: int
    client: str
    priority: int
    id: bytes


def first_deliveries_are_in_order(found: Audited) -> Iterator[Violation]:
    """Per client, queue, priority and epoch: messages that were leased once come by rising index.

    What was leased again comes when it is free; what had a delay, when its time has come; a new master gives out what
    an old one had given without a trace. None of these is judged.
    """
    matured = {
        Place(row.queue_id, index)
        for row in found.rows
        if row.kind == "MATURED"
        for index in range(row.index, row.index + row.count)
    }
    firsts: dict[Place, _First] = {}
    for asked in found.asked:
        if (place := _ordered(found, asked)) is not None:
            assert asked.complete_ns is not None
            assert asked.priority is not None
            first = _First(asked.invoke_ns, asked.complete_ns, asked.client, asked.priority, asked.id or b"")
            firsts[place] = min(firsts.get(place, first), first)
    lines: dict[tuple[str, int | None, int, int], list[tuple[int, _First]]] = defaultdict(list)
    for place, first in firsts.items():
        leases = _leases(found, place)
        if len(leases) == 1 and place not in matured:
            epoch = leases.pop() >> LEASE_BITS
            lines[first.client, place.queue_id, first.priority, epoch].append((place.index, first))
    for (client, queue_id, priority, _), came in lines.items():
        earliest: tuple[float, int] = (math.inf, 0)  # of higher indexes: when the first was there, and which
        for index, first in sorted(came, reverse=True):
            if earliest[0] < first.invoke_ns:
                says = (
                    f"{client} asked at {first.invoke_ns} ns, and had received index {earliest[1]} of priority "
                    f"{priority} at {earliest[0]} ns"
                )
                name = found.name_of.get(queue_id or 0)
                yield Violation(DELIVERY_ORDER, None, queue_id, index, 1, queue=name, clients=says)
            earliest = min(earliest, (first.complete_ns, index))


def _ordered(found: Audited, asked: Asked) -> Place | None:
    """Where a message stands whose order is judged."""
    if asked.op != "recv" or asked.outcome != "ok" or asked.index is None:
        return None
    if asked.priority is None or asked.complete_ns is None:
        return None
    place = found.place(asked)
    return None if place.queue_id is None else place

"""Spoils what was seen of a good run, one promise each, so that anybody can see that the account notices it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from chaos.demo_journals import Row
from chaos.units.seen import FLIGHTS, LEDGER, LEGS, Seen
from tandemq.client.journal import JournalKind


def _last(rows: list[Row], queue: str, kind: JournalKind) -> int:
    """Place of the last such row. Raises LookupError: there is none."""
    places = [place for place, row in enumerate(rows) if row.queue == queue and row.kind is kind]
    if not places:
        raise LookupError(f"nothing in {queue} is {kind.name}: this run has nothing to spoil in that way")
    return places[-1]


def half_unit(seen: Seen) -> Seen:
    """A leg without its entry, and the flight is acknowledged."""
    place = _last(seen.here, LEDGER, JournalKind.ENQUEUED)
    return replace(seen, here=seen.here[:place] + seen.here[place + 1 :])


def loss(seen: Seen) -> Seen:
    """The last unit is in no journal, though its worker has the answer."""
    at = seen.here[_last(seen.here, FLIGHTS, JournalKind.ACKED)].at
    return replace(seen, here=[row for row in seen.here if row.at != at])


def lost_on_its_way(seen: Seen) -> Seen:
    """An entry never came to the second pair."""
    place = _last(seen.there, LEDGER, JournalKind.ENQUEUED)
    return replace(seen, there=seen.there[:place] + seen.there[place + 1 :])


def duplicate(seen: Seen) -> Seen:
    """An entry came to the second pair twice."""
    row = seen.there[_last(seen.there, LEDGER, JournalKind.ENQUEUED)]
    return replace(seen, there=[*seen.there, row._replace(at=row.at + 1, first=row.first + 1)])


def unit_twice(seen: Seen) -> Seen:
    """The last unit was executed once more."""
    at, end = seen.here[_last(seen.here, FLIGHTS, JournalKind.ACKED)].at, seen.here[-1].at + 1
    again = [
        row._replace(at=end, first=row.first + (row.kind is JournalKind.ENQUEUED)) for row in seen.here if row.at == at
    ]
    return replace(seen, here=[*seen.here, *again])


def order_break(seen: Seen) -> Seen:
    """Two entries changed places on their way."""
    rows = [row for row in seen.there if row.queue == LEDGER and row.kind is JournalKind.ENQUEUED]
    one, two = rows[-2], rows[-1]
    swapped = {one: one._replace(payload=two.payload), two: two._replace(payload=one.payload)}
    return replace(seen, there=[swapped.get(row, row) for row in seen.there])


def flown_although_cancelled(seen: Seen) -> Seen:
    """A reaction that was ordered removed one flight fewer than was free."""
    place = _last(seen.here, FLIGHTS, JournalKind.REMOVED)
    row = seen.here[place]
    fewer = [row._replace(messages=row.messages - 1)] if row.messages > 1 else []
    return replace(seen, here=[*seen.here[:place], *fewer, *seen.here[place + 1 :]])


def unchanged(seen: Seen) -> Seen:
    """A leg has the aircraft that its flight had before the exchange."""
    moved = seen.here[_last(seen.here, FLIGHTS, JournalKind.MOVED)]
    first = {row.first: row.payload for row in seen.here if row.queue == FLIGHTS and row.kind is JournalKind.ENQUEUED}
    number, tail, _ = first[moved.first].split(b",", 2)
    here = []
    for row in seen.here:
        if row.queue == LEGS and row.kind is JournalKind.ENQUEUED and row.payload.startswith(number + b","):
            cells = row.payload.split(b",")
            row = row._replace(payload=b",".join([*cells[:2], tail, *cells[3:]]))
        here.append(row)
    return replace(seen, here=here)


PLANTS: Mapping[str, Callable[[Seen], Seen]] = MappingProxyType(
    {
        "half-unit": half_unit,
        "loss": loss,
        "lost-on-its-way": lost_on_its_way,
        "duplicate": duplicate,
        "unit-twice": unit_twice,
        "order-break": order_break,
        "flown-although-cancelled": flown_although_cancelled,
        "unchanged": unchanged,
    }
)

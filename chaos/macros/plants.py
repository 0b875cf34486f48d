"""Spoils what was seen of a good run, one promise each, so that anybody can see that the account notices it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from chaos.demo_journals import Row
from chaos.macros.account import WAITED_MS, whole_of
from chaos.macros.seen import FAR, HIGH, LOW, Seen
from chaos.units.plan import Flight, flight_of
from tandemq.client.journal import JournalKind


def _with_pair(seen: Seen, rows: list[Row]) -> Seen:
    return replace(seen, pair=dict.fromkeys(seen.pair, rows))


def _pair(seen: Seen) -> list[Row]:
    rows, _ = whole_of(seen.pair)
    return list(rows)


def _places(rows: list[Row], kind: JournalKind, queue: str) -> Iterator[int]:
    return (place for place, row in enumerate(rows) if row.kind is kind and row.queue == queue)


def _carrier(row: Row) -> str:
    flight: Flight = flight_of(row.payload)
    return flight.carrier


def loss(seen: Seen) -> Seen:
    """A flight that was acknowledged was never settled."""
    rows = _pair(seen)
    del rows[max(_places(rows, JournalKind.ACKED, HIGH.queue))]
    return _with_pair(seen, rows)


def lost_on_its_way(seen: Seen) -> Seen:
    """A flight never came to the single manager."""
    rows, queue = list(seen.single), FAR.queue
    place = max(_places(rows, JournalKind.ENQUEUED, queue))
    index = rows[place].first
    rows = [row for row in rows if row.queue != queue or row.first != index or row.messages > 1]
    return replace(seen, single=rows)


def duplicate(seen: Seen) -> Seen:
    """A flight came to the single manager twice."""
    rows = list(seen.single)
    row = rows[max(_places(rows, JournalKind.ENQUEUED, FAR.queue))]
    return replace(seen, single=[*rows, row._replace(at=rows[-1].at + 1, first=row.first + 1)])


def dealt_twice(seen: Seen) -> Seen:
    """A batch was dealt anew when it was repeated."""
    rows = _pair(seen)
    row = rows[max(_places(rows, JournalKind.ENQUEUED, HIGH.queue))]
    again = row._replace(at=rows[-1].at + 1, first=row.first + 1)
    return _with_pair(seen, [*rows, again])


def order_break(seen: Seen) -> Seen:
    """Two flights of a carrier changed places on their way."""
    rows, last = list(seen.single), dict[str, int]()
    for place in _places(rows, JournalKind.ENQUEUED, FAR.queue):
        carrier = _carrier(rows[place])
        if carrier in last:
            one, two = rows[last[carrier]], rows[place]
            rows[last[carrier]] = one._replace(payload=two.payload)
            rows[place] = two._replace(payload=one.payload)
            return replace(seen, single=rows)
        last[carrier] = place
    raise LookupError("no carrier has two flights there: this run has nothing to spoil in that way")


def other_member(seen: Seen) -> Seen:
    """A flight was dealt to another member than the others of its carrier."""
    rows = _pair(seen)
    place = max(_places(rows, JournalKind.ENQUEUED, HIGH.queue))
    index = max((row.first for row in rows if row.queue == LOW.queue), default=0) + 1_000_000
    rows[place] = rows[place]._replace(queue=LOW.queue, first=index)
    return _with_pair(seen, rows)


def overtaken(seen: Seen) -> Seen:
    """A message of a lower member was given while one of a higher one was there."""
    rows = _pair(seen)
    low = next(place for place in _places(rows, JournalKind.LEASED, LOW.queue))
    entered = next(
        rows[place] for place in _places(rows, JournalKind.ENQUEUED, LOW.queue) if rows[place].first == rows[low].first
    )
    first = entered.at - 1
    waiting = Row(first, JournalKind.ENQUEUED, HIGH.queue, 1 << 30, 1, b"0", entered.time_ms)
    at = next(place for place, row in enumerate(rows) if row.at >= first)
    return _with_pair(seen, [*rows[:at], waiting, *rows[at:]])


def starved(seen: Seen) -> Seen:
    """A message at the single manager waited for long, while members of the pair that come behind it gave."""
    rows = list(seen.single)
    place = next(_places(rows, JournalKind.LEASED, FAR.queue))
    late_ms = rows[-1].time_ms + 3 * WAITED_MS
    late = [row._replace(time_ms=late_ms) if row.at >= rows[place].at else row for row in rows]
    pair = _pair(seen)
    given = list(_places(pair, JournalKind.LEASED, LOW.queue))
    pair[given[-1]] = pair[given[-1]]._replace(time_ms=late_ms - WAITED_MS // 2)
    return _with_pair(replace(seen, single=late), pair)


PLANTS: Mapping[str, Callable[[Seen], Seen]] = MappingProxyType(
    {
        "loss": loss,
        "lost-on-its-way": lost_on_its_way,
        "duplicate": duplicate,
        "dealt-twice": dealt_twice,
        "order-break": order_break,
        "other-member": other_member,
        "overtaken": overtaken,
        "starved": starved,
    }
)
"""By name."""

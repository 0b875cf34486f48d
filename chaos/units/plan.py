"""Decides from the file alone what is to become of each flight: the model that the account is held against.

A flight is known by its row in the file, from 1. Nothing here has seen a queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

FAILS_EVERY, HOPELESS_EVERY = 50, 500
DELIVERIES_MAX = 3
"""Of a flight: one that fails at first has two more, one for its next turn and one for a worker that dies with it."""
AIRLINE_SHARE_MIN = 400  # the airline that is cancelled has one of so many flights at least
_CARRIER, _NUMBER, _TAIL, _ORIGIN, _DEST, _DISTANCE = 9, 10, 11, 12, 13, 15


class Flight(NamedTuple):
    """One row of the file."""

    row: int
    text: str
    carrier: str
    number: str
    tail: str
    origin: str
    dest: str
    miles: str

    @property
    def fails_at_first(self) -> bool:
        return self.row % FAILS_EVERY == 0

    @property
    def hopeless(self) -> bool:
        return self.row % HOPELESS_EVERY == 0

    @property
    def name(self) -> str:
        """Its correlation id."""
        return f"flight-{self.row}"

    def sent(self, tail: str = "") -> bytes:
        """The message; `tail`: with another aircraft."""
        return f"{self.row},{tail or self.tail},{self.text}".encode()


def flights_of(texts: Sequence[bytes]) -> list[Flight]:
    """Of lines of the file, without its header."""
    found = []
    for row, line in enumerate(texts, 1):
        text = line.decode()
        cells = text.split(",")
        carrier, number, tail, origin, dest = cells[_CARRIER : _DEST + 1]
        found.append(Flight(row, text, carrier, number, tail or "none", origin, dest, cells[_DISTANCE]))
    return found


def flight_of(payload: bytes) -> Flight:
    """As `sent` wrote it, with the aircraft that it has now."""
    row, tail, text = payload.decode().split(",", 2)
    (flight,) = flights_of([text.encode()])
    return flight._replace(row=int(row), tail=tail)


def row_of(payload: bytes) -> int:
    """Of a flight, a leg, or an entry; 0 where it is none of these."""
    digits = payload.partition(b",")[0]
    return int(digits) if digits.isdigit() else 0


def leg_of(flight: Flight) -> bytes:
    """What a unit puts into `legs`."""
    return f"{flight.row},{flight.carrier}{flight.number},{flight.tail},{flight.origin},{flight.dest}".encode()


def entry_of(flight: Flight) -> bytes:
    """What a unit puts into `ledger`."""
    return f"{flight.row},{flight.carrier},{flight.miles}".encode()


def airline_of(flights: Sequence[Flight]) -> str:
    """A small one without a hopeless flight, so that a flight of it has two ends to come to, not three."""
    hopeless = {flight.carrier for flight in flights if flight.hopeless}
    counts = Counter(flight.carrier for flight in flights if flight.carrier not in hopeless)
    enough = [(count, carrier) for carrier, count in counts.items() if count * AIRLINE_SHARE_MIN >= len(flights)]
    if not enough:
        raise ValueError("no airline in these rows is of a size to be cancelled; take more of them")
    return max(enough)[1] if len(flights) < HOPELESS_EVERY * 20 else min(enough)[1]


class Exchange(NamedTuple):
    """Two flights that are to have each other's aircraft, once so many rows were sent."""

    after_rows: int
    first: int
    second: int


def exchanges_of(flights: Sequence[Flight], airline: str, count: int) -> list[Exchange]:
    """Evenly over the file. Two of three are about flights that were sent just now, one about some sent long ago, which
    may have been flown. None is of the airline, and none is hopeless: they would have no leg that shows it.
    """
    found: list[Exchange] = []
    for number in range(1, count + 1):
        after = len(flights) * number // (count + 1)
        back = 5 if number % 3 else after // 2
        fit = [
            flight.row
            for flight in flights[max(after - back - 60, 0) : max(after - back, 0)]
            if flight.carrier != airline and not flight.hopeless and not flight.fails_at_first
        ]
        taken = {row for each in found for row in (each.first, each.second)}
        fit = [row for row in fit if row not in taken]
        pairs = [(one, two) for one in fit[:1] for two in fit[1:] if flights[one - 1].tail != flights[two - 1].tail]
        if pairs:
            found.append(Exchange(after, *pairs[0]))
    return found

"""The account of `make demo-units`, on journals that are written here: a whole one passes, and each promise that is
broken makes it fail by its own count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from chaos.demo_journals import Row
from chaos.units.account import FAIL, PASS, Totals, account, labels_of
from chaos.units.picture import draw
from chaos.units.plan import Exchange, Flight, airline_of, entry_of, exchanges_of, flight_of, flights_of, leg_of
from chaos.units.plants import PLANTS
from chaos.units.seen import CANCEL, DEAD, FLIGHTS, LEDGER, LEGS, REPORTS, XMIT, Answer, Committed, Seen
from tandemq.client.journal import JournalKind
from tandemq.demo.record import Record
from tandemq.demo.rows import flights

FL = flights_of(flights().texts[:1_000])
AIRLINE = airline_of(FL)
MINE = [flight for flight in FL if flight.carrier == AIRLINE]
HALF = MINE[len(MINE) // 2]
EXCHANGES = exchanges_of(FL, AIRLINE, 8)


@dataclass
class Written:
    """A manager that does everything right, and its journal."""

    seen: Seen = field(default_factory=Seen)
    at: int = 0
    last: dict[str, int] = field(default_factory=dict)  # index, by queue
    places: dict[int, tuple[int, str]] = field(default_factory=dict)  # row: index in `flights`, and its aircraft

    def record(self, *rows: Row) -> None:
        self.at += 1
        self.seen.here += [row._replace(at=self.at, time_ms=self.at) for row in rows]

    def entered(self, queue: str, payload: bytes, label: str = "") -> Row:
        self.last[queue] = self.last.get(queue, 0) + 1
        return Row(0, JournalKind.ENQUEUED, queue, self.last[queue], payload=payload, label=label)

    def of(self, kind: JournalKind, flight: Flight) -> Row:
        return Row(0, kind, FLIGHTS, self.places[flight.row][0])

    def send(self, flight: Flight, *, hit: bool = False) -> None:
        """hit: a reaction that is kept finds it on its arrival."""
        entered = self.entered(FLIGHTS, flight.sent())
        self.places[flight.row] = entered.first, flight.tail
        self.record(entered, *([self.of(JournalKind.REMOVED, flight)] if hit else []))
        self.seen.sent.add(flight.row)

    def take(self, flight: Flight) -> None:
        self.record(self.of(JournalKind.LEASED, flight))

    def roll_back(self, flight: Flight) -> None:
        self.record(self.of(JournalKind.RELEASED, flight))

    def commit(self, flight: Flight) -> None:
        flown = flight._replace(tail=self.places[flight.row][1])
        leg, entry = self.entered(LEGS, leg_of(flown)), self.entered(LEDGER, entry_of(flight))
        self.record(self.of(JournalKind.ACKED, flight), leg, entry)
        self.seen.committed.append(Committed(flight.row, leg.first, entry.first))
        self.record(Row(0, JournalKind.ACKED, LEDGER, entry.first), self.entered(XMIT, entry.payload))
        self.seen.there.append(entry._replace(at=entry.first))

    def fly(self, flight: Flight) -> None:
        for _ in range(3 if flight.hopeless else 1 if flight.fails_at_first else 0):
            self.take(flight)
            self.roll_back(flight)
        if flight.hopeless:
            self.record(self.entered(DEAD, flight.sent()), self.of(JournalKind.DEAD_LETTERED, flight))
            return
        self.take(flight)
        self.commit(flight)

    def cancel(self, free: Sequence[Flight], locked: int = 0, *, sticky: bool) -> None:
        removed = [self.of(JournalKind.REMOVED, flight) for flight in free]
        self.record(*removed, self.entered(REPORTS, b"", f"{CANCEL}-1"))
        self.seen.answers.append(Answer(f"{CANCEL}-1", len(free), locked, sticky))

    def exchange(self, exchange: Exchange) -> None:
        for label, (row, tail) in labels_of(FL, [exchange]).items():
            report, flight = self.entered(REPORTS, b"", label), FL[row - 1]
            free = row in self.places and all(row != done.row for done in self.seen.committed)
            if not free:
                self.record(report)
            else:
                moved = self.of(JournalKind.MOVED, flight)
                entered = self.entered(FLIGHTS, flight.sent(tail))
                self.places[row] = entered.first, tail
                self.record(entered, moved, report)
            self.seen.answers.append(Answer(label, int(free), 0))


def run(*, sticky: bool = True) -> Written:
    """100 flights are waiting at any time; the airline is cancelled when half of its flights are sent."""
    written, waiting, cancelled = Written(), list[Flight](), False
    left = list(EXCHANGES)
    for flight in FL:
        hit = cancelled and flight.carrier == AIRLINE
        written.send(flight, hit=hit)
        waiting += [] if hit else [flight]
        if flight is HALF:
            while (held := next_of(written, waiting)).carrier != AIRLINE or held.fails_at_first:
                written.fly(held)
            written.take(held)
            free = [each for each in waiting if each.carrier == AIRLINE]
            written.cancel(free, 1, sticky=sticky)
            waiting = [each for each in waiting if each not in free]
            written.commit(held)
            cancelled = sticky
        while left and left[0].after_rows <= flight.row:
            written.exchange(left.pop(0))
        if len(waiting) > 100:
            written.fly(next_of(written, waiting))
    while waiting:
        written.fly(next_of(written, waiting))
    return written


def next_of(written: Written, waiting: list[Flight]) -> Flight:
    """What is delivered first; an exchanged flight stands behind all that was there."""
    first = min(waiting, key=lambda flight: written.places[flight.row][0])
    waiting.remove(first)
    return first


def judged(seen: Seen) -> tuple[Totals, list[str]]:
    return account(FL, AIRLINE, EXCHANGES, seen)


@pytest.mark.parametrize("sticky", [True, False])
def test_a_whole_run_passes_and_every_flight_is_counted(sticky: bool) -> None:
    seen = run(sticky=sticky).seen
    totals, findings = judged(seen)
    assert findings == []
    assert totals.verdict == PASS
    assert totals.inputs == len(FL) == totals.units_committed + totals.dead_letters + totals.cancelled
    assert totals.legs == totals.ledger == totals.ledger_remote == totals.units_committed
    assert totals.dead_letters == totals.dead_letters_expected == 2
    assert totals.units_rolled_back == sum(FL[unit.row - 1].fails_at_first for unit in seen.committed) + 2 * 3
    assert totals.cancelled == totals.cancelled_expected > (len(MINE) // 2 if sticky else 0)
    assert 0 < totals.changed == totals.changed_expected


FAILS_BY = {
    "half-unit": "half_units",
    "loss": "lost",
    "lost-on-its-way": "lost",
    "duplicate": "duplicates",
    "unit-twice": "duplicates",
    "order-break": "order_breaks",
    "flown-although-cancelled": "lost",
    "unchanged": "lost",
}


@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_each_broken_promise_makes_it_fail_by_its_own_count(plant: str) -> None:
    totals, findings = judged(PLANTS[plant](run().seen))
    assert totals.verdict == FAIL
    assert getattr(totals, FAILS_BY[plant]) > 0, totals
    assert findings


def test_who_had_a_flight_when_its_airline_was_cancelled_decides_what_it_is_to_become() -> None:
    """V13: what comes back after a sticky reaction is cancelled, and nobody is given it again."""

    def again(kind: JournalKind) -> Seen:
        """The lease that a worker had then ends otherwise, and the flight is flown under a later one."""
        seen = run().seen
        report = next(row for row in seen.here if row.label.startswith(CANCEL))
        place, flown = next(
            (place, row) for place, row in enumerate(seen.here) if row.kind is JournalKind.ACKED and row.at > report.at
        )
        ended = flown._replace(kind=kind, queue=FLIGHTS if kind is JournalKind.RELEASED else "")
        later = [row._replace(at=row.at + 2) for row in seen.here[place:]]
        seen.here = [*seen.here[:place], ended, flown._replace(kind=JournalKind.LEASED, at=flown.at + 1), *later]
        return seen

    for kind in (JournalKind.RELEASED, JournalKind.EPOCH_BEGAN):
        totals, findings = judged(again(kind))
        assert totals.verdict == FAIL
        assert totals.cancelled_expected == totals.cancelled + 1
        assert any("to be cancelled" in each for each in findings), findings


def test_what_was_answered_stands_in_the_journal() -> None:
    seen = run().seen
    seen.committed.append(Committed(HALF.row, 1, 1))
    assert judged(seen)[0].lost == 1
    seen = run().seen
    seen.answers[0] = seen.answers[0]._replace(applied=seen.answers[0].applied + 10_000)
    assert judged(seen)[0].verdict == FAIL
    seen = run().seen
    seen.masters_killed = 1
    assert judged(seen)[0].verdict == FAIL, "nobody has taken over"


def test_a_leg_of_another_flight_is_half_a_unit() -> None:
    seen = run().seen
    places = [place for place, row in enumerate(seen.here) if row.queue == LEGS]
    seen.here[places[3]] = seen.here[places[3]]._replace(payload=seen.here[places[9]].payload)
    totals, _ = judged(seen)
    assert totals.half_units >= 1
    assert totals.verdict == FAIL


def test_the_model_of_the_file() -> None:
    flight = FL[41]
    assert flight_of(flight.sent()) == flight
    assert flight_of(flight.sent("N1")) == flight._replace(tail="N1")
    assert [each.row for each in FL if each.hopeless] == [500, 1_000]
    assert not any(flight.hopeless for flight in MINE)
    rows = [row for each in EXCHANGES for row in each[1:]]
    assert len(rows) == len(set(rows)) > 8
    with pytest.raises(ValueError, match="more of them"):
        airline_of(FL[499:500])


def test_the_picture_has_all_of_it() -> None:
    record = Record(("a", "b"), ended_s=3.0)
    record.saw("a", "MASTER", 1, 0.0)
    picture = draw(run().seen, record, 0, "1,000 flights & 3 kills")
    assert "1,000 flights &amp; 3 kills" in picture
    assert all(word in picture for word in ("committed", "rolled back", "cancelled", "exchanged", "second pair"))

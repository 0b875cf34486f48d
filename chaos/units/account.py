"""Decides from what was seen whether units, reactions and the link kept their promises; it never talks to a manager.

What became of a flight is decided by the order of the log alone. Whether one that a worker had is to be cancelled is
no matter of luck: it stands in the journal who had it when the reaction was ordered, and how that lease ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import groupby
from typing import NamedTuple

from chaos.demo_journals import Row
from chaos.units.plan import Exchange, Flight, entry_of, leg_of, row_of
from chaos.units.seen import CANCEL, DEAD, FLIGHTS, LEDGER, LEGS, REPORTS, XMIT, Seen
from tandemq.client.journal import JournalKind

FINDINGS_MAX = 20
PASS, FAIL = "PASS", "FAIL"


class Totals(NamedTuple):
    """`build/demo/units.json`."""

    inputs: int
    units_committed: int
    units_rolled_back: int
    half_units: int
    dead_letters: int
    dead_letters_expected: int
    legs: int
    ledger: int
    ledger_remote: int
    cancelled: int
    cancelled_expected: int
    changed: int
    changed_expected: int
    lost: int
    duplicates: int
    order_breaks: int
    kills: int
    takeovers: int
    verdict: str


class Is(Enum):
    """Where a flight is, between two records."""

    NOT_SENT = auto()
    FREE = auto()
    HELD = auto()
    FLOWN = auto()
    DEAD = auto()
    CANCELLED = auto()


@dataclass(slots=True)
class State:
    """Of one flight."""

    now: Is = Is.NOT_SENT
    times_taken: int = 0
    rolled_back: int = 0
    asked: bool = False
    """A reaction found it free, or is to find it: it is to be cancelled."""
    doomed: bool = False
    """Somebody had it when a sticky reaction was ordered: it is to be cancelled if it comes back."""
    exchanged: bool = False
    """A reaction found it free: it is to have another aircraft."""


@dataclass(slots=True)
class _Account:
    flights: Sequence[Flight]
    airline: str
    tails: dict[str, tuple[int, str]]  # label of a reaction: whose aircraft it changes, and to which
    sticky: dict[str, bool]
    states: dict[int, State] = field(init=False)
    rows: dict[int, int] = field(default_factory=dict)  # index in `flights`: row of the file
    legs: dict[int, int] = field(default_factory=dict)  # index there: row
    ledger: dict[int, int] = field(default_factory=dict)
    leg_texts: dict[int, bytes] = field(default_factory=dict)  # by row
    inputs: list[int] = field(default_factory=list)
    units_committed: int = 0
    units_rolled_back: int = 0
    half_units: int = 0
    takeovers: int = 0
    order_breaks: int = 0
    duplicates: int = 0
    lost: set[int] = field(default_factory=set)
    applied: Counter[str] = field(default_factory=Counter)  # by label: what the journal says that it acted on
    sticky_now: bool = False
    highest_taken: int = 0
    taken_once: set[int] = field(default_factory=set)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states = {flight.row: State() for flight in self.flights}

    def find(self, what: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(what)

    # -- one record after the other ---------------------------------------------------------------------------------

    def take(self, record: Sequence[Row]) -> None:
        for row in record:
            if row.kind is JournalKind.EPOCH_BEGAN:
                self._on_epoch()
        labels = [row.label for row in record if row.queue == REPORTS and row.kind is JournalKind.ENQUEUED]
        moved = self._of(record, FLIGHTS, JournalKind.MOVED)
        for label in labels:
            self._on_reaction(label)
        self._on_entered(record, set(moved))
        removed = self._of(record, FLIGHTS, JournalKind.REMOVED)  # behind it: what a kept reaction finds on arrival
        for label in labels:
            self.applied[label] += len(removed) + len(moved)
        for row in record:
            if row.queue == FLIGHTS and row.kind is JournalKind.LEASED:
                self._on_leased(row)
        for each in removed:
            self._ends(each, Is.CANCELLED)
        for each in self._of(record, FLIGHTS, JournalKind.RELEASED):
            self.states[each].rolled_back += 1
            self._returns(each)
        self.units_rolled_back += any(row.queue == FLIGHTS and row.kind is JournalKind.RELEASED for row in record)
        self._on_unit(record)
        for row in record:
            if row.queue == DEAD and row.kind is JournalKind.ENQUEUED:
                self._ends(row_of(row.payload), Is.DEAD)

    def _of(self, record: Sequence[Row], queue: str, kind: JournalKind) -> list[int]:
        """Rows of the file."""
        found = []
        for row in record:
            if row.queue == queue and row.kind is kind:
                known = {FLIGHTS: self.rows, LEDGER: self.ledger}[queue]
                found += [known.get(index, 0) for index in range(row.first, row.first + row.messages)]
        if 0 in found:
            self.find(f"record {record[0].at}: {kind.name} in {queue} names a message that never entered")
        return [each for each in found if each]

    def _on_epoch(self) -> None:
        self.takeovers += bool(self.inputs)
        for row, state in self.states.items():
            if state.now is Is.HELD:
                self._returns(row)

    def _on_entered(self, record: Sequence[Row], moved: set[int]) -> None:
        for entered in record:
            if entered.queue != FLIGHTS or entered.kind is not JournalKind.ENQUEUED:
                continue
            row = row_of(entered.payload)
            if row not in self.states:
                self.find(f"record {entered.at}: {entered.payload!r} is no flight of the file")
                continue
            self.rows[entered.first] = row
            if row in moved:
                continue
            if self.states[row].now is not Is.NOT_SENT:
                self.duplicates += 1
                self.find(f"record {entered.at}: row {row} entered twice")
                continue
            if self.inputs and row < self.inputs[-1]:
                self.order_breaks += 1
                self.find(f"record {entered.at}: row {row} entered behind row {self.inputs[-1]}")
            self.inputs.append(row)
            self.states[row].now = Is.FREE
            if self.sticky_now and self.flights[row - 1].carrier == self.airline:
                self.states[row].asked = True

    def _on_leased(self, leased: Row) -> None:
        for index in range(leased.first, leased.first + leased.messages):
            row = self.rows.get(index, 0)
            if not row:
                self.find(f"record {leased.at}: a lease of index {index}, where nothing entered")
                continue
            if index not in self.taken_once:
                self.taken_once.add(index)
                if index < self.highest_taken:
                    self.order_breaks += 1
                    self.find(f"record {leased.at}: row {row} was first taken behind later ones")
                self.highest_taken = max(self.highest_taken, index)
            state = self.states[row]
            if state.now is not Is.FREE:
                self.duplicates += 1
                self.find(f"record {leased.at}: row {row} was taken while it was {state.now.name}")
            state.now = Is.HELD
            state.times_taken += 1

    def _returns(self, row: int) -> None:
        state = self.states[row]
        state.now = Is.FREE
        state.asked |= state.doomed

    def _ends(self, row: int, now: Is) -> None:
        state = self.states.get(row)
        if state is None:
            self.find(f"a message that is no flight became {now.name}")
            return
        if state.now in (Is.FLOWN, Is.DEAD, Is.CANCELLED):
            self.duplicates += 1
            self.find(f"row {row} is {now.name}, and was {state.now.name}")
        state.now = now

    def _on_reaction(self, label: str) -> None:
        if label.startswith(CANCEL):
            self.sticky_now |= self.sticky.get(label, False)
            for flight in self.flights:
                state = self.states[flight.row]
                if flight.carrier != self.airline:
                    continue
                state.asked |= state.now is Is.FREE
                state.doomed |= self.sticky_now and state.now is Is.HELD
        elif label in self.tails:
            state = self.states[self.tails[label][0]]
            state.exchanged |= state.now is Is.FREE
        else:
            self.find(f"a report of a reaction {label!r} that nobody has asked for")

    def _on_unit(self, record: Sequence[Row]) -> None:
        flown = self._of(record, FLIGHTS, JournalKind.ACKED)
        legs, entries, onward = (
            [row for row in record if row.queue == queue and row.kind is JournalKind.ENQUEUED]
            for queue in (LEGS, LEDGER, XMIT)
        )
        posted = self._of(record, LEDGER, JournalKind.ACKED)
        self.units_committed += bool(flown)
        rows = [[row_of(row.payload) for row in each] for each in (legs, entries, onward)]
        if not (flown == rows[0] == rows[1] and posted == rows[2]):
            self.half_units += 1
            self.find(
                f"record {record[0].at}: flights {flown}, legs {rows[0]}, ledger {rows[1]}; {posted} to {rows[2]}"
            )
        for row, leg in zip(rows[0], legs, strict=True):
            self.legs[leg.first] = row
            self.leg_texts[row] = leg.payload
        for row, entry in zip(rows[1], entries, strict=True):
            self.ledger[entry.first] = row
            if 0 < row <= len(self.flights) and entry.payload != entry_of(self.flights[row - 1]):
                self.lost.add(row)
                self.find(f"the entry of row {row} is {entry.payload!r}")
        for row in flown:
            self._ends(row, Is.FLOWN)

    # -- at the end ---------------------------------------------------------------------------------------------------

    def check_fates(self) -> None:
        for flight in self.flights:
            state = self.states[flight.row]
            if state.now not in (Is.FLOWN, Is.DEAD, Is.CANCELLED):
                self.lost.add(flight.row)
                self.find(f"row {flight.row} is {state.now.name} at the end")
            if (state.now is Is.CANCELLED) != state.asked:
                self.find(
                    f"row {flight.row} is {state.now.name}, and was{' ' if state.asked else ' not '}to be cancelled"
                )
            if (state.now is Is.DEAD) != (flight.hopeless and not state.asked):
                self.find(f"row {flight.row} is {state.now.name}, and its way was to end otherwise")
            if state.now is Is.FLOWN and flight.fails_at_first and not state.rolled_back:
                self.find(f"row {flight.row} was to fail at first, and was never rolled back")

    def changed(self) -> int:
        """Flights whose leg has the aircraft of an exchange; each leg is compared with what its flight was to be."""
        count = 0
        tails = dict(self.tails.values())
        for row, text in self.leg_texts.items():
            if not 0 < row <= len(self.flights):
                continue
            flight = self.flights[row - 1]
            other = leg_of(flight._replace(tail=tails[row])) if row in tails else b""
            count += text == other
            if text != (other if self.states[row].exchanged else leg_of(flight)):
                self.find(f"the leg of row {row} is {text!r}")
                if text != other:
                    self.lost.add(row)
        return count

    def count_twice(self, what: str, rows: Iterable[int]) -> None:
        for row, times in Counter(rows).items():
            if times > 1:
                self.duplicates += times - 1
                self.find(f"row {row} is {times} times in {what}")

    def check_order(self, what: str, rows: Iterable[int], wanted: Sequence[int]) -> None:
        places = {row: place for place, row in enumerate(wanted)}
        highest = -1
        for row in rows:
            place = places.get(row, -1)
            if 0 <= place < highest:
                self.order_breaks += 1
                self.find(f"row {row} is out of order in {what}")
            highest = max(highest, place)


def labels_of(flights: Sequence[Flight], exchanges: Sequence[Exchange]) -> dict[str, tuple[int, str]]:
    """For each reaction that changes an aircraft, by its label: which row, and to which."""
    found = {}
    for first, second in ((each.first, each.second) for each in exchanges):
        found[f"exchange-{first}"] = first, flights[second - 1].tail
        found[f"exchange-{second}"] = second, flights[first - 1].tail
    return found


def account(
    flights: Sequence[Flight], airline: str, exchanges: Sequence[Exchange], seen: Seen
) -> tuple[Totals, list[str]]:
    """The totals, and what is wrong in words, the first of it."""
    sticky = {answer.label: answer.sticky for answer in seen.answers}
    book = _Account(flights, airline, labels_of(flights, exchanges), sticky)
    for record in _records(seen.here):
        book.take(record)
    book.check_fates()
    changed = book.changed()
    legs, entries = ([rows[index] for index in sorted(rows)] for rows in (book.legs, book.ledger))
    arrived = _check_queues(book, legs, entries, seen.there)
    _check_answers(book, seen)
    states = book.states.values()
    totals = Totals(
        inputs=len(book.inputs),
        units_committed=book.units_committed,
        units_rolled_back=book.units_rolled_back,
        half_units=book.half_units,
        dead_letters=sum(state.now is Is.DEAD for state in states),
        dead_letters_expected=sum(flight.hopeless and not book.states[flight.row].asked for flight in flights),
        legs=len(legs),
        ledger=len(entries),
        ledger_remote=len(arrived),
        cancelled=sum(state.now is Is.CANCELLED for state in states),
        cancelled_expected=sum(state.asked for state in states),
        changed=changed,
        changed_expected=sum(state.exchanged for state in states),
        lost=len(book.lost),
        duplicates=book.duplicates,
        order_breaks=book.order_breaks,
        kills=seen.masters_killed + seen.workers_killed,
        takeovers=book.takeovers,
        verdict=PASS,
    )
    good = not book.findings and _holds(totals, len(flights), seen)
    return totals._replace(verdict=PASS if good else FAIL), book.findings


def _records(rows: Iterable[Row]) -> Iterator[list[Row]]:
    for _, record in groupby(rows, key=lambda row: row.at):
        yield list(record)


def _check_queues(book: _Account, legs: list[int], entries: list[int], there: Sequence[Row]) -> list[int]:
    """All of it is once in each queue and in one order; the rows of the file that are at the second pair."""
    remote = [row for row in there if row.queue == LEDGER and row.kind is JournalKind.ENQUEUED]
    arrived = [row_of(row.payload) for row in sorted(remote, key=lambda row: row.first)]
    for what, rows in ((LEGS, legs), (LEDGER, entries), (f"{LEDGER} of the second pair", arrived)):
        book.count_twice(what, rows)
        book.check_order(what, rows, entries)
    for row in remote:
        number = row_of(row.payload)
        if not 0 < number <= len(book.flights) or row.payload != entry_of(book.flights[number - 1]):
            book.find(f"{row.payload!r} at the second pair is no entry of a flight")
            book.lost.add(number)
    book.lost |= {number for number, state in book.states.items() if state.now is Is.FLOWN} - set(book.leg_texts)
    for number in set(entries) - set(arrived):
        book.lost.add(number)
        book.find(f"the entry of row {number} is not at the second pair")
    for number in set(arrived) - set(entries):
        book.find(f"an entry of row {number} is at the second pair, and was never in {LEDGER}")
    return arrived


def _check_answers(book: _Account, seen: Seen) -> None:
    """What somebody was answered stands in the journal."""
    for row in sorted(seen.sent - set(book.inputs)):
        book.lost.add(row)
        book.find(f"row {row} was acknowledged, and never entered")
    for unit in seen.committed:
        if (book.legs.get(unit.leg_index), book.ledger.get(unit.entry_index)) != (unit.row, unit.row):
            book.lost.add(unit.row)
            book.find(f"the unit of row {unit.row} was answered as committed, and is not in the journal")
    for answer in seen.answers:
        if book.applied[answer.label] < answer.applied or (
            not answer.sticky and book.applied[answer.label] != answer.applied
        ):
            book.find(f"{answer.label} was answered {answer.applied}, and acted on {book.applied[answer.label]}")


def _holds(totals: Totals, rows: int, seen: Seen) -> bool:
    ended = totals.units_committed + totals.dead_letters + totals.cancelled
    return (
        totals.inputs == ended == rows
        and totals.legs == totals.ledger == totals.ledger_remote == totals.units_committed
        and totals.dead_letters == totals.dead_letters_expected
        and totals.cancelled == totals.cancelled_expected
        and totals.changed == totals.changed_expected
        and not any((totals.half_units, totals.lost, totals.duplicates, totals.order_breaks))
        and totals.takeovers >= seen.masters_killed
    )

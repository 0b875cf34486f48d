"""Decides from the journals of all three managers whether macro queues kept their promises; it never talks to one.

What was dealt: a carrier has one member between two changes of the members, and a change moves only to the member that
was added, or from the one that was removed. What was given: of two members of the pair never the lower one where the
higher one had a message that was certainly committed; across managers, whose order no log knows, never for ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from chaos.demo_journals import Row
from chaos.macros.seen import FIRST, MEMBERS, Member, Sample, Seen
from chaos.units.plan import Flight, row_of
from tandemq.client.journal import JournalKind

PASS, FAIL = "PASS", "FAIL"
FINDINGS_MAX = 20
MANAGERS = 3
WAITED_MS = 10_000
"""No message waits so long while a lower member gives something, and all managers are there."""
RECOVERY_MS = 5_000
"""After a manager is back: what others held of it returns when the leases end."""
RETURNS = frozenset((JournalKind.RELEASED, JournalKind.LEASE_ENDED))


class Totals(NamedTuple):
    """`build/demo/macro.json`."""

    rows: int
    sent: int
    acknowledged: int
    received: int
    settled: int
    lost: int
    duplicates: int
    order_breaks: int
    policy_breaks: int
    members: int
    remote_members: int
    kills: int
    reopened: int
    longest_pause_ms: int
    choices: dict[str, int]
    verdict: str


class Wait(NamedTuple):
    """How long a message could have been given."""

    since_ms: int
    until_ms: int


class Given(NamedTuple):
    """When a member gave something, or what it had given was settled."""

    at_ms: int
    member: Member


@dataclass(slots=True)
class _Shelf:
    """One queue, as the rows of its manager's journal have made it so far."""

    rows: dict[int, int] = field(default_factory=dict)
    """Flight by index."""
    came: set[int] = field(default_factory=set)
    """Flights."""
    entered: dict[int, int] = field(default_factory=dict)
    """Record by index."""
    ready: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By index since which record and time, the oldest first."""
    leased_once: set[int] = field(default_factory=set)
    highest: int = 0
    last: dict[str, int] = field(default_factory=dict)
    """Flight that entered last, by carrier."""
    waits: list[Wait] = field(default_factory=list)


class _Account:
    """Takes rows of journals and keeps the books."""

    def __init__(self, flights: Sequence[Flight], seen: Seen) -> None:
        self.flights, self.seen = flights, seen
        self.findings: list[str] = []
        self.duplicates = self.order_breaks = self.policy_breaks = 0
        self.dealt: dict[int, Member] = {}
        self.settled: set[int] = set()
        self.given: list[Given] = []
        self.waits: dict[Member, list[Wait]] = {}
        self._homes: list[dict[str, Member]] = [{} for _ in range(len(seen.changes) + 1)]

    def find(self, what: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(what)

    def _carrier(self, row: int) -> str:
        return self.flights[row - 1].carrier if 0 < row <= len(self.flights) else ""

    # -- what is dealt -----------------------------------------------------------------------------------------------

    def _on_dealt(self, row: int, member: Member) -> None:
        if row in self.dealt:
            self.duplicates += 1
            self.find(f"row {row} was dealt to {self.dealt[row].queue}, and again to {member.queue}")
            return
        self.dealt[row] = member
        place = sum(change.after_row < row for change in self.seen.changes)
        problem = self._misdealt(self._carrier(row), member, place)
        if problem:
            self.policy_breaks += 1
            self.find(f"row {row} was dealt to {member.queue}, {problem}")

    def _misdealt(self, carrier: str, member: Member, place: int) -> str:
        """Why the policy would not have; empty: it would."""
        members = set(FIRST)
        for change in self.seen.changes[:place]:
            (members.add if change.is_added else members.discard)(change.member)
        if member not in members:
            return "which is no member then"
        home = self._homes[place].setdefault(carrier, member)
        if home != member:
            return f"and others of {carrier} to {home.queue}"
        before = next((homes[carrier] for homes in reversed(self._homes[:place]) if carrier in homes), member)
        if before == member:
            return ""
        moved = self.seen.changes[:place]
        lawful = any(each.member == (member if each.is_added else before) for each in moved)
        return "" if lawful else f"and others of {carrier} before to {before.queue}, which has not left"

    # -- one journal ---------------------------------------------------------------------------------------------------

    def take(self, rows: Sequence[Row], members: Iterable[Member], *, single: bool) -> None:
        """Of one manager's domain; `single`: of the one that the remote members are at."""
        queues = {member.queue if single else member.enters: member for member in members}
        shelves = {member: _Shelf() for member in queues.values()}
        for row in rows:
            member = queues.get(row.queue)
            if member is None:
                continue
            ends_here = single == member.is_remote
            indexes = range(row.first, row.first + row.messages)
            if row.kind is JournalKind.ENQUEUED:
                self._on_entered(row, member, shelves[member], single=single)
            elif row.kind is JournalKind.LEASED and ends_here:
                self._on_leased(row, member, shelves, single=single)
            elif row.kind in RETURNS and ends_here:
                shelves[member].ready.update((index, (row.at, row.time_ms)) for index in indexes)
            elif row.kind is JournalKind.ACKED and ends_here:
                self._on_settled(row, member, shelves[member], single=single)
        for member, shelf in shelves.items():
            if single == member.is_remote:
                self.waits[member] = shelf.waits

    def _on_entered(self, entered: Row, member: Member, shelf: _Shelf, *, single: bool) -> None:
        row, index = row_of(entered.payload), entered.first
        carrier = self._carrier(row)
        if single:
            if self.dealt.get(row) != member:
                self.policy_breaks += 1
                self.find(f"row {row} came to {member.queue}, and was not dealt to it")
            if row in shelf.came:
                self.duplicates += 1
                self.find(f"row {row} came to {member.queue} twice")
        else:
            self._on_dealt(row, member)
        if row < shelf.last.get(carrier, 0):
            self.order_breaks += 1
            self.find(f"row {row} of {carrier} entered {entered.queue} behind row {shelf.last[carrier]}")
        shelf.came.add(row)
        shelf.last[carrier] = max(row, shelf.last.get(carrier, 0))
        shelf.rows[index], shelf.entered[index] = row, entered.at
        shelf.ready[index] = entered.at, entered.time_ms

    def _on_leased(self, leased: Row, member: Member, shelves: dict[Member, _Shelf], *, single: bool) -> None:
        shelf = shelves[member]
        first = shelf.entered.get(leased.first, 0)
        for index in range(leased.first, leased.first + leased.messages):
            if index not in shelf.leased_once and index < shelf.highest:
                self.order_breaks += 1
                self.find(f"row {shelf.rows.get(index)} was first taken from {member.queue} behind later ones")
            shelf.leased_once.add(index)
            shelf.highest = max(shelf.highest, index)
            _, since_ms = shelf.ready.pop(index, (0, leased.time_ms))
            if leased.time_ms - since_ms >= WAITED_MS:
                shelf.waits.append(Wait(since_ms, leased.time_ms))
        if single:
            return
        self.given.append(Given(leased.time_ms, member))
        for other, its in shelves.items():
            if other.is_remote or other.priority <= member.priority:
                continue
            at, _ = next(iter(its.ready.values()), (first, 0))
            if at < first:
                self.policy_breaks += 1
                self.find(f"record {leased.at} gave of {member.queue}, and {other.queue} had a message of record {at}")

    def _on_settled(self, acked: Row, member: Member, shelf: _Shelf, *, single: bool) -> None:
        if single:
            self.given.append(Given(acked.time_ms, member))
        for index in range(acked.first, acked.first + acked.messages):
            row = shelf.rows.get(index, 0)
            if not row:
                self.find(f"record {acked.at} settles index {index} of {member.queue}, where nothing entered")
            elif row in self.settled:
                self.duplicates += 1
                self.find(f"row {row} was settled twice")
            self.settled.add(row)

    # -- at the end ---------------------------------------------------------------------------------------------------

    def check_waits(self) -> None:
        """By the times of the journals: the clock of one machine."""
        began_ms = self.seen.began_ms
        hurt = [
            (began_ms + 1_000 * fault.at_s, began_ms + 1_000 * fault.over_s + RECOVERY_MS)
            for fault in self.seen.faults
            if fault.over_s is not None
        ]
        long = [(member, wait) for member, waits in self.waits.items() for wait in waits]
        for given in self.given:
            from_ms = given.at_ms - WAITED_MS
            if any(start <= given.at_ms and from_ms <= end for start, end in hurt):
                continue
            for member, wait in long:
                is_higher = member.priority > given.member.priority
                if is_higher and wait.since_ms <= from_ms and given.at_ms < wait.until_ms:
                    self.policy_breaks += 1
                    self.find(f"{given.member.queue} gave, and a message of {member.queue} waited for 10 s")
                    break


def longest_pause_ms(samples: Sequence[Sample]) -> int:
    """The longest time without a message received while some were under way."""
    longest, since_s, before = 0.0, 0.0, -1
    for sample in samples:
        if sample.received != before or sample.received >= sample.sent:
            since_s, before = sample.at_s, sample.received
        longest = max(longest, sample.at_s - since_s)
    return round(1_000 * longest)


def whole_of(journals: dict[str, list[Row]]) -> tuple[list[Row], list[str]]:
    """The longest journal of the members of a pair, and where another one says something else."""
    if not journals:
        return [], ["no journal of the pair was read"]
    rows = max(journals.values(), key=len)
    problems = []
    for name, other in journals.items():
        if not other:
            problems.append(f"the journal of {name} is empty")
            continue
        low, high = max(rows[0].at, other[0].at), min(rows[-1].at, other[-1].at)
        if _between(rows, low, high) != _between(other, low, high):
            problems.append(f"the journal of {name} differs from the other one between records {low} and {high}")
    return rows, problems


def _between(rows: Iterable[Row], low: int, high: int) -> list[Row]:
    return [row for row in rows if low <= row.at <= high]


def account(flights: Sequence[Flight], seen: Seen) -> tuple[Totals, list[str]]:
    """The totals, and what is wrong in words, the first of it."""
    book = _Account(flights, seen)
    rows, problems = whole_of(seen.pair)
    for problem in problems:
        book.find(problem)
    book.take(rows, MEMBERS, single=False)
    book.take(seen.single, [each for each in MEMBERS if each.is_remote], single=True)
    book.check_waits()
    lost = sorted(seen.acknowledged - book.settled)
    for row in lost[:FINDINGS_MAX]:
        book.find(f"row {row} was acknowledged, and never settled")
    used = set(book.dealt.values())
    totals = Totals(
        rows=len(flights),
        sent=seen.sent,
        acknowledged=len(seen.acknowledged),
        received=len(seen.received),
        settled=len(book.settled),
        lost=len(lost),
        duplicates=book.duplicates,
        order_breaks=book.order_breaks,
        policy_breaks=book.policy_breaks,
        members=len(used),
        remote_members=sum(each.is_remote for each in used),
        kills=seen.kills,
        reopened=seen.reopened,
        longest_pause_ms=longest_pause_ms(seen.samples),
        choices=seen.choices,
        verdict=PASS,
    )
    good = not book.findings and _holds(totals, seen)
    return totals._replace(verdict=PASS if good else FAIL), book.findings


def _holds(totals: Totals, seen: Seen) -> bool:
    killed = {fault.member for fault in seen.faults if fault.over_s is not None}
    return (
        totals.rows == totals.sent == totals.acknowledged == totals.received == totals.settled
        and not any((totals.lost, totals.duplicates, totals.order_breaks, totals.policy_breaks))
        and (totals.members, totals.kills, len(killed)) == (len(MEMBERS), MANAGERS, MANAGERS)
        and [change.is_added for change in seen.changes] == [False, True]
        and totals.reopened > 0
        and sum(totals.choices.values()) > 0
    )


def settled_over_time(seen: Seen, bucket_ms: int) -> Iterator[tuple[Member, dict[int, int]]]:
    """For each member, how many of its messages were settled in each stretch of time."""
    rows, _ = whole_of(seen.pair)
    for member in MEMBERS:
        source = seen.single if member.is_remote else rows
        acked = [row for row in source if row.queue == member.queue and row.kind is JournalKind.ACKED]
        places = groupby(acked, key=lambda row: max(0, row.time_ms - seen.began_ms) // bucket_ms)
        counts: dict[int, int] = {}
        for place, each in places:
            counts[place] = counts.get(place, 0) + sum(row.messages for row in each)
        yield member, counts

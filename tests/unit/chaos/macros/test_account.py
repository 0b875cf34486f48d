"""The account of `make demo-macro`, on journals that are written here: a whole run passes, and each promise that is
broken is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.demo_journals import Row
from chaos.macros.account import FAIL, PASS, account, longest_pause_ms
from chaos.macros.picture import draw
from chaos.macros.plants import PLANTS
from chaos.macros.seen import ADDED, DESTROYED, FAR, FIRST, HIGH, MEMBERS, Change, Fault, Member, Sample, Seen
from chaos.units.plan import Flight
from tandemq.client.journal import JournalKind

ROWS = 60
LEAVES_AFTER, COMES_AFTER = 20, 40
CARRIERS = {f"C{number}": member for number, member in enumerate(FIRST)}
STEP_MS = 100


def flight(row: int) -> Flight:
    carrier = f"C{row % len(FIRST)}"
    text = ",".join(["x"] * 9 + [carrier, "1", "T", "A", "B", "1", "100"])
    return Flight(row, text, carrier, "1", "T", "A", "B", "100")


FLIGHTS = [flight(row) for row in range(1, ROWS + 1)]


def member_of(row: int) -> Member:
    member = CARRIERS[FLIGHTS[row - 1].carrier]
    if row > COMES_AFTER and member == HIGH:
        return ADDED
    return FAR if row > LEAVES_AFTER and member == DESTROYED else member


class Journal:
    """Of one manager: each flight enters, is taken and settled before the next one."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._ends: dict[str, int] = {}

    def through(self, queue: str, payload: bytes, at_ms: int) -> None:
        index = self._ends[queue] = self._ends.get(queue, 0) + 1
        for kind in (JournalKind.ENQUEUED, JournalKind.LEASED, JournalKind.ACKED):
            body = payload if kind is JournalKind.ENQUEUED else b""
            self.rows.append(Row(len(self.rows) + 10, kind, queue, index, 1, body, at_ms))


def good() -> Seen:
    pair, single = Journal(), Journal()
    for each in FLIGHTS:
        member, at_ms = member_of(each.row), STEP_MS * each.row
        pair.through(member.enters, each.sent(), at_ms)
        if member.is_remote:
            single.through(member.queue, each.sent(), at_ms)
    rows = set(range(1, ROWS + 1))
    return Seen(
        pair={"a": pair.rows, "b": pair.rows[:-4]},
        single=single.rows,
        sent=ROWS,
        acknowledged=rows,
        received=set(rows),
        changes=[Change(LEAVES_AFTER, DESTROYED, is_added=False), Change(COMES_AFTER, ADDED, is_added=True)],
        choices={"POLICY": 3},
        reopened=1,
        kills=3,
        faults=[Fault(1, "killed", name, 2) for name in ("a", "west", "b")],
        samples=[Sample(0, 0, 0), Sample(1, ROWS, ROWS)],
    )


def test_a_good_run_passes() -> None:
    totals, findings = account(FLIGHTS, good())
    assert findings == []
    assert (totals.verdict, totals.settled, totals.members, totals.remote_members) == (PASS, ROWS, len(MEMBERS), 3)


@pytest.mark.parametrize(
    ("plant", "counter"),
    [
        ("loss", "lost"),
        ("lost-on-its-way", "lost"),
        ("duplicate", "duplicates"),
        ("dealt-twice", "duplicates"),
        ("order-break", "order_breaks"),
        ("other-member", "policy_breaks"),
        ("overtaken", "policy_breaks"),
        ("starved", "policy_breaks"),
    ],
)
def test_a_planted_fault_is_counted(plant: str, counter: str) -> None:
    totals, findings = account(FLIGHTS, PLANTS[plant](good()))
    assert totals.verdict == FAIL
    assert getattr(totals, counter) > 0
    assert findings


def test_every_plant_is_tried() -> None:
    (mark,) = test_a_planted_fault_is_counted.pytestmark  # type: ignore[attr-defined]  # of pytest
    assert {name for name, _ in mark.args[1]} == set(PLANTS)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda seen: replace(seen, sent=ROWS - 1),
        lambda seen: replace(seen, acknowledged=seen.acknowledged - {7}),
        lambda seen: replace(seen, received=seen.received - {7}),
        lambda seen: replace(seen, kills=2),
        lambda seen: replace(seen, faults=seen.faults[:2]),
        lambda seen: replace(seen, reopened=0),
        lambda seen: replace(seen, choices={}),
        lambda seen: replace(seen, changes=seen.changes[:1]),
        lambda seen: replace(seen, pair={}),
        lambda seen: replace(seen, pair={"a": seen.pair["a"], "b": []}),
        lambda seen: replace(seen, pair={"a": seen.pair["a"], "b": [*seen.pair["a"][:-5], *seen.pair["a"][-4:]]}),
    ],
)
def test_a_run_in_which_something_did_not_happen_is_no_pass(spoil: Callable[[Seen], Seen]) -> None:
    assert account(FLIGHTS, spoil(good()))[0].verdict == FAIL


def test_what_comes_to_a_queue_that_it_was_not_dealt_to_is_against_the_policy() -> None:
    seen = good()
    place = next(place for place, row in enumerate(seen.single) if row.queue == FAR.queue)
    moved = [row._replace(queue=ADDED.queue, first=99) if at == place else row for at, row in enumerate(seen.single)]
    totals, _ = account(FLIGHTS, replace(seen, single=moved))
    assert totals.policy_breaks > 0


def test_a_change_moves_no_other_carrier() -> None:
    seen = good()
    seen.changes = [Change(LEAVES_AFTER, DESTROYED, is_added=False), Change(50, ADDED, is_added=True)]
    totals, findings = account(FLIGHTS, seen)
    assert totals.policy_breaks == 2, "two flights were dealt to a member before it was added"
    assert "which is no member then" in findings[0]


def test_a_pause_counts_while_messages_are_under_way() -> None:
    seen = [Sample(0, 5, 0), Sample(1, 5, 3), Sample(3, 5, 3), Sample(4, 5, 5), Sample(60, 5, 5)]
    assert longest_pause_ms(seen) == 2_000


def test_the_picture_names_members_and_faults() -> None:
    picture = draw(good(), "60 flights")
    for text in ("killed west", "//west/gates.d, priority 7", "60 flights"):
        assert text in picture

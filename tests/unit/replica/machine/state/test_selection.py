"""Which message is the k-th (K3): looked up by runs, as a row of all of them would say it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replica.machine.state.selection import SelectedRun, SideOrder

Runs = list[tuple[int, int]]


def records(draw: st.DrawFn) -> list[Runs]:
    """What each SELECT takes, of 60 messages of which each is taken once."""
    indexes = draw(st.permutations(range(1, 61)).map(lambda found: found[: draw(st.integers(0, 60))]))
    cuts = sorted({0, len(indexes), *draw(st.lists(st.integers(0, len(indexes)), max_size=6))})
    parts = [indexes[low:high] for low, high in pairwise(cuts)]
    is_sorted = draw(st.booleans())  # long runs are what the master takes
    return [list(runs_of(sorted(part) if is_sorted else part)) for part in parts]


def runs_of(indexes: list[int]) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(indexes):
        low = at
        while at + 1 < len(indexes) and indexes[at + 1] == indexes[at] + 1:
            at += 1
        yield indexes[low], indexes[at] + 1
        at += 1


def expected(row: list[int], first: int, low: int, below: int) -> list[SelectedRun]:
    """`row`: all by number, from `first` on."""
    low, below = max(low, first), min(below, first + len(row))
    found, number = [], low
    for start, end in runs_of(row[max(0, low - first) : max(0, below - first)]):
        found.append(SelectedRun(number, start, end))
        number += end - start
    return found


@given(st.composite(records)(), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=8), st.data())
def test_runs_are_those_of_the_row(taken: list[Runs], asked: list[tuple[int, int]], data: st.DataObject) -> None:
    order, row, first = SideOrder(), list[int](), 1
    for log_index, runs in enumerate(taken, 10):
        order.add(log_index, runs)
        row += [index for start, end in runs for index in range(start, end)]
        passed = data.draw(st.integers(first - 1, first + len(row) - 1))
        order.forget(passed)
        row, first = row[passed + 1 - first :], passed + 1
        again = SideOrder.from_columns(order.first, order.lease_id, order.columns())
        assert (order.first, order.following) == (first, first + len(row)) == (again.first, again.following)
        for low, below in [(0, order.following), *asked]:
            assert list(order.runs(low, below)) == expected(row, first, low, below) == list(again.runs(low, below))


def test_what_is_known_of_long_runs_is_no_more_for_more_messages() -> None:
    """A record takes thousands of neighbours, and every side looks them up three times."""
    order, looked = SideOrder(), 0

    class Row(list[int]):
        def __getitem__(self, at: object) -> int:  # type: ignore[override]  # one of them alone is read
            nonlocal looked
            looked += 1
            return super().__getitem__(at)  # type: ignore[index,return-value]

    order.add(1, [(1, 5_001), (7_001, 9_001)])
    order._indexes = Row(order._indexes)  # type: ignore[assignment]
    assert list(order.runs(11, 6_001)) == [(11, 11, 5_001), (5_001, 7_001, 8_001)]
    assert looked == 2

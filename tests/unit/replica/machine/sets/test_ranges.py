"""RangeSet against a set of integers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica.machine.sets import pages
from replica.machine.sets import ranges as sets
from replica.machine.sets.pages import PagedSet
from replica.machine.sets.ranges import RangeSet, Run

runs = st.tuples(st.integers(0, 60), st.integers(1, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
steps = st.lists(st.tuples(st.sampled_from(["add", "discard", "pop"]), runs), max_size=40)


def as_runs(values: set[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for value in sorted(values):
        if found and found[-1][1] == value:
            found[-1] = found[-1][0], value + 1
        else:
            found.append((value, value + 1))
    return found


def popped_from(ranges: RangeSet, size: int, below: int) -> list[tuple[int, int]]:
    """As a lease takes them: the lowest ones, at most so many, below a bound."""
    found = []
    for start, end in ranges.runs(0, below):
        end = min(end, start + size)
        size -= end - start
        found.append((start, end))
        if not size:
            break
    for start, end in found:
        ranges.remove(start, end)
    return found


@pytest.mark.parametrize("share", [0, 8])
@given(st.lists(runs, max_size=20), st.lists(runs, max_size=20))
def test_what_two_sets_have_in_common(share: int, ours: list[Run], theirs: list[Run]) -> None:
    """Stepping through both, or looking for the runs of the smaller one."""
    one, two = RangeSet(), RangeSet()
    for made, given_runs in ((one, ours), (two, theirs)):
        for start, end in given_runs:
            made.discard(start, end)
            made.add(start, end)
    paged = PagedSet(two)
    expected = as_runs({value for run in one for value in range(*run) if value in two})
    before = sets.WALK_SHARE, pages.WALK_SHARE
    sets.WALK_SHARE = pages.WALK_SHARE = share
    try:
        found = [list(one.common(two)), list(two.common(one)), list(paged.common(one))]
    finally:
        sets.WALK_SHARE, pages.WALK_SHARE = before
    assert [as_runs({value for run in each for value in range(*run)}) for each in found] == [expected] * 3
    assert found[0] == expected
    assert one.run_count == len(list(one))


@settings(max_examples=300, deadline=None)
@given(steps, runs)
def test_behaves_as_a_set_of_integers(taken, asked):
    ranges, model = RangeSet(), set()
    for kind, (start, end) in taken:
        run = set(range(start, end))
        if kind == "add":
            for low, high in list(ranges.gaps(start, end)):
                ranges.add(low, high)
            model |= run
        elif kind == "discard":
            assert ranges.discard(start, end) == len(model & run)
            model -= run
        else:
            size, below = end - start, start
            popped = {value for low, high in popped_from(ranges, size, below) for value in range(low, high)}
            assert popped == set(sorted(value for value in model if value < below)[:size])
            model -= popped
        assert list(ranges) == as_runs(model)
        assert ranges.size == len(model)
    start, end = asked
    within = model & set(range(start, end))
    assert list(ranges.runs(start, end)) == as_runs(within)
    assert list(ranges.gaps(start, end)) == as_runs(set(range(start, end)) - within)
    assert ranges.count(start, end) == len(within)
    assert ranges.covers(start, end) == (len(within) == end - start)
    assert (start in ranges) == (start in model)
    # Equal sets are equal bytes, whatever happened before.
    assert ranges.edges() == RangeSet(as_runs(model)).edges()
    assert RangeSet.from_edges(ranges.edges()).size == len(model)


def test_consuming_from_the_front_and_returning_there_moves_nothing_else():
    ranges = RangeSet((10 * at, 10 * at + 5) for at in range(5_000))
    for at in range(5_000):
        assert popped_from(ranges, 5, 1 << 62) == [(10 * at, 10 * at + 5)]
        if at % 3 == 0:
            ranges.add(10 * at, 10 * at + 5)
            ranges.remove(10 * at, 10 * at + 5)
    assert not ranges


def test_adding_twice_and_removing_what_is_not_there_are_broken_invariants():
    ranges = RangeSet([(1, 5), (8, 9)])
    for start, end in ((4, 6), (3, 8), (0, 20), (2, 3)):
        with pytest.raises(AssertionError):
            RangeSet(ranges).add(start, end)
    with pytest.raises(AssertionError):
        ranges.remove(4, 6)


def test_a_front_that_is_gone_is_given_back(monkeypatch):
    """Runs that leave at the front move nothing, until more than half of the column and the slack are of them."""
    monkeypatch.setattr(sets, "_SLACK_EDGES", 8)
    ranges, longest = RangeSet(), 0
    for at in range(200):
        ranges.add(10 * at, 10 * at + 5)
        if at >= 10:
            assert ranges.first == 10 * (at - 10)
            ranges.remove(ranges.first, ranges.first + 5)
        longest = max(longest, len(ranges._edges))
    assert list(ranges) == [(10 * at, 10 * at + 5) for at in range(190, 200)]
    assert longest <= 2 * (2 * 10) + 8 + 2, "ten runs are there at most"
    assert ranges == RangeSet(ranges)
    assert ranges != RangeSet([(1, 2)])
    assert ranges != list(ranges)
    assert repr(RangeSet([(1, 2)])) == "RangeSet([(1, 2)])"


def test_nothing_of_a_run_that_begins_where_it_ends():
    ranges = RangeSet([(5, 9)])
    assert (ranges.count(6, 6), ranges.discard(6, 6), ranges.count(7, 6), ranges.size) == (0, 0, 0, 4)
    assert list(ranges.gaps(5, 9)) == []
    assert list(ranges.gaps(9, 9)) == []

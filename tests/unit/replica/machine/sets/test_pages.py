"""A paged set is a set of integers: against Python's own, with pages that begin and end in the middle of runs."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from replica.machine.sets.pages import PagedSet
from replica.machine.sets.ranges import RangeSet, Run
from tests.support import profiles

PAGE = 4096
edges = st.sampled_from(
    [near + off for near in (0, PAGE, 2 * PAGE, 9 * PAGE) for off in (-2, -1, 0, 1, 2, 3) if near + off > 0]
)
runs = st.tuples(edges, edges).filter(lambda run: run[0] < run[1])


@profiles.of(200)
@given(st.lists(st.tuples(st.booleans(), runs), max_size=12), runs)
def test_it_holds_what_was_added_and_not_taken_out(
    steps: list[tuple[bool, tuple[int, int]]], asked: tuple[int, int]
) -> None:
    made, known = PagedSet(), RangeSet()
    for adds, (start, end) in steps:
        if adds:
            for low, high in list(known.gaps(start, end)):
                made.add(low, high)
                known.add(low, high)
        else:
            assert made.discard(start, end) == known.discard(start, end)
    assert (made.size, bool(made)) == (known.size, bool(known))
    assert made.edges() == known.edges()
    assert list(made) == list(known)
    assert RangeSet(made.runs(*asked)) == RangeSet(known.runs(*asked))
    assert PagedSet(known).edges() == known.edges(), "equal, whatever happened to them before"
    for value in {edge + off for run in known for edge in run for off in (-1, 0)}:
        assert (value in made) == (value in known)
    if known.size:
        assert made.first == known.first


def test_long_runs_are_cheap() -> None:
    made = PagedSet([(1, 1 << 22)])
    assert list(made) == [(1, 1 << 22)]
    assert made.discard(5, 6) == 1
    assert sum(high - low for low, high in made.runs(0, 1 << 63)) == made.size == (1 << 22) - 2


def test_the_first_runs_cost_no_walk_over_all_pages() -> None:
    class Page(RangeSet):
        looked = 0

        def __iter__(self) -> Iterator[Run]:
            Page.looked += 1
            return super().__iter__()

    made = PagedSet((start, start + 1) for start in range(1, 100 * PAGE, 64))
    made._pages = {number: Page(page) for number, page in made._pages.items()}
    assert next(iter(made)) == (1, 2)
    assert Page.looked == 1
    assert len(list(made)) == 100 * PAGE // 64

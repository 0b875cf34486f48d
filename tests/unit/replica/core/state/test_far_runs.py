"""Which messages of another manager are left where it says that some of them are leased no more."""

from __future__ import annotations

import random

import pytest

from replica.core.state.far_runs import FarRun, Gone, left_of
from tandemq.v1.message_pb2 import DeliveredSegment, MessageBatch

BATCH = MessageBatch(payloads=[b"x"] * 10)


def run_of(*indexes: int, first: int = 1) -> FarRun:
    """Of ten messages: by these indexes, or by neighbours from `first` on."""
    segment = DeliveredSegment(indexes=indexes, first_index=0 if indexes else first)
    return FarRun(7, segment, BATCH, 0, 10, 4)


def indexes_in(runs: list[FarRun]) -> list[int]:
    return [run.index_at(place) for run in runs for place in range(run.start, run.end)]


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ([], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ([(1, 1), (10, 1)], [2, 3, 4, 5, 6, 7, 8, 9]),
        ([(4, 2), (2, 1)], [1, 3, 6, 7, 8, 9, 10]),
        ([(2, 8), (3, 1)], [1, 10]),
        ([(3, 1), (2, 8), (5, 2)], [1, 10]),
        ([(5, (1 << 64) - 1)], [1, 2, 3, 4]),
        ([(0, 11)], []),
        ([(11, 5), (3, 0)], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_what_is_in_no_range_is_left_however_they_overlap(gone: list[tuple[int, int]], left: list[int]) -> None:
    assert indexes_in(left_of([run_of()], gone)) == left


def test_what_is_left_is_of_as_few_runs_as_there_are_gaps() -> None:
    assert [(run.start, run.end) for run in left_of([run_of()], [(4, 2), (8, 1)])] == [(0, 3), (5, 7), (8, 10)]


def test_indexes_that_are_no_neighbours_are_looked_at_one_by_one() -> None:
    run = run_of(*range(10, 110, 10))
    assert indexes_in(left_of([run], [(15, 20), (100, 1)])) == [10, 40, 50, 60, 70, 80, 90]


def test_any_ranges_hold_what_each_of_them_holds() -> None:
    dice = random.Random(7)
    for _ in range(200):
        ranges = [(dice.randrange(60), dice.randrange(12)) for _ in range(dice.randrange(8))]
        held = {first + place for first, count in ranges for place in range(count)}
        assert [index in Gone(ranges) for index in range(80)] == [index in held for index in range(80)]

"""Runs with values: against a dict, and what they cost when they end in any order."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica.machine.sets import spans
from replica.machine.sets.spans import Spans

OPERATIONS = st.lists(
    st.tuples(st.booleans(), st.integers(1, 60), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=60
)


@pytest.fixture(params=[2, 4, 1_024])
def block_rows(request, monkeypatch):
    """Small blocks split and go with few rows."""
    monkeypatch.setattr(spans, "BLOCK_ROWS", request.param)


@given(operations=OPERATIONS)
@settings(max_examples=300)
def run_against_a_dict(operations):
    made, model = Spans(), {}
    for adds, start, length, value in operations:
        end = start + length
        if adds and not any(index in model for index in range(start, end)):
            made.add(start, end, value)
            model |= dict.fromkeys(range(start, end), value)
        elif not adds:
            begun, starts = [], [low for low, _, _ in made]
            gone = [index for index in range(start, end) if index in model]
            assert made.take(start, end, begun) == len(gone)
            for index in gone:
                del model[index]
            assert begun == [row for row in made if row[0] == end and end not in starts]
        check(made, model)


def check(made, model):
    rows = list(made)
    assert {index: value for low, high, value in rows for index in range(low, high)} == model
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert made.size == len(model)
    assert bool(made) == bool(model)
    for start, end in ((1, 70), (5, 20), (30, 31)):
        inside = [index for index in range(start, end) if index in model]
        assert [index for low, high in made.runs(start, end) for index in range(low, high)] == inside
    again = Spans.from_columns(made.columns())
    assert (list(again), again.size) == (rows, made.size)


@pytest.mark.slow
def test_it_is_a_dict_of_runs(block_rows):
    run_against_a_dict()


def test_neighbours_of_one_value_are_one_row():
    made = Spans()
    assert made.add(1, 5, 7)
    assert not made.add(5, 9, 7)
    assert made.add(9, 10, 8)
    assert list(made) == [(1, 9, 7), (9, 10, 8)]


@pytest.mark.slow
def test_rows_may_end_in_any_order():
    """A column in one piece would move megabytes for each of them."""
    made, count = Spans(), 200_000
    for index in range(count):
        made.add(index, index + 1, index % 1_000 + index)
    order = list(range(count))
    random.Random(1).shuffle(order)
    began = time.process_time()
    for index in order:
        assert made.take(index, index + 1) == 1
    assert time.process_time() - began < 5  # 0.6 s where this was written; quadratic would be minutes
    assert not made

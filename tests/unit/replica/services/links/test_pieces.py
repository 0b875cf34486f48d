"""A batch is read piece by piece, and is the same batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replica.services.links.carrier import PIECE, pieces_of


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3 * PIECE)), max_size=6))
def test_pieces_are_short_and_together_what_was_asked_for(steps: list[tuple[int, int]]) -> None:
    runs, at = list[tuple[int, int]](), 0
    for gap, count in steps:
        runs.append((at + gap, at + gap + count))
        at += gap + count
    pieces = list(pieces_of(runs))
    assert all(0 < sum(part.count for part in piece) <= PIECE for piece in pieces)
    assert all(sum(part.count for part in piece) == PIECE for piece in pieces[:-1])
    seen = [index for piece in pieces for part in piece for index in range(part.first, part.first + part.count)]
    assert seen == [index for start, end in runs for index in range(start, end)]

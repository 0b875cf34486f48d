"""Which record a message stands in, beyond one block and with holes."""

from __future__ import annotations

from array import array

import pytest

from replica.machine.state.segments import BLOCK_ROWS, Segments, extra_of


def filled(segments: int, count: int = 2) -> Segments:
    made = Segments()
    for at in range(segments):
        made.append(1 + at * count, 10 + 3 * at, count, 100 * count)
    return made


def test_locates_in_any_block():
    made = filled(3 * BLOCK_ROWS)
    for index in (1, 2, 3, 2 * BLOCK_ROWS, 2 * BLOCK_ROWS + 1, 6 * BLOCK_ROWS):
        assert made.locate(index) == (10 + 3 * ((index - 1) // 2), (index - 1) % 2)
    assert made.locate(6 * BLOCK_ROWS + 1) is None
    assert made.locate(0) is None


@pytest.mark.parametrize("keep_every", [2, 7, BLOCK_ROWS, 5 * BLOCK_ROWS])
def test_settled_rows_give_their_space_back_whatever_is_left(keep_every):
    made, freed = filled(4 * BLOCK_ROWS), []
    left = {}
    for at in range(4 * BLOCK_ROWS):
        if at % keep_every:
            assert made.take(1 + 2 * at, 3 + 2 * at, freed) == 200
        else:
            left[1 + 2 * at] = 10 + 3 * at
    assert freed == [10 + 3 * at for at in range(4 * BLOCK_ROWS) if at % keep_every]
    assert made.rows == len(left)
    assert [made.locate(index) for index in left] == [(log, 0) for log in left.values()]
    assert list(made.log_indexes()) == list(left.values())
    assert sum(len(block.firsts) for block in made._blocks) <= 2 * len(left) + BLOCK_ROWS // 2
    columns, extras = made.columns()
    again = Segments.from_columns(columns, extras)
    assert again.columns() == (columns, extras)
    assert [again.live_of(log) for log in left.values()] == [2] * len(left)


def test_the_bytes_of_a_batch_leave_with_its_messages_and_none_stays_behind():
    made, freed = Segments(), []
    made.append(1, 5, 3, 100)
    assert [made.take(at, at + 1, freed) for at in (2, 1, 3)] == [33, 33, 34]
    assert freed == [5]


def test_extras_stay_with_their_rows():
    made, freed = filled(BLOCK_ROWS, 1), []
    special = extra_of(array("H", [0, 2]), b"\x07\x01", array("Q", [5, 0]))
    made.append(BLOCK_ROWS + 1, 99_999, 2, 10, extra=special)
    made.take(1, BLOCK_ROWS + 1, freed)
    parts = list(made.parts(1, 10 * BLOCK_ROWS))
    assert [(part.start, part.extra) for part in parts] == [(BLOCK_ROWS + 1, special)]
    assert made.locate(BLOCK_ROWS + 2) == (99_999, 2)
    assert (parts[0].expiry(BLOCK_ROWS + 1), parts[0].expiry(BLOCK_ROWS + 2)) == (5, 0)
    assert extra_of(array("H"), b"\x03", array("Q")) is extra_of(array("H"), b"\x03", array("Q"))


def test_one_expiry_for_a_segment_is_a_column():
    made, freed = Segments(), []
    for at in range(BLOCK_ROWS):
        made.append(1 + 2 * at, 10 + at, 2, 10, 700 + at if at > 5 else 0)
    for at in range(0, BLOCK_ROWS, 2):
        made.take(1 + 2 * at, 3 + 2 * at, freed)
    made.take(3, 5, freed)  # more than half are gone
    for part in (*made.parts(1, 5_000), *Segments.from_columns(*made.columns()).parts(1, 5_000)):
        at = part.log_index - 10
        assert (part.expiry(part.end - 1), part.timed) == ((700 + at, True) if at > 5 else (0, False))
        assert part.expiry_run(part.start) == part.end


def test_taking_what_has_gone_is_a_broken_invariant():
    made, freed = filled(2), []
    made.take(1, 3, freed)
    with pytest.raises(AssertionError):
        made.take(1, 2, freed)


@pytest.mark.parametrize(
    ("start", "end", "bytes_max", "expected"),
    [
        (1, 11, 1_000, (10, 100)),
        (3, 11, 1_000, (8, 80)),
        (1, 11, 99, (8, 80)),  # whole ones alone
        (1, 10, 1_000, (8, 80)),
        (2, 11, 1_000, (0, 0)),  # in the middle of one
        (1, 11, 19, (0, 0)),
        (1, 2, 1_000, (0, 0)),
        (11, 13, 1_000, (0, 0)),  # a gap lies in front of the last one
    ],
)
def test_whole_segments_that_fit_are_counted_at_once(start, end, bytes_max, expected):
    made = Segments()
    for number in range(5):
        made.append(1 + number * 2, 1 + number, 2, 20)
    made.append(12, 6, 2, 20)
    assert made.whole(start, end, bytes_max) == expected


def test_what_has_lost_a_message_is_not_whole():
    made = filled(3)
    assert made.whole(1, 7, 1 << 20)[0] == 6
    made.take(3, 4, [])
    assert made.whole(1, 7, 1 << 20)[0] == 0


def test_segments_that_do_not_lie_next_to_each_other_are_not_whole():
    made = Segments()
    made.append(1, 1, 2, 20)
    made.append(4, 2, 2, 20)
    assert made.whole(1, 6, 100) == (0, 0)
    assert made.whole(1, 3, 100) == (2, 20)


def test_whole_segments_are_those_of_one_block():
    made = filled(BLOCK_ROWS + 1)
    assert made.whole(1, BLOCK_ROWS * 2 + 3, 1 << 30)[0] == BLOCK_ROWS * 2
    assert made.whole(BLOCK_ROWS * 2 + 1, BLOCK_ROWS * 2 + 3, 1 << 30)[0] == 2

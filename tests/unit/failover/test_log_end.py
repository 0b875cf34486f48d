"""P20: which of two logs holds more, and what an epoch's first record does not change about that."""

from __future__ import annotations

from itertools import product

import pytest

from failover.log_end import UNKNOWN_END, Ends, LogEnd, compare, log_end

OPPOSITE = {Ends.OWN_LONGER: Ends.PEER_LONGER, Ends.PEER_LONGER: Ends.OWN_LONGER}


@pytest.mark.parametrize(
    ("boundaries", "last_index", "ordered"),
    [
        ([], 0, (0, 0)),
        ([(1, 1)], 1, (0, 0)),  # nothing but the first record
        ([(1, 1)], 5, (1, 5)),
        ([(1, 1), (2, 6)], 6, (1, 5)),  # an epoch in which nothing was ordered
        ([(1, 1), (2, 6), (4, 7)], 7, (1, 5)),  # two of them
        ([(1, 1), (2, 6), (4, 7)], 8, (4, 8)),
        ([(3, 7), (4, 8)], 8, (0, 6)),  # what lies below is of an epoch that is not named any more
    ],
)
def test_first_records_at_the_end_do_not_count(
    boundaries: list[tuple[int, int]], last_index: int, ordered: tuple[int, int]
) -> None:
    end = log_end(boundaries, last_index, b"d")
    assert end.ordered == ordered
    assert (end.epoch, end.log_index) == (boundaries[-1][0] if boundaries else 0, last_index)


def test_a_later_epoch_in_which_something_was_ordered_holds_more_than_a_longer_log_of_an_earlier_one() -> None:
    served = log_end([(1, 1), (2, 4)], 5, b"served")
    assert compare(served, log_end([(1, 1)], 9, b"tail")) is Ends.OWN_LONGER
    claimed = log_end([(1, 1), (2, 4)], 4, b"claimed")
    assert compare(claimed, log_end([(1, 1)], 9, b"tail")) is Ends.PEER_LONGER


def test_one_place_and_two_digests_are_different() -> None:
    one, other = log_end([(1, 1)], 5, b"one"), log_end([(1, 1)], 5, b"other")
    assert compare(one, other) is Ends.DIFFERENT
    assert compare(one, one) is Ends.EQUAL
    assert compare(one, log_end([(1, 1)], 5, b"")) is Ends.EQUAL  # not known is not different
    # Claims that failed at both ends name different places; what was ordered is the same.
    assert compare(log_end([(1, 1), (2, 6)], 6, b"x"), log_end([(1, 1), (3, 6)], 6, b"y")) is Ends.EQUAL


def test_both_members_find_the_same_from_either_side() -> None:
    ends: list[LogEnd] = [UNKNOWN_END]
    for boundaries in ([], [(1, 1)], [(1, 1), (2, 4)], [(1, 1), (3, 5)], [(2, 4), (3, 5)]):
        ends += [log_end(boundaries, last, digest) for last in (4, 5, 6) for digest in (b"", b"a", b"b")]
    for own, peer in product(ends, ends):
        found = compare(own, peer)
        assert compare(peer, own) is OPPOSITE.get(found, found), (own, peer)

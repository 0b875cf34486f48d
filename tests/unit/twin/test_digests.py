"""Digests of outputs: whatever differs in any of them differs in the digest, from there on."""

from __future__ import annotations

from itertools import combinations

from tandemq.twin.codecs import JSON
from tandemq.twin.digests import MARKS_KEPT, NONE, OwnMarks, chained, shown
from tandemq.twin.handling import Output


def test_whatever_differs_is_seen() -> None:
    made = {
        chained(NONE, 1, [Output("q", b"ab")]),
        chained(NONE, 2, [Output("q", b"ab")]),
        chained(5, 1, [Output("q", b"ab")]),
        chained(NONE, 1, [Output("qa", b"b")]),
        chained(NONE, 1, [Output("q", b"a"), Output("q", b"b")]),
        chained(NONE, 1, [Output("q", b"ab", {"correlation_id": "x"})]),
        chained(NONE, 1, [Output("q", b"ab", {"properties": {"x": 1}})]),
        chained(NONE, 1, [Output("q", b"ab", {"properties": {"x": 1.0}})]),
        chained(NONE, 1, []),
    }
    assert len(made) == 9
    assert 0 not in made


def test_properties_have_no_order() -> None:
    one, other = (
        Output("q", b"", {"properties": dict(items)}) for items in ((("a", 1), ("b", 2)), (("b", 2), ("a", 1)))
    )
    assert chained(NONE, 1, [one]) == chained(NONE, 1, [other])


def test_a_difference_stays() -> None:
    ends = []
    for first in (b"x", b"y"):
        chain = chained(NONE, 1, [Output("q", first)])
        for index in range(2, 50):
            chain = chained(chain, index, [Output("q", b"same")])
        ends.append(chain)
    assert all(one != other for one, other in combinations(ends, 2))


def test_equal_states_have_equal_bytes() -> None:
    assert JSON.encode({"b": [1, None], "a": "ü"}) == JSON.encode({"a": "ü", "b": [1, None]})
    assert JSON.decode(JSON.encode({"a": 1.5})) == {"a": 1.5}


def test_k9_no_more_of_ones_own_states_are_remembered_than_the_pair_keeps() -> None:
    """The latest ones: a twin runs for years, and those before are at the pair no more."""
    marks = OwnMarks()
    for index in range(1, 2 * MARKS_KEPT + 1):
        marks.add(index, 1)
    others = dict.fromkeys(range(1, 2 * MARKS_KEPT + 1), shown(2))
    assert marks.first_differing(others) == (MARKS_KEPT + 1, shown(1), shown(2))
    assert marks.first_differing({index: shown(1) for index in others}) is None


def test_k9_the_first_state_that_differs_of_those_that_both_know() -> None:
    marks = OwnMarks()
    for index in (10, 20, 30, 40):
        marks.add(index, index)
    assert marks.first_differing({20: shown(20), 40: shown(4), 30: shown(3), 50: shown(5)}) == (30, shown(30), shown(3))
    assert marks.first_differing({}) is None

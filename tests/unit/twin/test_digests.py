"""Digests of outputs: whatever differs in any of them differs in the digest, from there on."""

from __future__ import annotations

from itertools import combinations

from tandemq.twin.codecs import JSON
from tandemq.twin.digests import NONE, chained
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

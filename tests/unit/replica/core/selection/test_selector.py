"""What a selector says of a message, and what it says of itself when it cannot be read."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.selection.selector import BYTES_MAX, DEPTH_MAX, parse
from replica.core.selection.selector_steps import Value
from replica.machine import Refused
from tandemq.v1 import common_pb2
from tests.support import profiles

VALUES: dict[str, Value] = {"a": 1, "x": 2.5, "s": "hello", "t": True, "f": False, "quote": "it's", "tq_index": 7}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("a = 1", True),
        ("a = 1.0", True),
        ("a <> 2 AND NOT a > 1", True),
        ("x >= 2.5 and x <= 2.5", True),
        ("a + 1 = 2 AND 2 * (a + 2) - 1 = 5", True),
        ("7 / 2 = 3 AND -7 / 2 = -3 AND 7 / 2.0 = 3.5", True),
        ("-a = -1 and +a = 1", True),
        ("a BETWEEN 0 AND 1", True),
        ("a NOT BETWEEN 2 AND 3", True),
        ("s BETWEEN 'a' AND 'i'", True),
        ("s IN ('x', 'hello')", True),
        ("s NOT IN ('x')", True),
        ("s LIKE 'h%o' AND s LIKE 'h_llo' AND s LIKE '%' AND s LIKE '%ll%'", True),
        ("s LIKE '%l%l%'", True),
        ("s LIKE '%l%l%l%'", False),
        ("s LIKE 'hell'", False),
        ("s LIKE '_hello'", False),
        ("s LIKE 'h!%' ESCAPE '!'", False),
        ("quote = 'it''s'", True),
        ("t AND NOT f", True),
        ("t = TRUE AND f = false", True),
        ("tq_index = 7", True),
        # Three values: what a message lacks, or what cannot be compared, is neither true nor false.
        ("missing = 1", False),
        ("NOT missing = 1", False),
        ("missing IS NULL AND a IS NOT NULL", True),
        ("missing = 1 OR a = 1", True),
        ("missing = 1 AND a = 1", False),
        ("NOT (missing = 1 AND a = 2)", True),
        ("s = 1", False),
        ("NOT s = 1", False),
        ("s < 1", False),
        ("t < f", False),
        ("t = 1", False),
        ("a IN ('1')", False),
        ("a LIKE '1'", False),
        ("a / 0 = 1", False),
        ("a", False),  # a number is no truth
    ],
)
def test_what_is_selected(text: str, selected: bool) -> None:
    assert parse(text).matches(VALUES) is selected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a =", ("at 4", "the end")),
        ("a == 1", ("at 4", "'='")),
        ("a = 'x", ("does not end",)),
        ("a IN (1)", ("at 7", "single quotes")),
        ("a IN ('x'", (", or )",)),
        ("(a = 1", (") expected",)),
        ("a NOT 1", ("BETWEEN, IN or LIKE",)),
        ("a LIKE b", ("single quotes",)),
        ("a LIKE 'x!' ESCAPE '!'", ("escape",)),
        ("a LIKE 'x' ESCAPE 'ab'", ("one character",)),
        ("tq_foo = 1", ("tq_priority", "tq_index")),
        ("a ~ 1", ("at 2",)),
        ("a = 1e999", ("too large",)),
        ("a = " + "9" * 50, ("digits",)),
        ("a IS 1", ("NULL",)),
        ("a = 1 b", ("AND, OR or the end",)),
        ("(" * (DEPTH_MAX + 1) + "a" + ")" * (DEPTH_MAX + 1), ("nested deeper",)),
        ("NOT " * (DEPTH_MAX + 1) + "a", ("nested deeper",)),
        ("-" * (DEPTH_MAX + 1) + "1 = a", ("nested deeper",)),
        ("a = '" + "x" * BYTES_MAX + "'", (f"longer than {BYTES_MAX}",)),
    ],
)
def test_what_cannot_be_read_says_where_and_why(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as info:
        parse(text)
    assert info.value.reason == common_pb2.REASON_BAD_SELECTOR
    for word in words:
        assert word in info.value.message


@profiles.of(500)
@given(st.text(alphabet="abtq_'%!().,<>=+-*/ 01eAND ORNOTLIKEBETWEENINISNULL", max_size=60))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        selector = parse(text)
    except Refused as refused:
        reasons = {refused.reason}
    else:
        reasons = {common_pb2.REASON_BAD_SELECTOR if selector.matches(VALUES) in (True, False) else 0}
    assert reasons == {common_pb2.REASON_BAD_SELECTOR}


@pytest.mark.parametrize(
    "chain",
    [
        "1" + "+1" * 2_000 + " > 0",
        "1" + "*1" * 2_000 + " > 0",
        "1" + "-1" * 2_000 + " < 0",
        "n = 1" + " OR n = 1" * 400,
    ],
    ids=["sum", "product", "difference", "or"],
)
def test_a_long_chain_is_read_and_told_like_a_short_one(chain: str) -> None:
    assert parse(chain).matches({"n": 1})


def test_no_pattern_and_no_number_makes_a_selector_slow() -> None:
    """A pattern of the kind that lets a backtracking matcher run for years, and squares of squares."""
    began = time.process_time()
    pattern = "%a" * 500 + "%b"
    assert not parse(f"s LIKE '{pattern}'").matches({"s": "a" * 100_000})
    assert not parse("=".join(["*".join(["n"] * 400), "1"])).matches({"n": 10**17})
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("length", "weight"), [(1, 1), (15, 1), (16, 2), (31, 2), (32, 3), (BYTES_MAX, 1 + BYTES_MAX // 16)]
)
def test_a_short_selector_costs_one_look_and_a_longer_one_as_many_as_it_has_steps_at_most(
    length: int, weight: int
) -> None:
    """A turn looks at so many messages less: twice the weight is half the messages."""
    assert parse("t".ljust(length)).weight == weight

"""The account of a run of twins: what is missing, twice, in another order or different is no PASS."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

import pytest

from chaos.twins.__main__ import first_difference, single
from chaos.twins.account import FAIL, PASS, Fault, Sample, Watched, findings, judge, longest_pause_ms
from chaos.twins.picture import draw
from tandemq.demo.rows import flights

PRIORITIES = [4, 4, 9]
EXPECTED = {"departures": [b"1", b"2", b"3"], "delays": [b"x"]}


def good() -> Watched:
    return Watched(
        inputs=3,
        order=[1, 3, 2],
        outputs={queue: list(wanted) for queue, wanted in EXPECTED.items()},
        digests={"a": "d", "b": "d"},
        duplicate_attempts=1,
        kills=2,
        handoffs=1,
        absent_inputs=1,
    )


def test_a_good_run_passes() -> None:
    totals = judge(good(), EXPECTED, "d", PRIORITIES)
    assert (totals.verdict, findings(totals, unhurt=False)) == (PASS, [])


@pytest.mark.parametrize(
    ("spoil", "name", "value", "words"),
    [
        (lambda seen: seen.outputs["departures"].pop(), "outputs", 3, "3 outputs, and not 4"),
        (lambda seen: seen.outputs["delays"].append(b"x"), "duplicates", 1, "1 outputs stand twice"),
        (lambda seen: seen.outputs["departures"].reverse(), "order_breaks", 2, "out of order"),
        (lambda seen: setattr(seen, "order", [2, 1, 3]), "order_breaks", 1, "out of order"),
        (lambda seen: setattr(seen, "order", [1, 3]), "order_breaks", 1, "out of order"),
        (lambda seen: setattr(seen, "order", [1, 3, 3, 2]), "order_breaks", 1, "out of order"),
        (lambda seen: setattr(seen, "order", [1, 2, 3]), "overtakes", 0, "no input overtook"),
        (lambda seen: seen.digests.update(b="e"), "digest_b", "e", "not the same"),
        (lambda seen: seen.digests.pop("a"), "digest_a", "", "not the same"),
        (lambda seen: setattr(seen, "divergences", 1), "divergences", 1, "the twins said 1 times"),
        (lambda seen: setattr(seen, "duplicate_attempts", 0), "duplicate_attempts", 0, "no output came from both"),
        (lambda seen: setattr(seen, "absent_inputs", 0), "absent_inputs", 0, "no input came while"),
    ],
)
def test_what_is_wrong_fails_and_is_said(
    spoil: Callable[[Watched], object], name: str, value: object, words: str
) -> None:
    seen = good()
    spoil(seen)
    totals = judge(seen, EXPECTED, "d", PRIORITIES)
    assert (totals.verdict, getattr(totals, name)) == (FAIL, value)
    assert words in "; ".join(findings(totals, unhurt=False))


def test_a_run_in_which_too_little_happened_says_so() -> None:
    seen = good()
    seen.duplicate_attempts = seen.kills = 0
    said = findings(judge(seen, EXPECTED, "d", PRIORITIES), unhurt=False)
    assert said[-1] == "nothing that was promised was broken; with more rows more happens"
    assert "nothing was killed" in said
    seen.outputs["departures"].pop()
    assert "with more rows" not in "; ".join(findings(judge(seen, EXPECTED, "d", PRIORITIES), unhurt=False))


def test_a_pause_counts_while_inputs_wait() -> None:
    seen = [Sample(0, 5, 0, 0, 0), Sample(1, 5, 0, 0, 3), Sample(3, 5, 0, 0, 3), Sample(4, 5, 0, 0, 5)]
    assert longest_pause_ms([*seen, Sample(60, 5, 5, 5, 5)]) == 2_000


def test_the_program_of_the_demo_is_deterministic() -> None:
    rows = flights().texts[:400]
    (outputs, state), again = single(rows), single(rows)
    assert (outputs, state) == again
    assert len(outputs["departures"]) == 400
    assert sum(each["flights"] for each in state["carriers"].values()) + state["cancelled"] == 400
    assert outputs["faults"] == []


def test_the_first_difference_of_two_programs_is_the_one_that_was_made() -> None:
    rows = flights().texts[:900]
    order = [*range(2, len(rows) + 1), 1]
    at = first_difference(rows, order)
    assert at == importlib.import_module("chaos.twins.differing").AT, "by the number under which both are given it"
    assert first_difference(rows[: at - 1], []) == 0


def test_the_picture_marks_where_the_two_differ() -> None:
    seen = good()
    seen.samples = [Sample(0, 0, 0, 0, 0), Sample(1, 3, 1, 1, 1), Sample(2, 3, 3, 3, 3)]
    seen.faults = [Fault(2, "stopped by a difference", "b")]
    carriers = {"UA": {"flights": 2, "minutes": 7, "worst": 5}}
    picture = draw(seen, carriers, "3 flights", 2)
    assert "input 2: here they differ" in picture
    assert "first difference, input 2" in picture
    assert "stopped by a difference b" in picture
    at = re.search(r'<circle cx="([\d.]+)"', picture)
    assert at is not None
    assert f'<line x1="{at[1]}"' in picture, "when the first output of it was there"
    assert "differ" not in draw(good(), carriers, "3 flights"), "nothing differs, nothing is marked"


def test_the_picture_names_faults_and_carriers() -> None:
    seen = good()
    seen.samples = [Sample(0, 0, 0, 0, 0), Sample(2, 3, 3, 3, 3)]
    seen.faults = [Fault(1, "master killed", "a")]
    picture = draw(seen, {"UA": {"flights": 2, "minutes": 7, "worst": 5}}, "3 flights")
    assert "master killed a" in picture
    assert "3.5 of 2 flights, worst 5" in picture

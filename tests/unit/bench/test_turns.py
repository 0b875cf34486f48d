"""How turns become a key of a document."""

from __future__ import annotations

from bench.turns.figures import Bound, Figure, Missing, Turn, row

TURNS = [Turn(2.0, 1.0), Turn(9.0, 3.0), Turn(1.0, 1.0)]


def test_a_key_is_the_median_of_the_ratios_of_its_turns() -> None:
    figure = Figure("a / b", "ms", Bound(2.0), TURNS)
    document = figure.document()
    assert (document["ratio"], document["n"], document["spread"]) == (2.0, 3, [1.0, 3.0])
    assert (document["bound"], document["met"]) == ("at most 2", True)
    assert (document["ours"], document["beside"]) == ([2.0, 9.0, 1.0], [1.0, 3.0, 1.0])
    assert row("latency", figure)[1:4] == ["2.000", "1.000 to 3.000", "3"]


def test_a_bound_may_be_missed_in_either_direction_and_says_so() -> None:
    missed = Figure("a / b", "ms", Bound(1.9), TURNS)
    assert not missed.document()["met"]
    assert row("latency", missed)[4] == "at most 1.9: MISSED"
    assert Figure("a / b", "1/s", Bound(1.9, at_least=True), TURNS).document()["met"]
    assert not Figure("a / b", "1/s", Bound(2.1, at_least=True), TURNS).document()["met"]


def test_a_key_without_a_figure_says_why() -> None:
    document = Missing("not there: java").document()
    assert (document["ratio"], document["n"], document["why"]) == (None, 0, "not there: java")
    assert row("against_artemis", Missing("not there: java"))[-1] == "not there: java"

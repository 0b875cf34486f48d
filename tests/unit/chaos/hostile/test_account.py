"""The account of `make hostile`: a wrong answer, or what others notice, is not held; a starved run shows nothing."""

from __future__ import annotations

from typing import Any

import pytest

import chaos.hostile.inside
import chaos.hostile.keeping
import chaos.hostile.outside  # noqa: F401 - both enter what they have
from chaos.hostile.account import FAILED, HELD, INVALID, Row, judged, verdict_of
from chaos.hostile.inputs import INPUTS

GOOD = Row("x", "ended", 2.0, 40.0, 2.0, 60.0, 60.0, 70.0, 200, 0, 90.0, 120.0, 1_000, True, 2.0, "")


def test_what_is_answered_and_not_noticed_is_held() -> None:
    assert judged(GOOD, "ended").held == HELD


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"answer": "let in"}, "answered 'let in'"),
        ({"answer": "ended, or not"}, "answered"),
        ({"sends_failed": 1}, "1 sends of others failed"),
        ({"memory_after_mib": 141.0}, "memory is not back"),
        ({"log_bytes": 2 << 20}, "the logs grew too much"),
        ({"log_is_clean": False}, "a terminal code stands in a log"),
        ({"p99_during_ms": 81.0, "p99_at_least_ms": 81.0}, "others' p99 is 81 ms, and may be 80"),
        ({"p99_during_ms": 300.0, "p99_at_least_ms": 100.0}, "others' p99 is 100 ms"),
        ({"worst_at_least_ms": 2_001.0}, "somebody else waited for 2001 ms"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], problem: str) -> None:
    assert problem in judged(GOOD._replace(**changes), "ended").held


@pytest.mark.parametrize("changes", [{"p99_during_ms": 200.0, "p99_at_least_ms": 50.0}, {"sends": 99}])
def test_what_the_machine_decided_shows_nothing(changes: dict[str, Any]) -> None:
    assert judged(GOOD._replace(**changes), "ended").held == INVALID


def test_how_long_others_waited_counts_where_it_is_asked_for() -> None:
    late = GOOD._replace(p99_during_ms=300.0, p99_at_least_ms=300.0, sends=1)
    assert judged(late, "ended", timed=False).held == HELD
    assert judged(late._replace(sends_failed=1), "ended", timed=False).held == "1 sends of others failed"


def test_the_whole_is_held_when_every_row_is_there_and_held() -> None:
    held, invalid, failed = (GOOD._replace(held=each) for each in (HELD, INVALID, "memory is not back"))
    assert verdict_of([held, held], 2) == HELD
    assert verdict_of([held], 2) == FAILED
    assert verdict_of([held, invalid], 2) == INVALID
    assert verdict_of([failed, invalid], 2) == FAILED


def test_each_input_of_the_issue_has_a_row() -> None:
    for word in (
        "flood of rapid_reset",
        "half a ClientHello",
        "says nothing",
        "expired",
        "not yet valid",
        "x-tandemq-hop",
        "idle streams",
        "may store",
    ):
        assert any(word in name for name in INPUTS), word
    assert len(INPUTS) >= 40

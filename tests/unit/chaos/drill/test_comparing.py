"""Two reports are compared only when both proved something, and what cannot be measured any more is worse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.drill import report
from chaos.drill.comparing import Comparison, ReportError, compare
from tests.unit.chaos.drill.test_report import history, outcome

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    report.write(tmp_path / "before", outcome(history()))
    report.write(tmp_path / "after", outcome(history()))
    return tmp_path


def compared(reports: Path) -> Comparison:
    return compare(reports / "before", reports / "after")


def change(reports: Path, which: str, how: Change) -> None:
    path = reports / which / report.RESULT
    facts = json.loads(path.read_text())
    how(facts)
    path.write_text(json.dumps(facts))


def value(name: str, to: float | None) -> Change:
    def change_it(facts: dict[str, Any]) -> None:
        [line] = [each for each in facts["lines"] if each["name"] == name]
        line["value"] = to

    return change_it


def test_equal_ones_are_not_worse_and_both_are_told(reports: Path) -> None:
    found = compared(reports)
    assert not found.worse
    assert found.before.text == found.after.text == "PASS, 1 round of kill-master, on a <pair> & its own"
    assert found.after.summary() == {"verdict": "pass", "rounds": 1, "origin": "a <pair> & its own"}


def test_a_slower_one_is_worse_and_a_faster_one_is_not(reports: Path) -> None:
    report.write(reports / "after", outcome(history(dead_s=3.0)))
    found = compared(reports)
    assert found.worse
    assert [each.name for each in found.lines if each.worse] == [
        "time without a master",
        "recovery p50",
        "recovery p99",
    ]
    assert not compare(reports / "after", reports / "before").worse


def test_what_cannot_be_measured_any_more_is_worse(reports: Path) -> None:
    change(reports, "after", value("recovery p99", None))
    change(reports, "after", lambda facts: facts["lines"].pop())
    found = compared(reports)
    worse = [(each.name, each.after, each.why) for each in found.lines if each.worse]
    why = "there is nothing to measure any more"
    assert worse == [("recovery p99", None, why), ("resync time", None, why)]
    assert found.worse
    back = compare(reports / "after", reports / "before")
    assert not back.worse
    assert {each.why for each in back.lines} == {"", "there was nothing to measure before"}


def test_a_drill_that_held_and_does_not_any_more_is_worse(reports: Path) -> None:
    change(reports, "after", lambda facts: facts.update(verdict="fail"))
    found = compared(reports)
    assert found.worse
    assert not any(each.worse for each in found.lines)


@pytest.mark.parametrize("which", ["before", "after"])
def test_one_that_proved_nothing_is_refused(reports: Path, which: str) -> None:
    report.write(reports / which, outcome(history(), kind="cut"))
    with pytest.raises(ReportError) as error:
        compared(reports)
    for words in (f"{reports / which} proved nothing (no cut of 1 had an effect)", "INVALID, 1 round", "PASS, 1 round"):
        assert words in str(error.value)


def test_rounds_that_differ_are_refused_and_told(reports: Path) -> None:
    change(reports, "before", lambda facts: facts.update(rounds=5))
    with pytest.raises(ReportError, match=r"before: PASS, 5 rounds.*after: PASS, 1 round "):
        compared(reports)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda facts: facts.pop("lines"), "lines"),
        (lambda facts: facts.update(lines=[]), "lines"),
        (lambda facts: facts.pop("rounds"), "rounds"),
        (lambda facts: facts.update(rounds=-1), "rounds"),
        (lambda facts: facts.update(verdict="good"), "verdict"),
        (lambda facts: facts["lines"][0].update(value="much"), "value"),
        (lambda facts: facts.update(schema_version=9), "schema version 9"),
        (lambda facts: facts.pop("schema_version"), "schema_version"),
        (lambda facts: facts.update(drill="other"), "two drills: kill-master and other"),
    ],
)
def test_a_broken_one_is_refused(reports: Path, how: Change, words: str) -> None:
    change(reports, "after", how)
    with pytest.raises(ReportError, match=words):
        compared(reports)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b'{"schema_version": NaN}'])
def test_what_is_no_report_is_refused(reports: Path, text: bytes) -> None:
    (reports / "after" / report.RESULT).write_bytes(text)
    with pytest.raises(ReportError, match=r"result\.json is broken"):
        compared(reports)
    (reports / "after" / report.RESULT).unlink()
    with pytest.raises(ReportError, match="holds no report"):
        compared(reports)

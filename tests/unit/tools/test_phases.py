"""The phases of `make test`: what is in which, and what follows from how long one took."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from fnmatch import fnmatch
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tools import phases
from tools.phases import (
    DEAR,
    FAILED,
    OK,
    OVER,
    ROOT,
    STARVED,
    SUITES,
    TEST,
    TOO_SLOW,
    Phase,
    carrying,
    dear_first,
    dearest,
    outcome_of,
    run,
    table,
)

MARKERS = ("process", "promise", "wide", "clock")
NO_BUDGET_S = 1e9
"""Where it is not asked how long a phase took: on a busy machine a process starts when it can."""
ALL = [{name for at, name in enumerate(MARKERS) if bits >> at & 1} for bits in range(1 << len(MARKERS))]


def phase_of(name: str, file: Path) -> Phase:
    return Phase(name, (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)), NO_BUDGET_S)


def chosen(suite: str, markers: set[str]) -> list[str]:
    """The phases that run a test with these markers, in a folder that has no phase of its own."""
    found = []
    for phase in SUITES[suite]:
        if "pytest" in phase.command and not {"tests/sim", "tests/spark"} & {*phase.command}:
            expression = phase.command[phase.command.index("-m", 3) + 1]
            if Expression.compile(expression).evaluate(lambda name: name in markers):
                found.append(phase.name)
    return found


@pytest.mark.parametrize("markers", ALL, ids=lambda markers: "+".join(sorted(markers)) or "none")
def test_every_test_is_in_one_phase_of_test_all(markers: set[str]) -> None:
    assert len(chosen("test-all", markers)) == 1
    assert chosen("test-all", markers | {"long"}) == []


def test_every_file_says_the_markers_of_its_tests_itself() -> None:
    """Phases read the files that say their marker, and no others. What Spark's folder adds has a phase of its own."""
    elsewhere = re.compile(r"^pytestmark = (?!\[?\s*pytest\.mark\.)|^\s+(?:item|each)\.add_marker\(", re.MULTILINE)
    assert elsewhere.search("pytestmark = PROCESS\n")
    assert elsewhere.search("    item.add_marker(PROCESS)\n")
    files = {path for path in (ROOT / "tests").rglob("*.py") if elsewhere.search(path.read_text(encoding="utf-8"))}
    assert {str(path.relative_to(ROOT)) for path in files} <= {"tests/spark/conftest.py"}
    assert "tests/integration/test_pair.py" in carrying("promise")
    assert "tests/unit/tools/test_mutants.py" not in carrying("promise")


def test_the_dearest_files_are_begun_first() -> None:
    """Begun last, one of five minutes keeps its phase waiting while three processes have nothing to do."""
    assert dear_first(["tests/a.py", DEAR[1], "tests/0.py", DEAR[0]]) == (DEAR[0], DEAR[1], "tests/0.py", "tests/a.py")
    assert all((ROOT / path).exists() for path in DEAR)
    phase = next(each for each in SUITES["test-all"] if each.name == "processes")
    assert phase.command.index(DEAR[0]) < phase.command.index("tests/integration/test_bad_input.py")
    assert "--no-loadscope-reorder" in phase.command


def test_what_is_in_make_test_is_said_by_process_promise_and_wide() -> None:
    quick = {frozenset(markers) for markers in ALL if chosen("test", markers)}
    assert quick == {
        frozenset(markers)
        for markers in ALL
        if ("promise" in markers if "process" in markers else "wide" not in markers)
        and not ({"process", "wide", "clock"} <= markers)
    }


@pytest.mark.parametrize(
    ("code", "took_s", "others", "outcome"),
    [
        (0, 10.0, 0.0, OK),
        (0, 10.0 * OVER, 0.0, OK),
        (0, 10.0 * OVER + 0.1, 0.0, TOO_SLOW),
        (0, 10.0 * OVER + 0.1, 80.0, STARVED),
        (1, 1.0, 80.0, FAILED),
    ],
)
def test_a_phase_is_judged_by_its_budget_only_where_the_machine_was_its_own(
    code: int, took_s: float, others: float, outcome: str
) -> None:
    assert outcome_of(code, took_s, 10.0, others) == outcome


def test_a_command_that_fails_is_a_failed_phase_and_the_next_one_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def python(name: str, text: str) -> Phase:
        return Phase(name, (sys.executable, "-c", text), NO_BUDGET_S)

    monkeypatch.setattr(phases, "OUT", tmp_path)
    monkeypatch.setitem(SUITES, "test", (python("bad", "raise SystemExit(3)"), python("good", "print('here')")))
    assert phases.main(["test"]) == 1
    said = capfd.readouterr().out
    assert "here" in said
    assert [line.split()[0] for line in said.splitlines() if "FAILED" in line] == ["bad"]
    assert phases.main(["test", "--only", "good"]) == 0


@pytest.mark.parametrize(
    ("text", "arguments", "outcome"),
    [
        ("def test_one(): pass", (), OK),
        ("def other(): pass", (), FAILED),
        ("def test_one(): pass", ("-k", "another"), OK),
        ("import os\ndef test_one(): os._exit(0)", (), FAILED),
        ("def test_one(): assert False", (), FAILED),
        ("import nothing_such", (), FAILED),
    ],
    ids=["one", "none", "none of a part", "ends the process", "fails", "is not read"],
)
def test_a_phase_that_has_shown_nothing_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, arguments: tuple[str, ...], outcome: str
) -> None:
    monkeypatch.setattr(phases, "OUT", tmp_path)
    file = tmp_path / "test_it.py"
    file.write_text(text)
    phase = phase_of("it", file)
    assert run(phase, arguments).outcome == outcome


def test_only_a_phase_whose_tests_may_be_left_out_may_be_empty() -> None:
    assert [each.name for each in SUITES["test-all"] if each.may_be_empty] == ["spark"]
    spark = next(each for each in SUITES["test-all"] if each.may_be_empty)
    assert phases.shown(spark, phases.PYTEST_NOTHING, ()) == 0
    assert phases.shown(TEST[0], phases.PYTEST_NOTHING, ("-x",)) == 1, "make knows no such code"


def test_the_dearest_tests_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "OUT", tmp_path)
    file = tmp_path / "test_two.py"
    file.write_text("def test_quick(): pass\ndef test_slow(): pass\n")
    phase = phase_of("two", file)
    seen = run(phase)
    assert seen.outcome == OK
    assert sorted(name.partition("::")[2] for _, name in dearest([phase])) == ["test_quick", "test_slow"]
    assert phase.junit is not None
    put_down = ET.parse(phase.junit)
    for case in put_down.iter("testcase"):  # a machine that does something else makes any test the dearest
        case.set("time", {"test_quick": "0.5", "test_slow": "4.0"}[case.get("name", "")])
    put_down.write(phase.junit)
    [(seconds, name)] = dearest([phase], 1)
    assert (seconds, name.partition("::")[2]) == (4.0, "test_slow")
    assert "two" in table([seen])


def test_a_phase_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        phases.main(["test", "--only", "nothing"])
    assert TEST[0].name in capsys.readouterr().err


def test_a_phase_over_its_budget_fails_unless_it_is_only_to_be_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(phases, "OUT", tmp_path)
    monkeypatch.setattr(phases, "CROWDED_PERCENT", 1_000.0)
    monkeypatch.setitem(SUITES, "test", (Phase("slow", (sys.executable, "-c", ""), 0.0),))
    assert (phases.main(["test"]), phases.main(["test", "--slow-is-ok"])) == (1, 0)
    assert capfd.readouterr().out.count(TOO_SLOW) == 2


def test_tests_that_the_machine_starved_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "OUT", tmp_path)
    file = tmp_path / "test_starved.py"
    file.write_text(
        "import pytest\n"
        "def test_starved(): pytest.skip('INVALID: the machine withheld 3 s')\n"
        "def test_skipped(): pytest.skip('no etcd')\n"
        "def test_good(): pass\n"
    )
    phase = phase_of("starved", file)
    seen = run(phase)
    assert (seen.outcome, seen.invalid) == (OK, 1)
    assert "ok, 1 INVALID" in table([seen])


def test_what_no_suite_runs_has_a_target_that_does() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    recipes = [line for line in makefile.splitlines() if "-m pytest" in line and "long" in line]
    patterns = [word for line in recipes for word in line.split() if word.startswith("tests/")]
    lost = [
        path
        for path in carrying("long")
        if not any(fnmatch(path, pattern) or path.startswith(f"{pattern}/") for pattern in patterns)
    ]
    assert lost == []

"""docs/requirements.toml and the markers of the tests say the same: every row has a test, or says why it has none."""

from __future__ import annotations

import re

import pytest

from tests.support import requirements_table
from tests.support.requirements_table import QUEUE, Proof, Requirement, contradictions, data, proofs, render, state


def test_the_page_has_a_row_for_every_requirement() -> None:
    assert re.findall(r"(?m)^\| \*\*(R\d{3})\*\* ", render()) == list(data())


def test_every_marker_names_a_requirement() -> None:
    unknown = {number: tests for number, tests in proofs().items() if number not in data()}
    assert not unknown, unknown


def test_every_row_has_a_test_or_says_what_it_waits_for() -> None:
    assert contradictions(proofs()) == []


@pytest.mark.parametrize(
    ("row", "tests", "found"),
    [
        ({}, [], "R001 has no test"),
        ({"rest": "rights"}, [], "R001 has no test"),
        ({"missing": "a bit"}, [], "R001 has no test"),
        ({"later": "rights"}, ["x"], "R001 has a test"),
        ({"open": True}, ["x"], "R001 has a test"),
        ({"not_taken": "why"}, ["x"], "R001 has a test"),
    ],
)
def test_a_row_that_its_tests_contradict_is_named(row, tests: list[str], found: str, monkeypatch) -> None:
    planted = {"R001": Requirement("R001", "A", "000", "must", "It works.", **row)}
    monkeypatch.setattr(requirements_table, "data", lambda: planted)
    (line,) = contradictions({"R001": [Proof(name, "") for name in tests]})
    assert line.startswith(found)


def test_numbers_are_all_there_once_and_in_order() -> None:
    assert list(data()) == [f"R{number:03}" for number in range(1, 236)]
    assert data().keys() >= QUEUE
    assert {each.level for each in data().values()} == {"must", "should", "no"}


def test_every_link_leads_to_its_test() -> None:
    for tests in proofs().values():
        for test in tests:
            file = requirements_table.ROOT / test.path
            name = test.name.rpartition("::")[2]
            assert file.is_file()
            assert not name or re.search(rf"(def|class) {name}\b", file.read_text(encoding="utf-8")), test


ANY = Requirement("R001", "A", "000", "must", "It works.")
TEST = [Proof("tests/test_x.py", "test_x")]


@pytest.mark.parametrize(
    ("requirement", "tests", "word"),
    [
        (ANY, TEST, "proven"),
        (ANY, [], "open"),
        (Requirement("R001", "A", "000", "must", "It works.", open=True), [], "open"),
        (Requirement("R001", "A", "000", "must", "It works.", missing="the rest"), TEST, "in part"),
        (Requirement("R001", "A", "000", "must", "It works.", missing="the rest"), [], "open"),
        (Requirement("R001", "A", "000", "must", "It works.", later="rights"), [], "later"),
        (Requirement("R001", "A", "000", "must", "It works.", rest="rights"), TEST, "proven, rest later"),
        (Requirement("R001", "A", "000", "must", "It works.", rest="rights", missing="a bit"), TEST, "in part"),
        (Requirement("R001", "A", "000", "must", "It works.", rest="rights"), [], "open"),
        (Requirement("R001", "A", "000", "no", "It works.", not_taken="why"), [], "not taken"),
    ],
)
def test_a_requirement_is_proven_by_a_test_alone(requirement: Requirement, tests: list[Proof], word: str) -> None:
    assert state(requirement, tests) == word


MARKED = """
import pytest

@pytest.mark.slow
@pytest.mark.requirement("R001", "R002")
async def test_one(): ...

@pytest.mark.requirement("R003")
class TestTwo:
    @pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.requirement("R004"))])
    def test_three(self, x): ...

def test_none(): ...

pytestmark = [pytest.mark.process, pytest.mark.requirement("R005")]
"""


def test_markers_are_read_wherever_pytest_takes_them(tmp_path, monkeypatch) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "test_it.py").write_text(MARKED)
    (tmp_path / "scripts/it.txt").write_text("# A story (R006)\n# Rule: P8, R007.\n\ngiven R008\n")
    monkeypatch.setattr(requirements_table, "ROOT", tmp_path)
    monkeypatch.setattr(requirements_table, "TESTS", tmp_path)
    assert {number: [(test.path, test.name) for test in tests] for number, tests in proofs().items()} == {
        "R001": [("test_it.py", "test_one")],
        "R002": [("test_it.py", "test_one")],
        "R003": [("test_it.py", "TestTwo")],
        "R004": [("test_it.py", "TestTwo::test_three")],
        "R005": [("test_it.py", "")],
        "R006": [("scripts/it.txt", "")],
        "R007": [("scripts/it.txt", "")],
    }


def test_a_marker_that_cannot_be_read_is_said(tmp_path, monkeypatch) -> None:
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.requirement(NUMBER)\ndef test_it(): ...\n")
    monkeypatch.setattr(requirements_table, "ROOT", tmp_path)
    monkeypatch.setattr(requirements_table, "TESTS", tmp_path)
    with pytest.raises(requirements_table.BadMarkerError, match=r"test_it\.py:2: write the numbers out"):
        proofs()

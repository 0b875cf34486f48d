"""docs/GUARANTEES.md promises nothing that is not shown: every test and checker that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from chaos import checker
from chaos.sim.bugs import BUGS

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs/GUARANTEES.md").read_text(encoding="utf-8")
LINK = re.compile(r"\[(test_\w+)\]\(\.\./(tests/[\w/]+\.py)\)")


def missing_tests(text: str) -> list[str]:
    """Links to a test whose file or function is not there."""
    found = []
    for name, path in LINK.findall(text):
        file = ROOT / path
        if not file.is_file() or not re.search(
            rf"^(async )?def {name}\(", file.read_text(encoding="utf-8"), re.MULTILINE
        ):
            found.append(f"{path}::{name}")
    return found


def rows(heading: str) -> list[list[str]]:
    """Of the table below a heading, without its head."""
    lines = TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]


def test_every_linked_test_exists() -> None:
    assert missing_tests(TEXT) == []


def test_every_row_of_the_matrix_links_a_test() -> None:
    assert len(rows("What happens when")) >= 25
    assert [row[0] for row in rows("What happens when") if not LINK.search(row[2])] == []


def marks_of(nodes: list[ast.expr]) -> set[str]:
    return {node.attr for each in nodes for node in ast.walk(each) if isinstance(node, ast.Attribute)}


def marked(text: str) -> dict[str, set[str]]:
    """Markers of each test of a file, its own, those of single parameters, and the file's."""
    tree = ast.parse(text)
    of_all: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            of_all |= marks_of([node.value])
    return {
        node.name: of_all | marks_of(node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def in_make_test(markers: set[str]) -> bool:
    return "promise" in markers if "process" in markers else not markers & {"wide", "long"}


def quick(cell: str) -> list[str]:
    """Of the linked tests, those that `make test` runs."""
    return [
        name
        for name, path in LINK.findall(cell)
        if in_make_test(marked((ROOT / path).read_text(encoding="utf-8"))[name])
    ]


def test_make_test_runs_a_test_of_each_row_and_of_each_promise() -> None:
    assert [row[0] for row in rows("What happens when") if not quick(row[2])] == []
    assert [row[0] for row in rows("What holds each promise") if not quick(row[1])] == []


def test_every_promise_has_its_row_and_bugs_that_are_planted() -> None:
    promises = [each.rstrip(".:") for each in re.findall(r"^\*\*([^*]+)\*\*", TEXT, re.MULTILINE)]
    table = {row[0]: re.findall(r"`([a-z-]+)`", row[2]) for row in rows("What holds each promise")}
    assert [*table] == [each for each in promises if each != "Not promised"]
    assert {name for names in table.values() for name in names} <= BUGS.keys()
    assert [promise for promise, names in table.items() if not names] == []


def test_a_test_that_carries_promise_is_linked() -> None:
    linked = set(LINK.findall(TEXT))
    carried = {
        (name, path.relative_to(ROOT).as_posix())
        for path in (ROOT / "tests").rglob("test_*.py")
        for name, markers in marked(path.read_text(encoding="utf-8")).items()
        if "promise" in markers and path != Path(__file__)
    }
    assert carried - linked == set()


def test_who_is_in_make_test_is_read_from_a_file() -> None:
    text = """
pytestmark = [pytest.mark.process]

@pytest.mark.promise
async def test_shown(): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.promise), 2])
def test_in_part(x): ...

def test_other(): ...
"""
    assert {name: in_make_test(markers) for name, markers in marked(text).items()} == {
        "test_shown": True,
        "test_in_part": True,
        "test_other": False,
    }


def test_every_checker_is_named_and_every_named_checker_exists() -> None:
    named = {name for row in rows("What is checked") for name in re.findall(r"`(\w+)`", row[1])}
    assert named == {check.__name__ for check in checker.CHECKS}


def test_a_link_to_nothing_is_found() -> None:
    text = "[test_gone](../tests/test_guarantees.py), [test_x](../tests/nowhere.py)"
    assert missing_tests(text) == ["tests/test_guarantees.py::test_gone", "tests/nowhere.py::test_x"]

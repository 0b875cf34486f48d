"""docs/GUARANTEES.md promises nothing that is not shown: every test and checker that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

from chaos import checker

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


def test_every_checker_is_named_and_every_named_checker_exists() -> None:
    named = {name for row in rows("What is checked") for name in re.findall(r"`(\w+)`", row[1])}
    assert named == {check.__name__ for check in checker.CHECKS}


def test_a_link_to_nothing_is_found() -> None:
    text = "[test_gone](../tests/test_guarantees.py), [test_x](../tests/nowhere.py)"
    assert missing_tests(text) == ["tests/test_guarantees.py::test_gone", "tests/nowhere.py::test_x"]

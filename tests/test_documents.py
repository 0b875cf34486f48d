"""Markdown as it can be read in a diff: one sentence a line, and no line over 200 characters.

Tables, code and what a program writes between its marks are excepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINE_CHARS_MAX = 200
SKIPPED_FOLDERS = {"build", "dist", "node_modules", "target"}

GENERATED = re.compile(r"<!-- (?:table: \w+|audit|.*\bwritten by make .*) -->")
GENERATED_END = re.compile(r"<!-- (?:.*\bend\b.*) -->")
# What may hold the end of a sentence without ending one: code, links, what is in parentheses, what is emphasised.
INSIDE = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)\s]*\)|\([^()]*\)|\*\*[^*]*\*\*|\*[^*\s][^*]*\*")
NEXT_SENTENCE = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\b\d)[.?!] +[A-Z]")


def documents(root: Path) -> Iterator[Path]:
    waiting = [root]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_dir() and path.name not in SKIPPED_FOLDERS and not path.name.startswith("."):
                waiting.append(path)
            elif path.suffix == ".md":
                yield path


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines that a person writes and reads as sentences."""
    is_code = is_generated = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif is_code or line.lstrip().startswith("|"):
            continue
        elif GENERATED.fullmatch(line):
            is_generated = True
        elif GENERATED_END.fullmatch(line):
            is_generated = False
        elif not is_generated:
            yield number, line


def problems(text: str) -> list[str]:
    found = []
    for number, line in prose(text):
        if len(line) > LINE_CHARS_MAX:
            found.append(f"{number} has {len(line)} characters, not {LINE_CHARS_MAX} at most: say it shorter")
        elif NEXT_SENTENCE.search(INSIDE.sub("x", line)):
            found.append(f"{number} has two sentences: begin a new line")
    return found


def test_one_sentence_a_line_and_none_too_long() -> None:
    pages = list(documents(ROOT))
    assert ROOT / "docs" / "OPERATIONS.md" in pages
    assert [f"{page.relative_to(ROOT)}:{problem}" for page in pages for problem in problems(page.read_text())] == []


LONG = "word " * 41

PLANTED = [
    (LONG, 1),
    (f"- {LONG}", 1),
    (f"| {LONG} |", 0),
    (f"```\n{LONG}\n```\n{LONG}", 1),
    (f"<!-- table: steps -->\n{LONG}\n<!-- end of table -->\n{LONG}", 1),
    (f"<!-- bench: written by make bench-report -->\n{LONG}\n<!-- bench: end -->", 0),
    (f"<!-- somebody's note -->\n{LONG}", 1),
    ("One is said. Another follows.", 1),
    ("- **One.** Another follows.\n  Is it? It is.", 1),
    ("One, e.g. Two, of version 1. Three `a. B` [c. D](e.md) (F. G).", 0),
]


@pytest.mark.parametrize(("text", "count"), PLANTED)
def test_a_planted_line_is_found(text: str, count: int) -> None:
    assert len(problems(text)) == count

"""Prints, for each requirement, which tests prove it: from docs/requirements.toml and the markers of the tests.

`make requirements` prints the page as Markdown. It reads the sources of the tests and never runs or imports one.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "docs/requirements.toml"
TESTS = ROOT / "tests"
MARKER = "pytest.mark.requirement"

QUEUE = frozenset(
    f"R{number:03}" for first, last in ((1, 57), (92, 95), (141, 165)) for number in range(first, last + 1)
)
"""The numbers that are about one queue and its manager: each of them has a test, or says what it waits for."""

STATES = ("proven", "proven, rest later", "in part", "open", "later", "not taken")

HEAD = """\
# Requirements: what was asked for, and the test that shows it

Five seed documents describe the product: **000** message queue management, **001** shared queues, **002** queue
features, **003** reactive messages, **004** link messages. Each number is one behaviour that they ask for, as a
sentence that a test can check; *reading* is what was decided where a document is silent or says two things. Source:
the document, then its tables (Tab.), figures (Fig.), paragraphs ([00nn], p.) or heading. **must**: stated behaviour;
**should**: optional or preferable there; **no**: a detail of 2002 that is kept as an idea only.

A test names what it proves with `@pytest.mark.requirement("R157")`, a text script in its comments. `make requirements`
prints this page from these and from `docs/requirements.toml`.
"""


@dataclass(frozen=True, slots=True)
class Requirement:
    number: str
    part: str
    where: str
    level: str  # must, should, no
    text: str
    reading: str = ""
    later: str = ""
    """The issue that will bring it, by name; no test shows it yet."""
    rest: str = ""
    """The issue that will bring the rest of what tests show already."""
    open: bool = False
    """Due, and no test shows it yet."""
    missing: str = ""
    """Some tests show a part of it; this is what they do not show yet."""
    not_taken: str = ""
    """Why it is left out for good."""
    note: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Proof:
    path: str  # from the root of the repository
    name: str  # of the test, with its class; empty: a text script, or all tests of the file

    def link(self) -> str:
        shown = self.name or self.path.removeprefix("tests/")
        return f"[{shown}]({self.path})"


class BadMarkerError(Exception):
    """A marker does not say its numbers in a form that can be read without running the test."""


@dataclass(slots=True)
class _Found:
    by_number: defaultdict[str, set[Proof]] = field(default_factory=lambda: defaultdict(set))

    def enter(self, numbers: Iterator[str], proof: Proof) -> None:
        for number in numbers:
            self.by_number[number].add(proof)


@cache
def data() -> dict[str, Requirement]:
    """Every requirement by its number, in the order of the file."""
    return {
        number: Requirement(number=number, **entry)
        for number, entry in tomllib.loads(DATA.read_text(encoding="utf-8"))["R"].items()
    }


def proofs() -> dict[str, list[Proof]]:
    """By number, what is marked with it: known numbers and others. BadMarkerError: not a literal number."""
    found = _Found()
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.requirement" in text:  # most files have none; parsing them is what takes time
            shown = path.relative_to(ROOT).as_posix()
            _in_body(ast.parse(text, shown), shown, "", found)
    for path in sorted((TESTS / "scripts").rglob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                found.enter(iter(re.findall(r"\bR\d{3}\b", line)), Proof(path.relative_to(ROOT).as_posix(), ""))
    return {number: sorted(tests) for number, tests in found.by_number.items()}


def _in_body(parent: ast.Module | ast.ClassDef, path: str, prefix: str, found: _Found) -> None:
    for node in parent.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.enter(_numbers(node.decorator_list, path), Proof(path, prefix + name))
            case ast.ClassDef(name=name):
                found.enter(_numbers(node.decorator_list, path), Proof(path, prefix + name))
                _in_body(node, path, f"{prefix}{name}::", found)
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                found.enter(_numbers([value], path), Proof(path, prefix.removesuffix("::")))
            case _:
                pass


def _numbers(nodes: list[ast.expr], path: str) -> Iterator[str]:
    """What markers anywhere in these expressions name: decorators, and marks of single parameters."""
    for each in (inner for node in nodes for inner in ast.walk(node)):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == MARKER:
            for argument in each.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise BadMarkerError(f"{path}:{each.lineno}: write the numbers out, as in {MARKER}('R157')")
                yield argument.value


def state(requirement: Requirement, tests: list[Proof]) -> str:
    """One of STATES: what the counts go by, without what follows it on the page."""
    if requirement.not_taken:
        return "not taken"
    if requirement.later and not tests:
        return "later"
    if not tests or requirement.open:
        return "open"
    if requirement.missing:
        return "in part"
    return "proven, rest later" if requirement.rest else "proven"


def contradictions(found: dict[str, list[Proof]]) -> list[str]:
    """Where the row of a requirement and its tests do not say the same: how to mend it, a line each."""
    lines = []
    for number, each in data().items():
        waits = each.later or each.not_taken or each.open
        if waits and found.get(number):
            lines.append(f"{number} has a test: take `later`, `open` or `not_taken` from its row, or name the `rest`")
        if not waits and not found.get(number):
            lines.append(f"{number} has no test: mark one with it, or say `open`, `later` or `not_taken` in its row")
    return lines


def _told(requirement: Requirement, tests: list[Proof]) -> str:
    word = state(requirement, tests)
    told = {
        "not taken": f"not taken: {requirement.not_taken}",
        "later": f"later: {requirement.later}",
        "proven, rest later": f"proven; the rest later: {requirement.rest}",
        "in part": f"**in part**, missing: {requirement.missing}",
        "open": "**open**",
    }.get(word, word)
    return f"{told}; {requirement.note}" if requirement.note else told


def _counted(title: str, numbers: list[str], found: dict[str, list[Proof]]) -> str:
    counts = Counter(state(data()[number], found.get(number, [])) for number in numbers)
    cells = " | ".join(str(counts[word]) for word in STATES)
    return f"| {title} | {len(numbers)} | {cells} |"


def render() -> str:
    """The page."""
    loaded = tomllib.loads(DATA.read_text(encoding="utf-8"))
    found = proofs()
    lines = [HEAD, f"| | numbers | {' | '.join(STATES)} |", "|---" * (len(STATES) + 2) + "|"]
    lines.append(_counted("a queue and its manager: R001-R057, R092-R095, R141-R165", sorted(QUEUE), found))
    lines.append(_counted("all", list(data()), found))
    for part in loaded["part"]:
        lines += [
            "",
            f"## {part['letter']}. {part['title']}",
            "| number | what | source | state | tests |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(each, found) for each in data().values() if each.part == part["letter"]]
    lines += ["", "## Gaps and contradictions (decided once, then tested)"]
    lines += [f"- {text}" for text in loaded["gaps"]["texts"]]
    return "\n".join(lines) + "\n"


def _row(each: Requirement, found: dict[str, list[Proof]]) -> str:
    tests = found.get(each.number, [])
    what = f"{each.text} *Reading: {each.reading}*" if each.reading else each.text
    shown = ", ".join(test.link() for test in tests) or "-"
    cells = (f"**{each.number}** {each.level}", what, each.where, _told(each, tests), shown)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(render())

"""docs/CHANGING.md and docs/ARCHITECTURE.md lead through files that are there, to names that are defined in them.

A signpost is code of the form `path: name, name`; in Python a name counts where it is defined, not where imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "CHANGING.md"
MAP = ROOT / "docs" / "ARCHITECTURE.md"
KINDS = (
    *("A queue attribute", "A call", "A frame between members", "A record", "A metric", "A limit"),
    *("A classifier event", "A reason", "A command"),
)

SIGNPOST = re.compile(r"`([\w./-]+\.(?:py|proto|md|json|toml|yml))(?:: ([^`]+))?`")
IN_PROTO = re.compile(r"^\s*(?:message|enum|service|rpc|oneof)\s+(\w+)", re.MULTILINE)


def names_in(path: Path) -> set[str]:
    """What a file defines: of Python and of the contract; of a page its headings."""
    text = path.read_text()
    if path.suffix == ".proto":
        return set(IN_PROTO.findall(text))
    if path.suffix == ".md":
        return {line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#")}
    assert path.suffix == ".py", f"{path}: nobody has said what a name is in such a file"
    return set(_defined(ast.parse(text)))


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Assign(targets=targets):
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass


def wrong(text: str) -> list[str]:
    found = []
    for path, anchors in SIGNPOST.findall(text):
        if not (ROOT / path).is_file():
            found.append(f"{path} is not there")
        elif anchors:
            known = names_in(ROOT / path)
            found += [f"{path} does not define {each}" for each in anchors.split(", ") if each not in known]
    return found


def walks(text: str) -> dict[str, list[str]]:
    """By the title of a section: the numbered lines of it."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {
        title: re.findall(r"^\d+\. .*$", body, re.MULTILINE)
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }


@pytest.mark.parametrize("page", [PAGE, MAP], ids=lambda page: page.name)
def test_every_signpost_leads_somewhere(page: Path) -> None:
    assert wrong(page.read_text()) == []


def test_every_kind_of_change_has_its_walk_of_signposts() -> None:
    found = walks(PAGE.read_text())
    assert {kind: found.get(kind, []) for kind in KINDS if not found.get(kind)} == {}
    lines = [line for kind in KINDS for line in found[kind]]
    assert [line for line in lines if not any(anchors for _, anchors in SIGNPOST.findall(line))] == []


PLANTED = [
    ("`replica/core/nowhere.py: Domain`", ["replica/core/nowhere.py is not there"]),
    ("`docs/NOWHERE.md`", ["docs/NOWHERE.md is not there"]),
    ("`replica/core/domain.py: on_nothing`", ["replica/core/domain.py does not define on_nothing"]),
    ("`replica/core/domain.py: on_frame, Nobody`", ["replica/core/domain.py does not define Nobody"]),
    ("`replica/core/domain.py: PeerFrame`", ["replica/core/domain.py does not define PeerFrame"]),
    (
        "`proto/tandemq/peer/v1/record.proto: WeightsO`",
        ["proto/tandemq/peer/v1/record.proto does not define WeightsO"],
    ),
    ("`docs/CLIENTS.md: Nothing`", ["docs/CLIENTS.md does not define Nothing"]),
    ("`replica/core/domain.py: Domain, on_frame` and `docs/CLIENTS.md: Errors`", []),
]


@pytest.mark.parametrize(("text", "problems"), PLANTED)
def test_a_planted_signpost_is_refused(text: str, problems: list[str]) -> None:
    assert wrong(text) == problems


def test_a_walk_without_steps_is_seen() -> None:
    assert walks("## A call\n\nnothing\n## A limit\n1. `a.py: b`\n") == {"A call": [], "A limit": ["1. `a.py: b`"]}

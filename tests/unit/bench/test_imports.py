"""What the benchmarks import of each other is there: most of them run for minutes, and no other check imports them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "bench").rglob("*.py"))


def names_of(path: Path) -> set[str]:
    """What a module has under a name, and the modules beside it where it is a package."""
    if path.is_dir():
        own = path / "__init__.py"
        return {each.stem for each in path.iterdir()} | (names_of(own) if own.exists() else set())
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name)
            case _:
                pass
    return found


def missing(text: str) -> Iterator[str]:
    """Names that are imported of modules of bench/, by their full name or as a script of that folder has them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            places = (ROOT / "/".join(node.module.split(".")), ROOT / "bench" / node.module)
            homes = [path for place in places for path in (place, place.with_suffix(".py")) if path.exists()]
            if homes and (ROOT / "bench") in (homes[0], *homes[0].parents):
                yield from (f"{node.module}.{each.name}" for each in node.names if each.name not in names_of(homes[0]))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_imported_is_there(path: Path) -> None:
    assert list(missing(path.read_text(encoding="utf-8"))) == []


def test_what_is_not_there_is_found() -> None:
    text = "from run import pair, spread\nfrom bench.peers import fit, report\nfrom machine import facts\nimport json\n"
    assert list(missing(text)) == ["run.spread", "bench.peers.fit"]

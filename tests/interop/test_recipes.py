"""The recipes in docs/CLIENTS.md are cut out of the clients that run: what one shows stands in its file as it is."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "CLIENTS.md").read_text(encoding="utf-8")
PIECES = re.findall(r"(?ms)^<!-- (tests/interop/\S+) -->\n```\w+\n(.*?)\n```$", PAGE)


@pytest.mark.parametrize(("path", "piece"), PIECES)
def test_a_recipe_is_the_code_that_runs(path: str, piece: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    depths = ("", " " * 2, " " * 4)
    assert any(textwrap.indent(piece, depth) in source for depth in depths), f"{path} does not have:\n{piece}"


@pytest.mark.parametrize("language", ["Python", "Go", "Java", "Node", "Rust", "C#"])
def test_each_language_has_a_recipe(language: str) -> None:
    section = PAGE.partition(f"\n### {language}\n")[2].partition("\n### ")[0]
    assert "```" in section

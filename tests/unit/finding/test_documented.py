"""docs/CLIENTS.md, "Finding a manager": its file of managers and its program are what the product takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tandemq
from tandemq.cli import root
from tandemq.finding.profile import parse
from tandemq.finding.resolvers import make

DOCUMENT = Path(__file__).parents[3] / "docs/CLIENTS.md"
SECTION = DOCUMENT.read_text().partition("## Finding a manager\n")[2].partition("\n## ")[0]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", SECTION, re.DOTALL)


def test_the_file_of_managers() -> None:
    [text] = blocks("toml")
    found = parse(Path("managers.toml"), text)
    assert [manager.name for manager in found.defaults] == ["orders"]
    assert found.managers["archive"].endpoints == ("archive.example.com:7600",)
    assert found.aliases == {"my_qmgr": "orders", "hot": "orders"}
    assert [make(spec).source for spec in found.resolvers] == [
        "dns example.com",
        "ldaps://ldap.example.com/ou=tandemq,dc=example,dc=com",
    ]


async def test_a_resolver_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TANDEMQ_CONFIG_HOME", str(tmp_path))
    names: dict[str, Any] = {"tandemq": tandemq}
    exec(compile(blocks("python")[1], str(DOCUMENT), "exec"), names)
    answer = await names["Inventory"]().resolve("orders")
    assert answer.managers[0].endpoints == ("10.0.0.1:7600", "10.0.0.2:7600")
    names["client"].close()


def test_the_commands() -> None:
    lines = [line.partition("#")[0].split() for line in SECTION.splitlines() if line.startswith("tandemq ")]
    assert len(lines) == 5
    for _, *words in lines:
        command: Any = root
        while hasattr(command, "get_command"):
            with command.make_context(words[0], [], resilient_parsing=True) as context:
                command = command.get_command(context, words.pop(0))
        command.make_context(command.name, words)

"""Runs text scripts: a command, `----`, what it must print, a blank line. Lines that begin with # say what it is about.

The same script runs over whatever has the commands as methods: a pair in one process, or real processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
RULE = "----"


class Step(NamedTuple):
    line: int
    words: list[str]
    expected: list[str]


class Commands(Protocol):
    """What a script may ask for; each answers with lines."""

    async def send(self, member: str, payload: str) -> list[str]: ...

    async def handoff(self, member: str, *options: str) -> list[str]: ...

    async def state(self) -> list[str]: ...

    async def contents(self) -> list[str]: ...


def scripts(folder: str) -> list[Path]:
    """In order of their names."""
    found = sorted((SCRIPTS / folder).glob("*.txt"))
    assert found, f"no scripts in {SCRIPTS / folder}"
    return found


def parse(text: str) -> list[Step]:
    """Raises AssertionError naming the line that is no command."""
    steps: list[Step] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        command = at
        assert lines[at + 1 : at + 2] == [RULE], f"line {at + 1}: {RULE} must follow the command"
        at += 2
        expected = []
        while at < len(lines) and lines[at].strip():
            expected.append(lines[at])
            at += 1
        steps.append(Step(command + 1, lines[command].split(), expected))
    return steps


async def run(name: str, steps: list[Step], commands: Commands) -> None:
    """Every step prints what the script says."""
    for step in steps:
        verb, *words = step.words
        assert verb in ("send", "handoff", "state", "contents"), f"{name}:{step.line}: no command {verb!r}"
        printed: list[str] = await getattr(commands, verb)(*words)
        assert printed == step.expected, f"{name}:{step.line}: {' '.join(step.words)} printed {printed}"

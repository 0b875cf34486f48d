"""Reads text scripts, runs them and compares what they print: command lines, `----`, the printed lines, a blank line.

Lines that begin with # are prose. The same script runs over whatever has its commands: a pair in one process, or real
processes. `REWRITE=1` puts what was printed into the file instead of comparing it.
"""

from __future__ import annotations

import difflib
import inspect
import os
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.support.grammar import CommandError, Grammar

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / "tests/scripts"
RULE = "----"
SILENT = "ok"
"""Printed by a step of which nothing can be told."""


class ScriptError(Exception):
    """A script that cannot be run as it is written: file, line, what is wrong."""


class DifferentError(AssertionError):
    """A script printed something else than it says."""


class Step(NamedTuple):
    """Command lines with their numbers, and the lines that they must print."""

    commands: list[tuple[int, str]]
    expected: list[str]


class Commands(Protocol):
    """Has methods that are commands (`tests.support.grammar`)."""

    def end_of_step(self) -> list[str]:
        """What is said once, after the commands of a step."""
        ...


class Script(NamedTuple):
    """`parts`: prose as it stands, and steps, in order."""

    name: str
    parts: list[str | Step]

    @property
    def steps(self) -> list[Step]:
        return [part for part in self.parts if isinstance(part, Step)]

    @property
    def prose(self) -> list[str]:
        """Lines of prose before the first step, without their #."""
        head: list[str] = []
        for part in self.parts:
            if isinstance(part, Step):
                break
            head.append(part.lstrip("#").strip())
        return head

    def with_printed(self, printed: list[list[str]]) -> str:
        """The whole text, with these lines below the steps."""
        lines: list[str] = []
        waiting = iter(printed)
        for part in self.parts:
            if isinstance(part, Step):
                lines += [text for _, text in part.commands] + [RULE, *(next(waiting))]
            else:
                lines.append(part)
        return "\n".join(lines) + "\n"


def scripts(*folders: str) -> list[Path]:
    """In order of folders and names."""
    found = [path for folder in folders for path in sorted((SCRIPTS / folder).glob("*.txt"))]
    assert found, f"no scripts in {folders} of {SCRIPTS}"
    return found


def load(path: Path) -> Script:
    return parse(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Script:
    """Raises ScriptError naming the line that does not fit."""
    parts: list[str | Step] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.startswith("#"):
            parts.append(line)
            at += 1
            continue
        first = at
        while at < len(lines) and lines[at].strip() and lines[at] != RULE:
            at += 1
        if at == len(lines) or lines[at] != RULE:
            raise ScriptError(
                f"{name}:{first + 1}: {RULE} must follow the command {line!r}, and below it what it prints"
            )
        commands = [(number + 1, lines[number]) for number in range(first, at)]
        if not commands:
            raise ScriptError(f"{name}:{first + 1}: {RULE} without a command above it")
        at += 1
        after = at
        while at < len(lines) and lines[at].strip():
            at += 1
        parts.append(Step(commands, lines[after:at]))
    return Script(name, parts)


async def play(script: Script, commands: Commands) -> list[list[str]]:
    """Runs every step; what each printed. Whatever fails says where."""
    grammar = Grammar(commands)
    printed: list[list[str]] = []
    for step in script.steps:
        lines: list[str] = []
        for number, text in step.commands:
            where = f"{script.name}:{number}"
            try:
                told = grammar.call(text)
                lines += await told if inspect.isawaitable(told) else told
            except CommandError as error:
                raise ScriptError(f"{where}: {error}") from None
            except AssertionError as error:
                error.add_note(f"at {where}: {text}\n" + "\n".join(f"    {line}" for line in lines))
                raise
        lines += commands.end_of_step()
        printed.append(lines or [SILENT])
    return printed


def compare(script: Script, printed: list[list[str]]) -> None:
    """Raises DifferentError with a diff of the whole script."""
    said = script.with_printed([step.expected for step in script.steps])
    told = script.with_printed(printed)
    if said != told:
        diff = difflib.unified_diff(said.splitlines(), told.splitlines(), script.name, "printed now", lineterm="", n=6)
        text = "\n".join(diff)
        raise DifferentError(f"{script.name} prints something else than it says:\n{text}\nif that is right: REWRITE=1")


def is_rewriting() -> bool:
    return os.environ.get("REWRITE", "") not in ("", "0")


def rewrite(path: Path, script: Script, printed: list[list[str]]) -> bool:
    """Puts what was printed into the file; whether that changed it."""
    text = script.with_printed(printed)
    changed = path.read_text(encoding="utf-8") != text
    if changed:
        path.write_text(text, encoding="utf-8")
    return changed

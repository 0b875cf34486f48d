"""Decides how results look: a table for people, JSON for programs; it never decides what is in them.

All that a command writes passes here or `terminal`: what others wrote is escaped on its way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from tandemq.escaping import escaped, escaped_lines, json_text

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_VERSION = 1
TYPED = ("name", "queue", "drill", "file", "handle", "event_id", "lease_id", "manager", "endpoint", "key")
"""Columns whose texts are arguments of other commands: a table never cuts them."""


def unread(stream: TextIO) -> None:
    """Nobody reads it any more: what is written to it from now on goes nowhere, and is no error."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


@contextmanager
def unread_is_no_error(*, stderr: bool = False) -> Iterator[None]:
    """For a command whose exit code says more than what it prints: who ends the pipe early still gets it."""
    stream = sys.stderr if stderr else sys.stdout
    try:
        yield
        stream.flush()
    except OSError:
        unread(stream)


def console(*, stderr: bool = False) -> Console:
    from tandemq.cli.terminal import Terminal

    return Terminal(sys.stderr if stderr else sys.stdout)


def say(
    text: str, *, label: str = "", fg: str | None = None, bold: bool = False, err: bool = False, file: Any = None
) -> None:
    """One line for people. `fg` and `bold` are of the label, or of the text when there is none."""
    line = escaped(text)
    if label:
        line = f"{click.style(escaped(label), fg=fg, bold=bold)} {line}"
    elif fg or bold:
        line = click.style(line, fg=fg, bold=bold)
    click.echo(line, err=err, file=file)


def say_lines(text: str, *, err: bool = False) -> None:
    """What has many lines, and may have them."""
    click.echo(escaped_lines(text.removesuffix("\n")), err=err)


def say_over(text: str) -> None:
    """How far something is, on stderr's terminal, in place of what was said so before; nothing ends it."""
    click.echo(f"\r\x1b[K{escaped(text)}", err=True, nl=False)


def print_file(text: str) -> None:
    """A file's text: as it is into a file or a pipe, escaped on a terminal."""
    click.echo(escaped_lines(text) if sys.stdout.isatty() else text, nl=False)


def print_json(value: Mapping[str, Any]) -> None:
    """One document with its schema version first."""
    click.echo(json_text({"schema_version": SCHEMA_VERSION, **value}, indent=2))


def print_line(value: Mapping[str, Any]) -> None:
    """One JSON object on one line, at once: somebody may be reading a pipe."""
    sys.stdout.write(json_text(value, compact=True) + "\n")


def print_rows(rows: Sequence[Mapping[str, Any]], kind: str, form: str, columns: Iterable[str] = ()) -> None:
    """Rows as a table of these columns, as one document under the key `kind`, or as lines."""
    if form == "json":
        print_json({kind: list(rows)})
    elif form == "jsonl":
        for row in rows:
            print_line(row)
    else:
        print_table(rows, columns or (rows[0] if rows else ()))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> None:
    from tandemq.cli.terminal import Column, fitted

    names = list(columns)
    numeric = {name for name in names if rows and all(isinstance(row.get(name), int | float) for row in rows)}
    heads = [Column(name.replace("_", " "), name in TYPED, name in numeric) for name in names]
    out = console()
    out.print(fitted(out, heads, [[cell(row.get(name)) for name in names] for row in rows]))


def print_facts(facts: Mapping[str, Any], form: str) -> None:
    """One object: a list of its fields, or JSON."""
    if form == "json":
        print_json(facts)
    elif form == "jsonl":
        print_line(facts)
    else:
        width = max(map(len, facts), default=0)
        for name, value in facts.items():
            say(f"{name.replace('_', ' '):<{width}}  {cell(value)}")


def _part(value: Any) -> str:
    """One of a list."""
    return " ".join(f"{name}={each}" for name, each in value.items()) if isinstance(value, dict) else str(value)


def cell(value: Any) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list() | tuple():
            return ", ".join(map(_part, value)) or "-"
        case _:
            return str(value)

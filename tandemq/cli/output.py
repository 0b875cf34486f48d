"""Decides how results look: a table for people, JSON for programs; it never decides what is in them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_VERSION = 1
WIDTH_ELSEWHERE = 120  # of tables that do not go to a terminal


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
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else WIDTH_ELSEWHERE
    return Console(file=stream, highlight=False, width=width, no_color=bool(os.environ.get("NO_COLOR")) or None)


def print_json(value: Mapping[str, Any]) -> None:
    """One document with its schema version first."""
    print(json.dumps({"schema_version": SCHEMA_VERSION, **value}, indent=2, ensure_ascii=False))


def print_line(value: Mapping[str, Any]) -> None:
    """One JSON object on one line, at once: somebody may be reading a pipe."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


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
    from rich import box
    from rich.table import Table

    names = list(columns)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        numeric = bool(rows) and all(isinstance(row.get(name), int | float) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(cell(row.get(name)) for name in names))
    console().print(table)


def print_facts(facts: Mapping[str, Any], form: str) -> None:
    """One object: a list of its fields, or JSON."""
    if form == "json":
        print_json(facts)
    elif form == "jsonl":
        print_line(facts)
    else:
        width = max(map(len, facts), default=0)
        for name, value in facts.items():
            print(f"{name.replace('_', ' '):<{width}}  {cell(value)}")


def cell(value: Any) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list() | tuple():
            return ", ".join(map(str, value)) or "-"
        case _:
            return str(value)

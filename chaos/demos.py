"""Plays a demo of flight records and ends it: its files, the account as a table, what is wrong in words, an exit code.
It judges nothing.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeAlias

from tandemq.cli.output import console, say
from tandemq.cli.terminal import new_table
from tandemq.demo.story import failures_of
from tandemq.errors import TandemqError

Value: TypeAlias = int | str | Mapping[str, int]


class Place(NamedTuple):
    """Where a demo is, and where what it came to goes."""

    name: str
    """Of its files."""
    out: Path
    directory: Path
    """With data and logs."""
    keep: bool
    """It stays although the demo passes."""


class Account(NamedTuple):
    """What a demo came to."""

    totals: Mapping[str, Value]
    """As they are in its file, by name."""
    findings: Iterable[str]
    """What is wrong, in words."""
    passed: bool
    said: str
    """The verdict, for the last line."""


def play(story: Coroutine[object, object, None]) -> list[str]:
    """Until it is over; why it broke off. Ctrl-C and SIGTERM end it with every process stopped."""
    failures: list[str] = []
    try:
        asyncio.run(_interruptible(story))
    except* (TandemqError, RuntimeError, TimeoutError) as group:
        failures = failures_of(group)
    except* KeyboardInterrupt:
        failures = ["interrupted"]
    return failures


async def _interruptible(story: Coroutine[object, object, None]) -> None:
    task = asyncio.current_task()
    assert task is not None, "this is one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await story
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error


def end(place: Place, account: Account, picture: str) -> NoReturn:
    """Writes NAME.json and NAME.svg, prints, takes the data of a run that passed away, and exits: 0 passed, 1 not."""
    place.out.mkdir(parents=True, exist_ok=True)
    document, drawn = place.out / f"{place.name}.json", place.out / f"{place.name}.svg"
    document.write_text(json.dumps(account.totals, indent=2) + "\n", encoding="utf-8")
    drawn.write_text(picture, encoding="utf-8")
    table = new_table()
    table.add_column("account")
    table.add_column("", justify="right")
    for what, value in account.totals.items():
        table.add_row(what, _shown(value))
    console().print(table)
    for line in account.findings:
        say(line)
    say(f"{account.said}; {document}, {drawn}")
    if account.passed and not place.keep:
        shutil.rmtree(place.directory, ignore_errors=True)
    else:
        say(f"data and logs are in {place.directory}")
    sys.exit(0 if account.passed else 1)


def _shown(value: Value) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {count:,}" for name, count in value.items())
    return value if isinstance(value, str) else f"{value:,}"

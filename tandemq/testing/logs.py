"""Puts the logs of several processes into one, by time; reads files, keeps nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

LINES_MAX = 200
NAME_WIDTH = 9
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Line(NamedTuple):
    """What one process wrote, with what belongs to it: a trace has no time of its own."""

    at: datetime
    name: str
    text: str


def merged(files: Sequence[Path], since: datetime = LONG_AGO) -> list[Line]:
    """All lines from `since` on, oldest first; those of one process stay in their order."""
    lines = [line for path in files for line in _lines(path) if line.at >= since]
    return sorted(lines, key=lambda line: line.at)


def shown(lines: Sequence[Line], lines_max: int = LINES_MAX) -> str:
    """The last of them for people: time, who, what."""
    from tandemq.cli.logs import readable

    left_out = len(lines) - lines_max
    head = [f"... {left_out} earlier lines are in the files"] if left_out > 0 else []
    body = [f"{line.name:>{NAME_WIDTH}} | {readable(line.text)}" for line in lines[-lines_max:]]
    return "\n".join([*head, *body])


def _lines(path: Path) -> Iterator[Line]:
    last = LONG_AGO
    try:
        texts = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    for text in texts:
        last = max(last, _time(text) or last)  # a clock that is set back does not change the order of one process
        yield Line(last, path.stem, text)


def _time(text: str) -> datetime | None:
    try:
        facts = json.loads(text)
        at = datetime.fromisoformat(facts["time"])
    except (ValueError, TypeError, KeyError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)

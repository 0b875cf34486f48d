"""Decides how log lines look: JSON for files, one short line for people; it never decides what is logged."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from tandemq.escaping import escaped, escaped_lines, json_text

_FOR_PROGRAMS = ("pair", "member", "domain", "epoch", "logger")
"""Left out for people: the text says it, or it is the same in every line."""
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


MAIN = "main"
"""Domain whose epoch stands in a line that is about none."""


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "pair", "member", "epoch", "logger", "message", ...}` with whatever `extra` holds: `domain`,
    `queue`, `request`, `event_id`, `method` where they are known.

    `epoch` is that of the line's domain, or of `main`: whoever runs a member sets `epoch_of` when it knows one. A line
    that has a pair or an epoch of its own keeps it.
    """

    def __init__(self, member: str, pair: str = "") -> None:
        super().__init__()
        self._member, self._pair = member, pair
        self.epoch_of: Callable[[str], int] | None = None

    def format(self, record: logging.LogRecord) -> str:
        extra = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "pair": self._pair,
            "member": self._member,
            "epoch": self.epoch_of(str(extra.get("domain") or MAIN)) if self.epoch_of is not None else 0,
            "logger": record.name,
            "message": record.getMessage(),
            **extra,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json_text(line, default=str)


class PlainFormatter(logging.Formatter):
    """The same for people."""

    def __init__(self, as_data: JsonFormatter) -> None:
        super().__init__()
        self._json = as_data

    def format(self, record: logging.LogRecord) -> str:
        return readable(self._json.format(record))


def readable(line: str) -> str:
    """A JSON log line as people read it, or any other line, escaped: one line, and a stack below it."""
    try:
        facts = json.loads(line)
    except ValueError:
        return escaped(line)
    if not isinstance(facts, dict) or "message" not in facts:
        return escaped(line)
    time, level = str(facts.pop("time", ""))[11:23], str(facts.pop("level", ""))
    message, trace = facts.pop("message"), str(facts.pop("exception", ""))
    for name in _FOR_PROGRAMS:
        facts.pop(name, None)
    rest = "".join(f" {name}={value}" for name, value in facts.items())
    return escaped(f"{time} {level:<7} {message}{rest}") + (f"\n{escaped_lines(trace)}" if trace else "")


def set_up(member: str, level: str, *, as_json: bool, pair: str = "") -> JsonFormatter:
    """Sends every log line of this process to stderr. Returns what makes them, so that `epoch_of` can be set."""
    handler = logging.StreamHandler(sys.stderr)
    as_data = JsonFormatter(member, pair)
    handler.setFormatter(as_data if as_json else PlainFormatter(as_data))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    return as_data

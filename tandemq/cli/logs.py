"""Decides how log lines look: JSON for files, one short line for people; it never decides what is logged."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "member", "logger", "message", ...}` with whatever `extra` holds."""

    def __init__(self, member: str) -> None:
        super().__init__()
        self._member = member

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "member": self._member,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in record.__dict__.items() if name not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """The same for people."""

    def __init__(self, member: str) -> None:
        super().__init__()
        self._json = JsonFormatter(member)

    def format(self, record: logging.LogRecord) -> str:
        return readable(self._json.format(record))


def readable(line: str) -> str:
    """A JSON log line as people read it; any other line as it is."""
    try:
        facts = json.loads(line)
    except ValueError:
        return line
    if not isinstance(facts, dict) or "message" not in facts:
        return line
    time, level = str(facts.pop("time", ""))[11:23], str(facts.pop("level", ""))
    message, trace = facts.pop("message"), facts.pop("exception", "")
    facts.pop("member", None)
    facts.pop("logger", None)
    rest = "".join(f" {name}={value}" for name, value in facts.items())
    return f"{time} {level:<7} {message}{rest}" + (f"\n{trace}" if trace else "")


def set_up(member: str, level: str, *, as_json: bool) -> None:
    """Sends every log line of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(member) if as_json else PlainFormatter(member))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

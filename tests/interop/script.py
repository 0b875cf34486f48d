"""The script: read and checked as a whole before anything is done."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

# Keys of each verb, all of them needed.
VERBS = {
    "decode": ("message", "facts"),
    "create": ("queue", "type"),
    "send": ("queue", "count"),
    "stream": ("queue", "count", "batch"),
    "browse": ("queue", "first", "count"),
    "receive": ("queue", "count"),
    "settle": ("queue",),
    "consume": ("queue", "count"),
    "unit": ("queue", "into", "also"),
    "reply": ("queue",),
    "pairwise": ("queue",),
    "ask": ("queue", "copies", "answer"),
    "once": ("queue",),
    "answers": ("queue", "count"),
    "expect": ("queue", "length"),
    "kill": (),
    "handoff": (),
    "lose": (),
    "await": (),
}
NUMBERS = ("copies", "count", "batch", "first", "length")
CHOICES = {
    "type": ("one_way_queued_ack", "two_way"),
    "answer": ("sent", "stored", "refused"),
    "message": ("EnqueueRequest", "DequeueResponse", "ProduceResponse"),
}


class ScriptError(ValueError):
    """A line that cannot be carried out; the message says where it is and what is wrong."""


class Step(NamedTuple):
    """One line."""

    at: str  # file and line
    verb: str
    values: dict[str, str]


def parse(text: str, name: str) -> list[Step]:
    """All lines. Raises ScriptError."""
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            try:
                steps.append(Step(f"{name}:{number}", words[0], _values(words[0], words[1:])))
            except ScriptError as error:
                raise ScriptError(f"{name}:{number}: {error}") from None
    return steps


def read(path: Path) -> list[Step]:
    """Raises ScriptError, or OSError."""
    return parse(path.read_text(encoding="utf-8"), path.name)


def _values(verb: str, words: list[str]) -> dict[str, str]:
    if verb not in VERBS:
        raise ScriptError(f"unknown verb {verb}")
    values: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if not key or not value:
            raise ScriptError(f"{word} is not key=value")
        if key not in VERBS[verb]:
            raise ScriptError(f"{verb} has no {key}=")
        if key in values:
            raise ScriptError(f"{key}= is given twice")
        if key in NUMBERS and not re.fullmatch("[0-9]{1,7}", value):
            raise ScriptError(f"{word} is not a number")
        if value not in CHOICES.get(key, (value,)):
            raise ScriptError(f"{word} is none of {', '.join(CHOICES[key])}")
        values[key] = value
    for key in VERBS[verb]:
        if key not in values:
            raise ScriptError(f"{verb} needs {key}=")
    return values

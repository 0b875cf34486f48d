"""Decides what may not leave this machine in a bundle: passwords, tokens and keys, wherever they stand; names of hosts,
queues and members stay.

A value that was found to be secret is taken out everywhere, in logs as well. What looks like any other word,
such as a password that is a command's plain argument, is not found: a bundle is read before it is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tandemq.escaping import json_text

REDACTED = "(redacted)"
VALUE_CHARS_MIN = 4  # a shorter one stands in too many other words to be taken out everywhere

_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secrets?|tokens?|api[_-]?keys?|private[_-]?keys?|access[_-]?keys?|credentials?"
    r"|authorization"
)
_SECRET_NAME = re.compile(rf"(?:^|[^a-z])(?:{_WORDS})(?:$|[^a-z])", re.IGNORECASE)
_IN_TEXT = re.compile(
    rf"((?<![a-z])(?:{_WORDS})[\"']?\s*[=:]\s*[\"']?)((?:(?:bearer|basic)\s+)?[^\s\"',;]+)", re.IGNORECASE
)
_USER_INFO = re.compile(r"([a-z][a-z0-9+.-]*://)[^\s/@\"']+@", re.IGNORECASE)
_PLACE = re.compile(r"[_-](?:file|path|dir)$", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether what has this name should not be seen; where it is kept may."""
    return bool(_SECRET_NAME.search(name)) and not _PLACE.search(name)


class Redactor:
    """Remembers what it took out, so that it is taken out of what comes later too."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self.count = 0

    def note(self, value: str) -> str:
        """A value that is secret."""
        self.count += 1
        if len(value) >= VALUE_CHARS_MIN:
            self._values.add(value)
        return REDACTED

    def text(self, text: str) -> str:
        """Free text."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, REDACTED)
        text = _USER_INFO.sub(rf"\1{REDACTED}@", text)
        return _IN_TEXT.sub(lambda match: match[1] + self.note(match[2]) if match[2] != REDACTED else match[0], text)

    def value(self, value: Any, name: str = "") -> Any:
        """A value of any shape under this name."""
        if name and is_secret(name) and value not in ("", None, [], {}):
            return self.note(value) if isinstance(value, str) else REDACTED
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(inner, str(key)) for key, inner in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return (
                self.arguments([each for each in value if isinstance(each, str)])
                if _is_texts(value)
                else [self.value(each) for each in value]
            )
        return value

    def arguments(self, words: Sequence[str]) -> list[str]:
        """Words of a command: what follows an option with a secret name goes."""
        found: list[str] = []
        next_is_secret = False
        for word in words:
            name, separator, value = word.partition("=")
            if next_is_secret:
                found.append(self.note(word))
            elif separator and is_secret(name.lstrip("-")):
                found.append(f"{name}={self.note(value)}")
            else:
                found.append(self.text(word))
            next_is_secret = (
                not next_is_secret and not separator and word.startswith("-") and is_secret(name.lstrip("-"))
            )
        return found

    def line(self, line: str) -> str:
        """A line of a log: as JSON when it is that, so that it stays JSON."""
        try:
            facts = json.loads(line)
        except (ValueError, RecursionError):
            return self.text(line)
        if not isinstance(facts, dict):
            return self.text(line)
        return json_text(self.value(facts))

    def lines(self, text: str) -> str:
        """Many of them."""
        return "\n".join(self.line(line) for line in text.split("\n"))


def _is_texts(value: Sequence[Any]) -> bool:
    return all(isinstance(each, str) for each in value)

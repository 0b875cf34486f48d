"""What one check of the doctor found: a level, what was seen, why it matters and what to do; it checks nothing."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import msgspec


class Level(enum.StrEnum):
    """How it stands. `skipped`: it could not be looked at, which is no good news and no bad news."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line."""

    check: str
    """Name of the check, stable over versions: programs may look for it."""
    about: str
    """What it is about: this machine, a member, a file, the pair, a domain of it."""
    level: Level
    what: str
    why: str
    do: str = ""
    """What to do; empty when there is nothing."""
    facts: dict[str, Any] = {}


class Check(msgspec.Struct, frozen=True):
    """A check by its name, and why anybody would want to know."""

    name: str
    why: str

    def ok(self, about: str, what: str, **facts: Any) -> Finding:
        return Finding(check=self.name, about=about, level=Level.OK, what=what, why=self.why, facts=facts)

    def warn(self, about: str, what: str, do: str, **facts: Any) -> Finding:
        return Finding(check=self.name, about=about, level=Level.WARN, what=what, why=self.why, do=do, facts=facts)

    def fail(self, about: str, what: str, do: str, **facts: Any) -> Finding:
        return Finding(check=self.name, about=about, level=Level.FAIL, what=what, why=self.why, do=do, facts=facts)

    def skipped(self, about: str, what: str, do: str = "") -> Finding:
        return Finding(check=self.name, about=about, level=Level.SKIPPED, what=what, why=self.why, do=do)


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    """How many there are of each level."""
    found = [each.level for each in findings]
    return {level.value: found.count(level) for level in Level}

"""A reaction as it is asked for, and what one came to. Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

DELETE, MOVE, UPDATE = "delete", "move", "update"


class Reaction(NamedTuple):
    """What is to be found, and what is done with it."""

    queue: str
    action: str
    first: bool
    ids: frozenset[bytes] | None = None
    correlation: str | None = None
    group: str | None = None
    grade: int | None = None
    to: str = ""
    payload: bytes | None = None
    new_grade: int | None = None
    priority: int | None = None
    delay_ms: int | None = None
    report_to: str = ""
    call: str = ""
    """Correlation id of the report."""
    exceptions: str = ""
    keep_ms: int | None = None
    body: bytes = b""
    """As it is kept."""


@dataclass
class Counts:
    """What a reaction came to."""

    applied: int = 0
    locked: int = 0
    inert: int = 0
    dying: int = 0
    unreported: int = 0
    kept: bool = False
    held: int = 0

    @property
    def outcome(self) -> str:
        """V14."""
        if self.held:
            return "HELD"
        if self.applied:
            return "APPLIED"
        return "STORED" if self.kept else "LOCKED" if self.locked else "DISCARDED"

    @property
    def row(self) -> tuple[object, ...]:
        """As it is answered; nothing is refused, as all bodies are there."""
        numbers = self.applied, self.locked, self.inert, self.dying, 0, self.unreported, self.held
        return self.outcome, *numbers, self.kept

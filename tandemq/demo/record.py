"""Holds what was seen while the demo ran, for the screen and the picture; it decides nothing and looks at nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

GONE = "GONE"
KILL, RESTART, TAKEOVER, IN_SYNC, NOTE = "kill", "restart", "takeover", "in sync", "note"


class Event(NamedTuple):
    """Something worth a line."""

    at_s: float
    kind: str
    member: str
    text: str


class Sample(NamedTuple):
    """A member's role, seen at a time; GONE when it did not answer."""

    at_s: float
    role: str
    epoch: int


@dataclass(slots=True)
class Record:
    """Times are seconds since the pair was whole."""

    members: tuple[str, ...]
    samples: dict[str, list[Sample]] = field(default_factory=dict)  # by member, only changes
    acks: list[tuple[float, int]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    takeovers_s: list[float] = field(default_factory=list)  # from each kill to the next master's first acknowledgement
    ended_s: float = 0.0

    def saw(self, member: str, role: str, epoch: int, at_s: float) -> None:
        seen = self.samples.setdefault(member, [])
        if not seen or (seen[-1].role, seen[-1].epoch) != (role, epoch):
            seen.append(Sample(at_s, role, epoch))

    def rate(self, now_s: float, over_s: float = 1.0) -> float:
        """Acknowledged rows a second, over the last stretch."""
        total = 0
        for at_s, count in reversed(self.acks):
            if at_s < now_s - over_s:
                break
            total += count
        return total / over_s

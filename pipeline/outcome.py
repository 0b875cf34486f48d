"""What a job came to, for its report, its table and programs. Plain values; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

DONE, CLEAN, VIOLATIONS, DAMAGED = "done", "clean", "violations", "damaged"


class Mark(NamedTuple):
    """Something that happened at one time, across the lines of a plot."""

    at_s: float
    text: str
    kill: bool = False
    """What an operator looks for first."""


class Plot(NamedTuple):
    """Lines over time: name of each to its points, (seconds, value)."""

    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    marks: Sequence[Mark] = ()
    began_ms: int = 0
    """Second 0 as domain time; 0: it is of no clock that others share."""


class Table(NamedTuple):
    """Rows with the same keys, in the order of the first one's."""

    title: str
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one job. The first table is the summary."""

    job: str
    verdict: str
    lead: str
    """What was done, in a sentence."""
    tables: Sequence[Table]
    plots: Sequence[Plot] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """More for programs than the tables have."""

    @property
    def good(self) -> bool:
        return self.verdict not in (VIOLATIONS, DAMAGED)

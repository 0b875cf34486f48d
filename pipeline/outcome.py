"""What a job came to, for its report, its table and programs. Plain values; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

DONE, CLEAN, VIOLATIONS = "done", "clean", "violations"


class Plot(NamedTuple):
    """Lines over time: name of each to its points, (seconds, value)."""

    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


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
        return self.verdict != VIOLATIONS

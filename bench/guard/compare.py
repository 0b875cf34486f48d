"""Decides what a run of the guard means beside its baseline; measures nothing.

A figure may be a tenth worse. Everything that keeps it from being compared has a name of its own, and none is a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

WORSE_PERCENT_MAX = 10
"""By which a figure may rise; counts do not vary, so this is what a change may cost without being looked at."""
WORSE_LARGE_PERCENT_MAX = 5
"""Of large messages: one more copy of a batch is 9 % of what the master does with it."""
BETTER_PERCENT_MIN = 10
"""From here on the baseline is worth writing anew: it would hide as much of a later regression."""
OK, REGRESSED, NOT_COMPARED = 0, 1, 3
"""Exit codes."""


class Verdict(Enum):
    """Of one figure."""

    SAME = "same"
    WORSE = "WORSE"
    BETTER = "better"
    GONE = "GONE"
    """In the baseline and not measured: whoever takes a workload out says so in the baseline."""
    NEW = "NEW"
    """Measured and not in the baseline."""


@dataclass(frozen=True, slots=True)
class Line:
    """One figure, beside what it was."""

    name: str
    before: int
    now: int
    verdict: Verdict

    @property
    def change(self) -> float:
        return self.now / self.before - 1 if self.before and self.now else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of a whole run. `stale`: how the surroundings differ, as sentences; figures of such runs say nothing."""

    lines: tuple[Line, ...]
    stale: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        if self.stale:
            return NOT_COMPARED
        verdicts = {line.verdict for line in self.lines}
        if Verdict.WORSE in verdicts:
            return REGRESSED
        return NOT_COMPARED if verdicts & {Verdict.GONE, Verdict.NEW} or not verdicts else OK


def compared(baseline: Mapping[str, Any], about: Mapping[str, str], figures: Mapping[str, int]) -> Comparison:
    """A run with these surroundings and figures, beside the baseline."""
    known: Mapping[str, str] = baseline["about"]
    stale = [
        f"{name}: the baseline has {known.get(name, 'none')}, here is {about.get(name, 'none')}"
        for name in sorted(known.keys() | about.keys())
        if known.get(name) != about.get(name)
    ]
    before: Mapping[str, int] = baseline["figures"]
    lines = [_line(name, before.get(name, 0), figures.get(name, 0)) for name in {**before, **figures}]
    return Comparison(tuple(lines), tuple(stale))


def _line(name: str, before: int, now: int) -> Line:
    if not now:
        return Line(name, before, now, Verdict.GONE)
    if not before:
        return Line(name, before, now, Verdict.NEW)
    worse_max = WORSE_LARGE_PERCENT_MAX if " large: " in name else WORSE_PERCENT_MAX
    if now * 100 > before * (100 + worse_max):
        return Line(name, before, now, Verdict.WORSE)
    is_better = now * 100 < before * (100 - BETTER_PERCENT_MIN)
    return Line(name, before, now, Verdict.BETTER if is_better else Verdict.SAME)


def table(lines: tuple[Line, ...], unit: str = "instructions a batch") -> str:
    """For people: the worst first."""
    rows = [f"{unit:32} {'before':>12} {'now':>12}"]
    for line in sorted(lines, key=lambda line: -line.change):
        change = f"{line.change:+8.1%}" if line.before and line.now else " " * 8
        rows.append(f"{line.name:32} {line.before:12,} {line.now:12,} {change} {line.verdict.value}")
    return "\n".join(rows)

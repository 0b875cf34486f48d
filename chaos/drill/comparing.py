"""Holds two reports of one drill side by side and says what got worse; what proved nothing is not compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from chaos.drill.report import RESULT, SCHEMA_VERSION
from chaos.drill.verdict import FAIL, INVALID, PASS

WORSE_SHARE, WORSE_MS = 1.2, 200.0  # a time is worse when it is longer by both


class ReportError(RuntimeError):
    """A directory that holds no report, or one that cannot be compared."""


class KeptLine(msgspec.Struct, frozen=True):
    """One line of a report."""

    name: str
    value: float | None
    unit: str


class Report(msgspec.Struct, frozen=True):
    """What is compared of a report."""

    schema_version: int
    drill: str
    verdict: Literal["pass", "fail", "invalid"]
    origin: str
    rounds: Annotated[int, msgspec.Meta(ge=0)]
    invalid: list[str]
    lines: Annotated[list[KeptLine], msgspec.Meta(min_length=1)]

    @property
    def text(self) -> str:
        """For people."""
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        return f"{self.verdict.upper()}, {rounds} of {self.drill}, on {self.origin}"

    def summary(self) -> dict[str, Any]:
        """For programs."""
        return {"verdict": self.verdict, "rounds": self.rounds, "origin": self.origin}


class Compared(NamedTuple):
    """One line of two reports."""

    name: str
    before: float | None
    after: float | None
    worse: bool
    why: str = ""


class Comparison(NamedTuple):
    """Two reports of as many rounds of one drill."""

    before: Report
    after: Report
    lines: list[Compared]

    @property
    def worse(self) -> bool:
        """A line is, or the drill held and does not any more."""
        fell = (self.before.verdict, self.after.verdict) == (PASS, FAIL)
        return fell or any(line.worse for line in self.lines)


def compare(before: Path, after: Path) -> Comparison:
    """A count is worse when it is higher; a time when it is longer by a fifth and 200 ms; either when it is gone.

    Raises ReportError, also for two drills, a drill that proved nothing, and different numbers of rounds: several
    lines are sums over all rounds.
    """
    one, other = read(before), read(after)
    if one.drill != other.drill:
        raise ReportError(f"these are two drills: {one.drill} and {other.drill}")
    both = f"before: {one.text}; after: {other.text}"
    for directory, report in ((before, one), (after, other)):
        if report.verdict == INVALID or not report.rounds:
            why = "; ".join(report.invalid) or "no round was played"
            raise ReportError(f"the drill in {directory} proved nothing ({why}). {both}")
    if one.rounds != other.rounds:
        raise ReportError(f"{one.rounds} rounds and {other.rounds} cannot be compared, use --repeat. {both}")
    now = {line.name: line for line in other.lines}
    names = dict.fromkeys([*(line.name for line in one.lines), *now])
    was = {line.name: line for line in one.lines}
    return Comparison(one, other, [_compared(name, was.get(name), now.get(name)) for name in names])


def read(directory: Path) -> Report:
    """What a directory of `drill run --report-dir` holds. Raises ReportError."""
    path = directory / RESULT
    try:
        text = path.read_bytes()
        version = msgspec.json.decode(text, type=_Versioned).schema_version
        if version != SCHEMA_VERSION:
            raise ReportError(f"{path} is of schema version {version}, this is {SCHEMA_VERSION}")
        return msgspec.json.decode(text, type=Report)
    except OSError as error:
        raise ReportError(f"{directory} holds no report of a drill ({error})") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"{path} is broken: {error}") from error


class _Versioned(msgspec.Struct):
    schema_version: int


def _compared(name: str, was: KeptLine | None, now: KeptLine | None) -> Compared:
    old, new = (line.value if line is not None else None for line in (was, now))
    if old is None:
        return Compared(name, old, new, worse=False, why="" if new is None else "there was nothing to measure before")
    if now is None or new is None:
        return Compared(name, old, new, worse=True, why="there is nothing to measure any more")
    worse = new > old * WORSE_SHARE and new > old + WORSE_MS if now.unit else new > old
    return Compared(name, old, new, worse)

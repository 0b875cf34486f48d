"""What a benchmark writes, in one shape for all of them: what each run measured, and of what sources.

Nothing that follows from it is kept: no median, no ratio, no verdict. `Figures` makes these when they are shown, so
that no document can say of itself what its own figures do not bear out.

    benchmark   which one: `bench.shown.KINDS` knows them
    about       `facts()` when it began, and its commit when it had come to its end
    time        when it began
    options     what was asked for
    results     `of`: what was measured, in words. `runs`: each with its number, `run`, and what it measured. Beside
                them what holds of all runs together
    peers       what holds of all results of a peer, by its name
    failed      runs that broke off: of, run, why
    left_out    what each peer lacked that was not measured
    ended       it came to its end
"""

from __future__ import annotations

import datetime as dt
import json
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from bench.machine import facts
from bench.peers.figures import refusals, remarks

REMARK = re.compile(r" \(|: ")  # the figure of one run follows
DERIVED = ("refused", "remarks")

Of = tuple[str, ...]
Run = dict[str, Any]


@dataclass(slots=True)
class Document:
    """See above."""

    benchmark: str
    about: dict[str, Any]
    time: str
    options: dict[str, Any]
    results: list[dict[str, Any]] = field(default_factory=list)
    peers: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    ended: bool = False

    def add(self, of: Of, run: Mapping[str, Any], **more: Any) -> None:
        """What one run measured; `more` holds of all runs of the same."""
        result = next((each for each in self.results if tuple(each["of"]) == of), None)
        if result is None:
            self.results.append(result := {"of": list(of), **more, "runs": []})
        result["runs"].append({name: value for name, value in run.items() if name not in DERIVED})

    def all_runs(self) -> Iterator[tuple[dict[str, Any], Run]]:
        for result in self.results:
            for run in result["runs"]:
                yield result, run

    def figures(self) -> dict[Of, Figures]:
        """Of each result, in their order."""
        return {tuple(result["of"]): Figures(result) for result in self.results}

    def end(self) -> None:
        self.about["commit_afterwards"] = facts()["commit"]
        self.ended = True

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def begun(benchmark: str, options: Mapping[str, Any]) -> Document:
    """Before anything is measured."""
    return Document(benchmark, facts(), dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), dict(options))


def read(text: str) -> Document:
    """Raises ValueError or TypeError where it is none, also where a number is none: no comparison would find anything
    wrong with it."""

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is no number")

    found = Document(**json.loads(text, parse_constant=refuse))
    for result in found.results:
        if not all(isinstance(run["run"], int) for run in result["runs"]) or not isinstance(result["of"], list):
            raise ValueError(f"{result.get('of')} is no result")
    return found


class Spread(NamedTuple):
    """One figure over runs."""

    median: float
    least: float
    most: float
    runs: tuple[float, ...]

    @property
    def mean(self) -> float:
        """So that what happens in one run of many, as a checkpoint does, counts with its share."""
        return sum(self.runs) / len(self.runs)


def spread(values: Sequence[float]) -> Spread:
    return Spread(float(statistics.median(values)), min(values), max(values), tuple(values))


class Figures:
    """What is shown of one result: figures of its good runs, why others are refused, and what must be said of it."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.of: Of = tuple(result["of"])
        self.count = len(result["runs"])
        runs = {run["run"]: {**result, **run} for run in result["runs"]}
        reasons = {number: refusals(run) for number, run in runs.items()}
        self.good: dict[int, Run] = {number: run for number, run in runs.items() if not reasons[number]}
        self.refused = sorted({why for each in reasons.values() for why in each})
        self.remarks = sorted({REMARK.split(text)[0] for run in self.good.values() for text in remarks(run)})

    @property
    def said(self) -> list[str]:
        """What stands beside the figures, or in their place."""
        if not self.good:
            return [f"refused: {why}" for why in self.refused]
        bad = self.count - len(self.good)
        return [*([f"{bad} of {self.count} runs refused: {', '.join(self.refused)}"] if bad else []), *self.remarks]

    def values(self, *names: str) -> dict[int, float]:
        """A figure by run, or the sum of several."""
        found = {number: total(run, names) for number, run in self.good.items()}
        return {number: value for number, value in found.items() if value is not None}

    def spread(self, *names: str) -> Spread | None:
        """None: it was not measured."""
        values = self.values(*names)
        return spread(list(values.values())) if values else None

    def ratio(self, other: Figures | None, *names: str) -> Spread | None:
        """This divided by that, run by run, only where both have one: what a neighbour took from the machine is then
        in both."""
        if other is None:
            return None
        ours, theirs = self.values(*names), other.values(*names)
        found = [round(ours[run] / theirs[run], 3) for run in sorted(ours) if theirs.get(run)]
        return spread(found) if found else None

    @property
    def load(self) -> float:
        """Of a core, by the busiest process of load."""
        return max((max(run.get("load_share", {}).values(), default=0.0) for run in self.good.values()), default=0.0)

    @property
    def foreign_cores(self) -> float:
        """Of the machine, by others, in the worst run."""
        return max(self.values("foreign_cores").values(), default=0.0)


def total(measured: Mapping[str, Any], names: Iterable[str]) -> float | None:
    """`us.master` is `master` of `us`."""
    found = [lookup(measured, name) for name in names]
    return None if None in found else sum(value for value in found if value is not None)


def lookup(measured: Mapping[str, Any], name: str) -> float | None:
    found: Any = measured
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    value: float | None = found
    return value

"""Whether a document may be shown to readers: is it whole, and can its figures all be true?

A run whose own account, settings, syncs or load condemn it is in no figure (`bench.peers.figures.refusals`), and of it
nothing else is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.document import Document, Of, Run, lookup
from bench.machine import is_commit
from bench.peers.figures import NOISY_CORES, PERCENTILES, refusals

NAMED_MAX = 5
"""Runs that are named of those of which the same is to be said."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a kind of document must hold."""

    wanted: Callable[[Document], Mapping[Of, int]]
    """How many runs of what."""
    runs_min: int
    """Of `options.runs`: fewer show no spread."""
    fields: Callable[[Of, Run], Iterable[str]]
    """What each run must have measured."""
    seconds_min: float = 0.0
    quiet: bool = True
    """A run while others used the machine is not shown. Not so where noise makes a figure worse alone: the page says
    it."""
    more: Callable[[Document], Iterable[str]] = lambda _: ()
    """What else is wrong with a document of this kind."""


def unfit(document: Document, plan: Plan) -> list[str]:
    """Why a document must not be shown; empty when it may."""
    about, options = document.about, document.options
    found = []
    if not is_commit(about["commit"]):
        found.append("it was measured on changes that are in no commit")
    if not document.ended:
        found.append("it was stopped before it was done")
    if (began := about["commit"]) != (ended := about.get("commit_afterwards", began)):
        found.append(f"the sources changed while it was measured, from {began} to {ended}")
    if options["runs"] < plan.runs_min:
        found.append(f"{options['runs']} runs; {plan.runs_min} show a spread")
    if (seconds := options.get("seconds", plan.seconds_min)) < plan.seconds_min:
        found.append(f"{seconds:g} s of each are to see that it runs")
    if options.get("share", 1) != 1:
        found.append("it was measured with fewer messages, to see that it runs")
    found += [f"{named(failure['of'])} failed in run {failure['run'] + 1}" for failure in document.failed]
    cores = [run.get("foreign_cores") or result.get("foreign_cores") or 0.0 for result, run in document.all_runs()]
    if plan.quiet and (noisy := sum(each > NOISY_CORES for each in cores)):
        found.append(f"{noisy} of {len(cores)} runs while others used the machine")
    return [*found, *missing(document, plan.wanted(document)), *contradictions(document, plan), *plan.more(document)]


def missing(document: Document, wanted: Mapping[Of, int]) -> list[str]:
    """Runs that are not there, or twice, or of what was never asked for."""
    there = [(tuple(result["of"]), run["run"]) for result, run in document.all_runs()]
    stopped = [(tuple(failure["of"]), failure["run"]) for failure in document.failed]

    def broke_off(of: Of, run: int) -> bool:
        return any(of[: len(part)] == part and run == number for part, number in stopped)

    asked = {(of, run) for of, runs in wanted.items() for run in range(runs) if not broke_off(of, run)}
    what = {
        "no result of": asked - set(there),
        "more than one result of": {key for key in there if there.count(key) > 1},
        "not asked for:": {key for key in set(there) - asked if not broke_off(*key)},
    }
    return [f"{head} {listed(sorted(keys))}" for head, keys in what.items() if keys]


def contradictions(document: Document, plan: Plan) -> list[str]:
    """What runs leave out, or cannot be true of them."""
    found: dict[str, list[tuple[Of, int]]] = {}
    for result, alone in document.all_runs():
        of, run = tuple(result["of"]), {**result, **alone}
        if not refusals(run):
            lacking = [name for name in plan.fields(of, run) if lookup(run, name) is None]
            for why in [f"without {', '.join(lacking)}"] if lacking else figures_apart(of, run):
                found.setdefault(why, []).append((of, run["run"]))
    return [f"{why}: {listed(keys)}" for why, keys in found.items()]


def figures_apart(of: Of, run: Mapping[str, Any]) -> Iterator[str]:
    """Figures of one run that cannot all be true."""
    if (seconds := run.get("seconds")) and "messages" in run:
        rate = run["messages"] / seconds
        if abs(run["value"] - rate) > 0.051 + rate * 0.00051 / seconds:  # both are rounded
            yield "value is not messages in seconds"
    if account := run.get("account"):
        if account["sent"] != account["received"] - account["unknown"] + account["lost"]:
            yield "the account does not add up"
        if run.get("sent", account["sent"]) != account["sent"]:
            yield "the account is not of what was sent"
        if run.get("messages", 0) > account["sent"]:
            yield "more messages were measured than sent"
    times = [run[name] for name in PERCENTILES if name in run]
    if times != sorted(times):
        yield "percentiles that fall"
    if times and times[0] <= 0 and ("rate" in run or of[-1] == "single"):
        yield "percentiles of no time"


def named(of: Iterable[str]) -> str:
    return " ".join(of)


def listed(keys: list[tuple[Of, int]]) -> str:
    shown = [f"{named(of)} (run {run + 1})" for of, run in keys[:NAMED_MAX]]
    return ", ".join(shown) + (f" and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else "")

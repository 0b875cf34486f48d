"""Finds a smaller plan that shows the same violation, by leaving parts out and running what is left; it never returns
a plan that it has not seen fail.

A candidate counts when one of its violations is the same finding as that of the plan that was given: of the invariant
that it was kept for, or else its first one. Parts go in the order in which they confuse a reader most: faults, whole
clients, calls; then times move earlier and become round, then arguments become as simple as they can be. All of it is
tried again until nothing changes any more or the budget of runs is spent. Equal plans and equal runs give equal
results.

Asked of whatever runs a plan: it ends for every plan, and raises ValueError for one that it cannot carry out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from chaos.sim.pair.plan import Call, ClientPlan, Fault, Outcome, Plan, Runner, Value

Part = TypeVar("Part")
Timed = TypeVar("Timed", Fault, Call)

ROUND_MS = (1_000, 500, 100, 50, 10)
"""Coarsest first: the first of them that still fails is taken."""


FAILURES = frozenset({"process failed", "client failed", "problem"})
STUCK = "stuck"
"""Violations of these kinds name no invariant: that something failed, or stopped, has many causes."""
_WHOM = re.compile(r"\b(?:\w*\d\w*|[a-z])\b")
"""Numbers, ids, and names of members and clients."""


def kind_of(violation: str) -> str:
    """The invariant, without the client or member of this time."""
    return violation.partition(":")[0].strip()


def finding_of(violation: str) -> str:
    """What must be shown again: the invariant, or what failed or stopped where none is named; never at which member."""
    kind, _, text = violation.partition(":")
    if kind in FAILURES:
        return f"{kind}: {_WHOM.sub('', text)}"
    return f"{kind}: {text.partition(':')[0].strip()}" if kind == STUCK else kind.strip()


def shows(outcome: Outcome, kind: str) -> bool:
    """Whether this violation is among those that were found."""
    return any(kind_of(violation) == kind for violation in outcome.violations)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it has come."""

    runs: int
    budget: int
    step: str
    faults: int
    clients: int
    calls: int


def is_healed(plan: Plan) -> bool:
    """Whether every fault strikes before everything is healed: one that came later would last for ever."""
    return all(fault.at_ms < plan.safety_ms for fault in plan.faults)


def no_report(progress: Progress) -> None:
    """For callers that do not watch."""
    del progress


def shrink(
    plan: Plan, run: Runner, budget: int, report: Callable[[Progress], None] = no_report, wanted: str = ""
) -> Plan:
    """The smallest plan found within `budget` runs. `wanted`: the invariant that it was kept for, if any. Raises
    ValueError when the plan given does not fail at all.
    """
    return Shrinker(plan, run, budget, report, wanted).smallest()


class Shrinker:
    """One search: the smallest failing plan so far, and what has been tried."""

    def __init__(
        self,
        plan: Plan,
        run: Runner,
        budget: int,
        report: Callable[[Progress], None] = no_report,
        wanted: str = "",
    ) -> None:
        """See `shrink`."""
        shown = run(plan).violations
        if not shown:
            raise ValueError("this plan shows no violation: there is nothing to shrink")
        meant = next((each for each in shown if kind_of(each) == wanted), shown[0])
        self.kind, self._finding = kind_of(meant), finding_of(meant)
        self.best = plan
        self.runs = 1
        self._run = run
        self._budget = budget
        self._report = report
        self._tried = {plan.to_json()}
        self._step = ""

    def smallest(self) -> Plan:
        """Goes on until one whole round changes nothing, or the budget is spent."""
        steps = {
            "faults": self._fewer_faults,
            "clients": self._fewer_clients,
            "calls": self._fewer_calls,
            "safety": self._shorter,
            "times": self._simpler_times,
            "arguments": self._simpler_args,
            "settings": self._fewer_settings,
        }
        before = None
        while before != self.best and not self.spent:
            before = self.best
            for self._step, step in steps.items():
                step()
        return self.best

    @property
    def spent(self) -> bool:
        """Nothing more is tried: the best so far is the answer."""
        return self.runs >= self._budget

    def accepts(self, candidate: Plan) -> bool:
        """Runs it, and makes it the best one when it fails alike."""
        text = candidate.to_json()
        if self.spent or text in self._tried or not is_healed(candidate):
            return False
        self._tried.add(text)
        self.runs += 1
        try:
            fails = any(finding_of(each) == self._finding for each in self._run(candidate).violations)
        except ValueError:  # not a plan that can be carried out
            fails = False
        if fails:
            self.best = candidate
        calls = sum(len(client.calls) for client in self.best.clients)
        faults, clients = len(self.best.faults), len(self.best.clients)
        self._report(Progress(self.runs, self._budget, self._step, faults, clients, calls))
        return fails

    def _fewer_faults(self) -> None:
        minimise(self.best.faults, lambda faults: self.accepts(replace(self.best, faults=faults)))

    def _fewer_clients(self) -> None:
        minimise(self.best.clients, lambda clients: self.accepts(replace(self.best, clients=clients)))

    def _fewer_calls(self) -> None:
        """Over the calls of all clients at once: what only two of them show together stays together."""
        clients = self.best.clients
        places = tuple((at, number) for at, client in enumerate(clients) for number in range(len(client.calls)))

        def accepts(kept: tuple[tuple[int, int], ...]) -> bool:
            wanted = set(kept)
            fewer = tuple(
                replace(client, calls=tuple(call for number, call in enumerate(client.calls) if (at, number) in wanted))
                for at, client in enumerate(clients)
            )
            return self.accepts(replace(self.best, clients=fewer))

        minimise(places, accepts)

    def _shorter(self) -> None:
        last = max((fault.at_ms for fault in self.best.faults), default=0)
        for wanted in (*(math.ceil((last + 1) / unit) * unit for unit in reversed(ROUND_MS)), last + 1_000):
            if wanted < self.best.safety_ms and self.accepts(replace(self.best, safety_ms=wanted)):
                return

    def _simpler_times(self) -> None:
        self._no_gaps()
        for at in range(len(self.best.faults)):
            for wanted in _simpler_ms(self.best.faults, at):
                fault = replace(self.best.faults[at], at_ms=wanted)
                if self.accepts(replace(self.best, faults=_with(self.best.faults, at, fault))):
                    break
        for which, client in enumerate(self.best.clients):
            for at in range(len(client.calls)):
                for wanted in _simpler_ms(self.best.clients[which].calls, at):
                    if self.accepts(_with_call(self.best, which, at, at_ms=wanted)):
                        break

    def _no_gaps(self) -> None:
        """Everything from some time on happens earlier, so that little time passes in which nothing is planned."""
        times = _times(self.best)
        for at in range(len(times)):
            now = _times(self.best)
            if at >= len(now):  # two times became one
                return
            start, before = now[at], now[at - 1] if at else 0
            for gap in (0, 10, 100, 500, 1_000):
                if start - before > gap and self.accepts(_moved(self.best, start, start - before - gap)):
                    break

    def _simpler_args(self) -> None:
        """Of faults and calls. A client's own say who it is; two that became the same would fail for that."""
        for at in range(len(self.best.faults)):
            for name in sorted(self.best.faults[at].args):
                self._simpler_fault_arg(at, name)
        for which in range(len(self.best.clients)):
            for at in range(len(self.best.clients[which].calls)):
                for name in sorted(self.best.clients[which].calls[at].args):
                    self._simpler_call_arg(which, at, name)

    def _simpler_fault_arg(self, at: int, name: str) -> None:
        for args in _simpler(self.best.faults[at].args, name):
            fault = replace(self.best.faults[at], args=args)
            if self.accepts(replace(self.best, faults=_with(self.best.faults, at, fault))):
                return

    def _simpler_call_arg(self, which: int, at: int, name: str) -> None:
        for args in _simpler(self.best.clients[which].calls[at].args, name):
            if self.accepts(_with_call(self.best, which, at, args=args)):
                return

    def _fewer_settings(self) -> None:
        """Each of them has a default."""
        for name in sorted(self.best.settings):
            fewer = {key: value for key, value in self.best.settings.items() if key != name}
            self.accepts(replace(self.best, settings=fewer))


def minimise(parts: Sequence[Part], accepts: Callable[[tuple[Part, ...]], bool]) -> tuple[Part, ...]:
    """Delta debugging (ddmin): the parts that are left when none of them can go alone.

    `accepts` says whether these parts, in this order, are enough. Tries none at all first, then halves, then ever
    smaller shares, each share alone left out.
    """
    kept = tuple(parts)
    if not kept or accepts(()):
        return ()
    shares = 2
    while len(kept) > 1:
        for share in _shares(len(kept), shares):
            fewer = kept[: share.start] + kept[share.stop :]
            if fewer and accepts(fewer):
                kept, shares = fewer, max(shares - 1, 2)
                break
        else:
            if shares >= len(kept):
                break
            shares = min(shares * 2, len(kept))
    return kept


def _shares(count: int, shares: int) -> Iterator[range]:
    """The last share first: what comes late in a plan is most often not needed."""
    for number in reversed(range(shares)):
        yield range(count * number // shares, count * (number + 1) // shares)


def _simpler_ms(parts: Sequence[Timed], at: int) -> list[int]:
    """Earlier and rounder times for this one, simplest first; it does not overtake the one before it."""
    now: int = parts[at].at_ms
    before: int = parts[at - 1].at_ms if at else 0
    rounder = [0, before, *(now // unit * unit for unit in ROUND_MS)]
    return sorted({ms for ms in rounder if before <= ms < now})


def _times(plan: Plan) -> list[int]:
    calls = {call.at_ms for client in plan.clients for call in client.calls}
    return sorted(calls | {fault.at_ms for fault in plan.faults})


def _moved(plan: Plan, start_ms: int, by_ms: int) -> Plan:
    """Everything from `start_ms` on happens so much earlier."""

    def moved(parts: tuple[Timed, ...]) -> tuple[Timed, ...]:
        return tuple(replace(part, at_ms=part.at_ms - by_ms) if part.at_ms >= start_ms else part for part in parts)

    clients = tuple(replace(client, calls=moved(client.calls)) for client in plan.clients)
    return replace(plan, faults=moved(plan.faults), clients=clients, safety_ms=max(plan.safety_ms - by_ms, 0))


def _simpler(args: dict[str, Value], name: str) -> Iterator[dict[str, Value]]:
    """With simpler values of this one, simplest first. It stays: its kind may need it."""
    for value in simpler_values(args[name]):
        yield {**args, name: value}


def simpler_values(value: Value) -> list[Value]:
    """Values of the same type that a reader has less to think about, simplest first."""
    simpler: list[Value]
    match value:
        case bool():
            simpler = [False] if value else []
        case int():
            roots = {0, 1, *(int(value / unit) * unit for unit in ROUND_MS), int(value / 2)}
            simpler = [number for number in sorted(roots) if abs(number) < abs(value)]
        case float():
            simpler = [number for number in (0.0, 1.0, round(value, 1)) if abs(number) < abs(value)]
        case str():
            simpler = [""] if value else []
    return simpler


def _with(parts: tuple[Part, ...], at: int, part: Part) -> tuple[Part, ...]:
    return (*parts[:at], part, *parts[at + 1 :])


def _with_call(
    plan: Plan, which: int, at: int, *, at_ms: int | None = None, args: dict[str, Value] | None = None
) -> Plan:
    client: ClientPlan = plan.clients[which]
    call = client.calls[at]
    call = replace(call, at_ms=call.at_ms if at_ms is None else at_ms, args=call.args if args is None else args)
    return replace(plan, clients=_with(plan.clients, which, replace(client, calls=_with(client.calls, at, call))))

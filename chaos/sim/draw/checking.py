"""Says what is wrong with a plan before anything of it happens; it changes nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import isfinite
from random import Random

from chaos.sim.bugs.planting import BUGS
from chaos.sim.clients.roles import ROLES
from chaos.sim.faults.kinds import at_first
from chaos.sim.faults.table import KINDS
from chaos.sim.pair.plan import Fault, Plan
from chaos.sim.pair.run import JUDGES


def check(plan: Plan) -> None:
    """Raises ValueError for one that cannot be carried out: which field, what it says, what there is."""
    for problem in _problems(plan):
        raise ValueError(f"not a plan: {problem}")


def _problems(plan: Plan) -> Iterator[str]:
    yield from _unknown("settings.judge", plan.settings.get("judge", JUDGES[0]), JUDGES)
    if plan.bug:
        yield from _unknown("bug", plan.bug, BUGS)
    yield from _bad_time("safety_ms", plan.safety_ms)
    for number, fault in enumerate(plan.faults):
        yield from _of_fault(f"faults[{number}]", fault, plan)
    names = [client.name for client in plan.clients]
    for number, client in enumerate(plan.clients):
        if client.name in names[:number]:
            yield f"clients[{number}].name is {client.name!r}, as another client's"
        yield from _unknown(f"clients[{number}].role", client.role, sorted(ROLES))
        for at, call in enumerate(client.calls):
            yield from _bad_time(f"clients[{number}].calls[{at}].at_ms", call.at_ms)


def _of_fault(field: str, fault: Fault, plan: Plan) -> Iterator[str]:
    yield from _unknown(f"{field}.kind", fault.kind, KINDS)
    target = at_first(fault.target) if "links" in plan.settings else fault.target
    yield from _unknown(f"{field}.target", target, KINDS[fault.kind].targets)
    _, wanted = KINDS[fault.kind].kind.draw(Random(0))
    for name, drawn in wanted.items():
        if name not in fault.args:
            yield f"{field}.args has no {name!r}; {fault.kind!r} takes {', '.join(wanted)}"
        elif _sort_of(fault.args[name]) != _sort_of(drawn):
            yield f"{field}.args.{name} is {fault.args[name]!r}; {fault.kind!r} draws such as {drawn!r}"
    yield from _bad_time(f"{field}.at_ms", fault.at_ms)
    if fault.at_ms > plan.safety_ms:
        yield f"{field}.at_ms is {fault.at_ms}, and everything is healed at safety_ms, {plan.safety_ms}"


def _unknown(field: str, value: object, known: Collection[str]) -> Iterator[str]:
    if value not in known:
        yield f"{field} is {value!r}; there are: {', '.join(known)}"


def _sort_of(value: object) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _bad_time(field: str, value: object) -> Iterator[str]:
    if not isinstance(value, int | float) or not isfinite(value) or value < 0:
        yield f"{field} is {value!r}; it is a time in milliseconds, 0 or more"

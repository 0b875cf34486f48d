"""Plants known bugs in the product, so that a campaign that finds none of them is known to be worth nothing.

Each takes one rule out of the product's real code. A run shows a bug when it has a violation that the same plan does
not have without it: `shown`. A rule that no run shows stands in `chaos.sim.bugs.elsewhere`, with what does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from chaos.sim.bugs import (
    commits,
    damage,
    epochs,
    features,
    handoffs,
    letters,
    links,
    macros,
    open_units,
    pipeline,
    proxies,
    queues,
    reactions,
    requests,
    rights,
    saving,
    sdk,
    shells,
    sides,
    transfers,
    turns,
    units,
    weights,
)
from chaos.sim.bugs.planting import BUGS, Bug
from chaos.sim.pair.plan import Outcome, Plan

_PLANTED_BY = (
    commits,
    damage,
    epochs,
    features,
    handoffs,
    letters,
    links,
    macros,
    open_units,
    pipeline,
    proxies,
    queues,
    reactions,
    requests,
    rights,
    saving,
    sdk,
    shells,
    sides,
    transfers,
    turns,
    units,
    weights,
)


_MISFIT = re.compile(r"TypeError\(.*(positional argument|keyword argument|required keyword)")
"""What a plant shows that is called with other arguments than it takes."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The product has that bug for as long as this lasts; none for an empty name. KeyError: there is no such bug."""
    if not name:
        yield
        return
    with BUGS[name].plant():
        yield


def shown(plan: Plan, run: Callable[[Plan], Outcome]) -> Outcome:
    """Runs a plan with its bug; violations that the plan has without the bug too do not count."""
    with planted(plan.bug):
        outcome = run(plan)
    if plan.bug and outcome.violations:
        known = {_kind(line) for line in run(replace(plan, bug="")).violations}
        outcome.violations = [line for line in outcome.violations if _kind(line) not in known]
        misfit = next(filter(_MISFIT.search, outcome.violations), "")
        assert not misfit, f"{plan.bug} is found by its own error, for what it takes out has changed: {misfit}"
    return outcome


def _kind(violation: str) -> str:
    return violation.partition(":")[0]


__all__ = ["BUGS", "Bug", "planted", "shown"]

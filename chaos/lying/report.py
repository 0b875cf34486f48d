"""Decides what rounds come to together: the figures, and whether they pass."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any

from chaos.lying.rounds import Outcome


def figures(outcomes: Sequence[Outcome], seed: int) -> dict[str, Any]:
    """The named figures first; what a round in which one started alone lost counts only as unnoticed."""
    both = [each for each in outcomes if not each.plan.alone]
    alone = [each for each in outcomes if each.plan.alone]
    total = {
        "rounds": len(both),
        "hurt": sum(each.hurt for each in both),
        "acknowledged": sum(each.acknowledged for each in both),
        "lost": sum(each.lost for each in both),
        "called_unacknowledged": sum(each.called_unacknowledged for each in both),
        "unnoticed_alone": sum(bool(each.lost) and not each.noticed for each in alone),
    }
    stuck = sum(bool(each.stuck) for each in both)
    doubled, breaks = sum(each.doubled for each in both), sum(each.out_of_order for each in both)
    bad = total["lost"] or total["called_unacknowledged"] or stuck or doubled or breaks
    return {
        **total,
        "verdict": "fail" if bad or not total["rounds"] else "pass",
        "doubled": doubled,
        "out_of_order": breaks,
        "stuck": stuck,
        "rounds_that_lost": sum(bool(each.lost) for each in both),
        "refused": sum(each.refused for each in both),
        "gone_from_the_hurt_copy": sum(each.gone_there for each in both),
        "salvaged": sum(each.salvaged for each in both),
        "alone": len(alone),
        "alone_lost": sum(bool(each.lost) for each in alone),
        "seed": seed,
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "each": [row(outcome) for outcome in outcomes],
    }


def row(outcome: Outcome) -> dict[str, Any]:
    """One round."""
    plan = outcome.plan._asdict()
    seen = {name: getattr(outcome, name) for name in Outcome.__dataclass_fields__ if name != "plan"}
    return {**plan, **seen}


def line(outcome: Outcome) -> str:
    """One round, for people."""
    plan = outcome.plan
    first = f"{plan.number:>3} {plan.victim:<8}{plan.kind:<15}{plan.writes} {'alone' if plan.alone else plan.order:<12}"
    what = f"hurt {outcome.gone_there:>5}" if outcome.hurt else "not hurt  "
    words = [f"lost {outcome.lost} of {outcome.acknowledged}"]
    words += [f"called unacknowledged {outcome.called_unacknowledged}"] * bool(outcome.called_unacknowledged)
    words += ["refused to start"] * outcome.refused + ["noticed"] * outcome.noticed
    words += [f"doubled {outcome.doubled}"] * bool(outcome.doubled)
    words += [f"out of order {outcome.out_of_order}"] * bool(outcome.out_of_order)
    words += [f"STUCK: {outcome.stuck}"] * bool(outcome.stuck)
    return f"{first}{what}  {', '.join(words)}"

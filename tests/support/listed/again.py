"""Repeats, at a simulated pair, the steps that a failure has printed: paste them into an interpreter."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.listed import doing
from tests.support.listed.run import Run
from tests.support.listed.simulated import simulated
from tests.support.listed.steps import Fault, Step

__all__ = ["Fault", "Step", "again"]


def again(kinds: tuple[int, int], steps: Iterable[Step]) -> Run:
    """The first two queues are of these kinds (`admin.CONFIGS`). Raises DisagreementError."""
    with simulated() as driver:
        run = Run(driver, kinds)
        doing.carry_out(run, steps)
    return run

"""What is read back from a snapshot is the same in all that it holds, knows and waits for, and goes on as the other."""

from __future__ import annotations

from typing import Any

import pytest

from replica.machine import Machine
from replica.machine.plan.selecting import plan_select
from tests.unit.replica.machine.driver import MEMBERS
from tests.unit.replica.machine.everything import everything, state_of


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Where, in words: the whole is too much to read."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for key in one for found in differences(one[key], other[key], f"{place}.{key}")]
    return [] if one == other else [f"{place}: {one} is not {other}"]


@pytest.mark.parametrize("committed", [True, False])
def test_it_is_the_same_in_all_that_it_holds(committed: bool) -> None:
    driver = everything()
    driver.commits = committed
    driver.send(2, queue="plain")
    driver.send(1, queue="target")
    chosen, state = driver.master.state.named("chosen"), driver.master.state
    driver.order(driver.plan(lambda: plan_select(state, driver.now_ms, chosen, 5, None)))
    again = driver.restored()
    assert differences(state_of(again), state_of(driver.master)) == []
    assert again.state.commit_index == driver.master.state.commit_index
    for machine in (again, driver.master):
        machine.commit(driver.log_index)
    assert differences(state_of(again), state_of(driver.master)) == []
    assert again.digest() == driver.replica.digest()


def test_it_goes_on_as_the_other() -> None:
    """Time passes and everything ends, on the one that was read back and on the one that has lived through it."""
    driver = everything()
    driver.master = Machine.restore(driver.master.snapshot(), MEMBERS, driver.limits)
    for passed_ms in (1, 10_000, 30_000, 60_000, 300_000, 400_000, 90_000_000):
        driver.now_ms += passed_ms
        driver.expire()
        driver.replica.commit(driver.log_index)
        assert differences(state_of(driver.replica), state_of(driver.master)) == []
    assert "idle" not in driver.master.names()


def test_everything_is_in_it() -> None:
    """Or the comparison would say nothing of what is missing."""
    held = state_of(everything().master)["held"]
    queues = held["queues"].values()
    empty = [name for name, value in held.items() if not value]
    assert empty == []
    for name in ("blocked", "_lines", "by_hash", "gathering"):
        assert any(queue["groups"] and queue["groups"].get(name) for queue in queues)
    for name in ("answers", "buckets", "unended", "addressed", "owed", "deadlines"):
        assert any(queue["completions"] and queue["completions"][name] for queue in queues), name
    plain_ones = set(next(iter(queues))) - {"groups", "completions"}
    assert {name for name in plain_ones if not any(queue[name] for queue in queues)} == set()
    assert len(held["stages"]["publications"]) == 2


def test_the_comparison_sees_a_difference() -> None:
    driver = everything()
    other = driver.restored()
    other.state.queues[2].deliveries.clear()
    other.state.stages.writers.clear()
    found = differences(state_of(other), state_of(driver.master))
    assert {each.split(":")[0] for each in found} == {".held.queues.2.deliveries", ".held.stages.writers"}

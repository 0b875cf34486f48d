"""What counted once counts on, but for whoever may be answered from the past; and who claims a name gets nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.sim.judges.rights import Event, Kind, broken


def pair_with(*patterns: str) -> Any:
    """Both members have these grants; the run is asked for nothing."""
    keys = [SimpleNamespace(pattern=each) for each in patterns]
    machine = SimpleNamespace(state=SimpleNamespace(rights=SimpleNamespace(grants=keys)))
    member = SimpleNamespace(domain=SimpleNamespace(shared=SimpleNamespace(machine=machine)))
    met: list[str] = []
    return SimpleNamespace(members={"a": member, "b": member}, run=SimpleNamespace(sometimes=met.append), met=met)


def asked(pattern: str, asked_s: float, *, allowed: bool, epoch: int = 1, may_be_old: bool = False) -> Event:
    event = Event(Kind.ASK, pattern, asked_s, epoch=epoch, may_be_old=may_be_old)
    event.ends(asked_s + 0.1, allowed=allowed)
    return event


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([asked("p", 1.0, allowed=True), asked("p", 2.0, allowed=True)], ""),
        ([asked("p", 1.0, allowed=True), asked("p", 2.0, allowed=False)], "not any more"),
        ([asked("p", 1.0, allowed=True), asked("p", 1.05, allowed=False)], ""),
        ([asked("p", 1.0, allowed=True), asked("p", 2.0, allowed=False, may_be_old=True)], ""),
        ([asked("p", 1.0, allowed=False), asked("p", 2.0, allowed=True)], ""),
        ([asked("gone", 1.0, allowed=True)], "a does not have it"),
    ],
)
def test_a_right_that_counted_counts_on(events: list[Event], problem: str) -> None:
    found = list(broken(pair_with("p"), events))
    assert (problem in found[0] if found else problem == "") is True


@pytest.mark.parametrize("allowed", [True, False])
def test_a_claim_is_refused(allowed: bool) -> None:
    event = Event(Kind.CLAIM, "p", 1.0)
    event.ends(1.1, allowed=allowed)
    assert bool(list(broken(pair_with("p"), [event]))) is allowed


def test_a_claim_that_nobody_answered_breaks_nothing() -> None:
    assert list(broken(pair_with("p"), [Event(Kind.CLAIM, "p", 1.0)])) == []


def test_who_asks_another_master_is_noticed() -> None:
    pair = pair_with("p")
    assert list(broken(pair, [asked("p", 1.0, allowed=True), asked("p", 2.0, allowed=True, epoch=2)])) == []
    assert pair.met == ["a right asked about after a takeover"]

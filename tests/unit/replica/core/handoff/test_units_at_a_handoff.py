"""Open units of work while a handoff drains: what ends them is let through, and nothing of them is in doubt (U10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from failover.handoff import HandoffState
from replica.core.state.calls import BeginUnit, PendingCall, RollbackUnit
from replica.core.state.outcomes import Moved, UnitDone, UnitEnded
from tests.support.clients import Waiter
from tests.support.handing import Run
from tests.unit.replica.core.ordering.test_open_units import asked, begun, commit, commit_of, payloads, put, why

if TYPE_CHECKING:
    from tests.support.pair import Pair


def submitted(run: Run, call: Any) -> Waiter:
    waiter = Waiter()
    run.a.submit(PendingCall(waiter, call))
    return waiter


def units_of(pair: Pair, count: int) -> list[bytes]:
    found = []
    for number in range(count):
        unit = begun(pair)
        put(pair, unit, "q", b"of unit %d" % number)
        found.append(unit)
    return found


def drain(run: Run) -> None:
    run.hand_over(run.a)
    for _ in run.until(run.a, HandoffState.DRAINING, disks=""):
        pass


def test_u10_what_ends_a_unit_is_served_while_a_handoff_drains() -> None:
    run = Run()
    pair = run.pair
    committed, left, undone, grows = units_of(pair, 4)
    run.load()
    drain(run)
    commits, rolls_back = submitted(run, commit_of(pair, committed)), submitted(run, RollbackUnit(undone))
    begins = submitted(run, BeginUnit(b"", 0))
    assert (begins.answers, run.state(run.a)) == ([], HandoffState.DRAINING)
    for _ in run.flow():
        pass
    assert pair.master is run.b
    assert isinstance(commits.done, UnitDone)
    assert rolls_back.done == UnitEnded(0)
    assert isinstance(begins.done, Moved), "no unit begins in a drain"
    assert commit(pair, committed).duplicate
    for unit in (left, grows):
        assert why(commit(pair, unit)) == "TXN_ABORTED"
    assert asked(pair, RollbackUnit(undone)) == UnitEnded(0)
    there = [payload for payload in payloads(pair) if payload.startswith(b"of unit")]
    assert there == [b"of unit 0"]


def test_u10_a_commit_that_comes_when_the_role_is_given_away_says_what_became_of_it() -> None:
    run = Run()
    pair = run.pair
    (unit,) = units_of(pair, 1)
    call = commit_of(pair, unit)
    run.hand_over(run.a)
    for _ in run.until(run.a, HandoffState.CEDING):
        pass
    late = submitted(run, call)
    for _ in run.flow():
        pass
    assert isinstance(late.done, Moved)
    assert why(commit(pair, unit)) == "TXN_ABORTED"


def test_u10_a_drain_that_comes_to_nothing_leaves_units_open() -> None:
    run = Run()
    pair = run.pair
    unit, other = units_of(pair, 2)
    run.load()
    drain(run)
    commits = submitted(run, commit_of(pair, unit))
    run.abort(run.a)
    for _ in run.flow():
        pass
    assert pair.master is run.a
    assert isinstance(commits.done, UnitDone)
    assert isinstance(commit(pair, other), UnitDone)

"""Calls that wait for a master: how long, in which order, and how many."""

from __future__ import annotations

import pytest

import replica.core.ordering.holding
from failover.marks import Role
from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import EnqueueDone, Failed, QueueDone
from replica.machine import QueueCall
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_PURGE
from tandemq.v1.common_pb2 import Reason
from tests.support.clients import Waiter, create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_room import Sent, contents, send


@pytest.fixture
def pair() -> Pair:
    """B alone, and nobody is master: A has ended, and nobody has said that it may be done without."""
    made = Pair()
    made.start()
    create(made)
    made.crash(made.a)
    made.quiesce()
    assert made.b.role is Role.PROBE
    return made


def parked(pair: Pair, name: str, park_ms: int = 0) -> Sent:
    sent = send(pair.b, name)
    sent.call.park_ms = park_ms
    return sent


def purge(pair: Pair) -> Waiter:
    waiter = Waiter()
    pair.b.submit(PendingCall(waiter, QueueCall(QUEUE_ACTION_PURGE, "q")))
    return waiter


def count(pair: Pair) -> int:
    return len(pair.b.core.holding)


def test_when_its_time_is_over_a_parked_call_is_refused_and_no_sooner(pair: Pair) -> None:
    """Counted from the first tick that sees it."""
    sent, longer = parked(pair, "p", 300), parked(pair, "longer", 301)
    pair.tick(1)
    pair.tick(299)
    assert (sent.waits, longer.waits) == (True, True)
    pair.tick(1)
    (said,) = sent.waiter.answers
    assert isinstance(said, Failed)
    assert (said.reason, said.retry_after_ms) == (Reason.REASON_NO_MASTER, 500)
    assert said.message == f"no master in domain main: {pair.b.shared.last_change}; repeat the call"
    assert (longer.waits, count(pair)) == (True, 1)
    pair.tick(1)
    assert (longer.refused, count(pair)) == (Reason.REASON_NO_MASTER, 0)
    assert len(sent.waiter.answers) == 1


def test_what_has_no_time_of_its_own_waits_and_the_order_stays(pair: Pair) -> None:
    first, ends = parked(pair, "first"), parked(pair, "ends", 300)
    purged, last = purge(pair), parked(pair, "last")
    for _ in range(40):
        pair.tick(100)
    assert (first.waits, ends.waits, purged.answers, last.waits) == (True, False, [], True)
    pair.b.lost(refused=True)
    pair.settle(1_000)
    assert pair.b.serving
    assert (first.index, last.index) == (1, 2)
    assert isinstance(purged.done, QueueDone)
    assert contents(pair) == [b"last/1"], "the purge came between them"
    assert not any(isinstance(answer, EnqueueDone) for answer in ends.waiter.answers)


def test_whose_caller_has_gone_is_forgotten(pair: Pair) -> None:
    gone, stays = parked(pair, "gone", 300), parked(pair, "stays")
    gone.waiter.cancelled = True
    assert count(pair) == 2
    pair.tick()
    assert (count(pair), gone.waiter.answers) == (1, [])
    pair.b.lost(refused=True)
    pair.settle(1_000)
    assert stays.index == 1
    assert contents(pair) == [b"stays/1"]


def test_whose_caller_goes_before_the_next_tick_is_not_ordered(pair: Pair) -> None:
    gone, stays = parked(pair, "gone"), parked(pair, "stays")
    gone.waiter.cancelled = True
    pair.b.lost(refused=True)
    pair.quiesce()
    assert stays.index == 1
    assert gone.waiter.answers == []


def test_so_many_are_parked_and_the_next_one_is_told_to_come_later(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica.core.ordering.holding, "PARKED_MAX", 2)
    sent = [parked(pair, f"p{number}") for number in range(3)]
    assert [each.waits for each in sent] == [True, True, False]
    (said,) = sent[2].waiter.answers
    assert (said.reason, said.retry_after_ms) == (Reason.REASON_TOO_MANY_WAITERS, 1_000)
    assert count(pair) == 2


def test_the_time_begins_anew_with_each_parking(pair: Pair) -> None:
    """It was ordered for a while, and its master is gone again: what it waited before does not count."""
    sent = parked(pair, "p", 300)
    pair.tick(1)
    pair.tick(250)
    holding = pair.b.core.holding
    (call,) = holding.parked
    holding.parked.clear()
    holding.park(call)
    pair.tick(1)
    pair.tick(250)
    assert sent.waits
    pair.tick(50)
    assert sent.refused == Reason.REASON_NO_MASTER

"""Who watches queues (V20): notified of what is committed and can be received, once until the queue had less, and never
by polling.
"""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.delivery import watching
from replica.core.delivery.watching import DepthWatch, Threshold
from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import DepthsMet, Failed, Moved
from replica.machine import Machine, QueueCall, SettleCall
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE, QUEUE_ACTION_PURGE, QUEUE_ACTION_UPDATE
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_RELEASE, Settlement
from tests.support.clients import Producer, Reader, Waiter, create
from tests.support.member import Member
from tests.support.pair import Pair

pytestmark = pytest.mark.requirement("R193")


@pytest.fixture
def pair() -> Pair:
    made = Pair()
    made.start()
    create(made)
    return made


def sent(pair: Pair, count: int = 1, *, settle: bool = True) -> None:
    assert pair.master is not None
    producer = Producer(pair, f"p{len(pair.a.shared.log.history)}{pair.a.shared.log.last_index}")
    for _ in range(count):
        producer.send(pair.master)
    if settle:
        pair.settle(200)


def queue_call(pair: Pair, action: int, **more: Any) -> None:
    assert pair.master is not None
    pair.master.submit(PendingCall(Waiter(), QueueCall(action, "q", **more)))  # type: ignore[arg-type]  # the enum's number
    pair.settle(200)


def watched(member: Member, *thresholds: tuple[str, int]) -> tuple[DepthWatch, Waiter]:
    waiter = Waiter()
    watch = DepthWatch(waiter, [Threshold(*each) for each in thresholds or (("q", 1),)])
    member.core.watching.open(watch)
    member.dispatch(member.core)
    return watch, waiter


def heard(waiter: Waiter) -> list[tuple[int, int]]:
    """Place and depth of each that was met, in the order in which they were said."""
    assert all(isinstance(each, DepthsMet) for each in waiter.answers), waiter.answers
    return [tuple(met) for each in waiter.answers for met in each.met]


def test_v20_the_first_message_of_an_empty_queue_is_reported(pair: Pair) -> None:
    _, waiter = watched(pair.a)
    assert waiter.answers == [DepthsMet([], at_opening=True)]
    sent(pair, 1, settle=False)
    assert heard(waiter) == [], "it is not committed"
    pair.settle(200)
    assert heard(waiter) == [(0, 1)]
    sent(pair)
    assert heard(waiter) == [(0, 1)], "it was not empty"


def test_v20_a_depth_is_reported_again_only_after_the_queue_had_less(pair: Pair) -> None:
    _, waiter = watched(pair.a, ("q", 3))
    sent(pair, 2)
    assert heard(waiter) == []
    sent(pair, 2)
    assert heard(waiter) == [(0, 4)]
    sent(pair)
    assert heard(waiter) == [(0, 4)]
    queue_call(pair, QUEUE_ACTION_PURGE)
    sent(pair, 3)
    assert heard(waiter) == [(0, 4), (0, 3)]


def test_v20_what_is_there_at_the_opening_is_said_then(pair: Pair) -> None:
    sent(pair, 5)
    _, waiter = watched(pair.a, ("q", 1), ("q", 5), ("q", 6))
    assert waiter.answers == [DepthsMet([watching.Met(0, 5), watching.Met(1, 5)], at_opening=True)]
    sent(pair)
    assert heard(waiter)[2:] == [(2, 6)]


def test_v20_what_was_ordered_before_the_opening_is_reported_at_its_commit(pair: Pair) -> None:
    sent(pair, 1, settle=False)
    _, waiter = watched(pair.a)
    assert heard(waiter) == []
    pair.settle(200)
    assert heard(waiter) == [(0, 1)]


@pytest.mark.parametrize("steps", range(1, 8))
def test_v20_what_is_ordered_while_another_record_is_committed_is_reported_at_its_own_commit(
    pair: Pair, steps: int
) -> None:
    create(pair, "r")
    _, waiter = watched(pair.a)
    Producer(pair, "other", "r").send(pair.a)
    for _ in range(steps):
        pair.one()
    sent(pair, 1, settle=False)
    assert heard(waiter) == []
    pair.settle(200)
    assert heard(waiter) == [(0, 1)]


def test_v20_several_queues_are_watched_at_once(pair: Pair) -> None:
    create(pair, "r")
    _, waiter = watched(pair.a, ("r", 1), ("q", 2))
    sent(pair, 2)
    assert heard(waiter) == [(1, 2)]


def test_v20_what_a_consumer_takes_at_once_is_not_reported_and_what_it_gives_back_is(pair: Pair) -> None:
    reader = Reader(pair)
    reader.attach(pair.a, 1)
    pair.settle(200)
    _, waiter = watched(pair.a)
    sent(pair)
    assert (len(reader.delivered), heard(waiter)) == (1, [])
    lease_id, index, _ = reader.delivered[0]
    assert reader.at is not None
    pair.a.core.consumers.detach(reader.at[2])
    settlement = Settlement(outcome=OUTCOME_RELEASE, lease_id=lease_id, ranges=[IndexRange(first=index, count=1)])
    pair.a.submit(PendingCall(Waiter(), SettleCall("q", [settlement])))
    pair.settle(200)
    assert heard(waiter) == [(0, 1)], "somebody else is to take it"


def test_v20_a_queue_that_gives_nothing_out_counts_as_empty(pair: Pair) -> None:
    queue_call(pair, QUEUE_ACTION_UPDATE, config=QueueConfig(dequeue_enabled=False))
    _, waiter = watched(pair.a)
    sent(pair, 2)
    assert heard(waiter) == []
    queue_call(pair, QUEUE_ACTION_UPDATE, config=QueueConfig(dequeue_enabled=True))
    assert heard(waiter) == [(0, 2)]


def test_v20_a_takeover_sends_watches_on_and_the_next_master_says_what_is_there(pair: Pair) -> None:
    sent(pair)
    _, waiter = watched(pair.a)
    pair.a.hand_over()
    pair.settle(2_000)
    assert pair.master is pair.b
    assert [type(each) for each in waiter.answers] == [DepthsMet, Moved]
    assert (pair.a.core.watching.watched, pair.a.core.watching.count) == ({}, 0)
    _, again = watched(pair.b)
    assert heard(again) == [(0, 1)]


def test_v20_a_deleted_queue_ends_its_watches(pair: Pair) -> None:
    create(pair, "r")
    _, waiter = watched(pair.a, ("r", 1), ("q", 1))
    queue_call(pair, QUEUE_ACTION_DELETE)
    assert isinstance(waiter.done, Failed)
    assert waiter.done.reason == Reason.REASON_QUEUE_NOT_FOUND
    assert (pair.a.core.watching.watched, pair.a.core.watching.count) == ({}, 0)


def test_v20_a_queue_that_is_not_there_is_refused(pair: Pair) -> None:
    _, waiter = watched(pair.a, ("q", 1), ("nowhere", 1))
    assert isinstance(waiter.done, Failed)
    assert waiter.done.reason == Reason.REASON_QUEUE_NOT_FOUND
    assert pair.a.core.watching.count == 0


def test_v20_there_may_be_so_many_watches(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "WATCHED_MAX", 2)
    watch, _ = watched(pair.a, ("q", 1), ("q", 2))
    _, refused = watched(pair.a)
    assert isinstance(refused.done, Failed)
    assert (refused.done.reason, refused.done.retry_after_ms) == (Reason.REASON_TOO_MANY_WAITERS, 1_000)
    pair.a.core.watching.leave(watch)
    _, waiter = watched(pair.a)
    assert heard(waiter) == []
    sent(pair)
    assert heard(waiter) == [(0, 1)], "others may watch in its place"


def test_v20_nobody_counts_what_nobody_watches_and_time_counts_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(pair, "r")
    counted: list[int] = []
    deliverable = Machine.deliverable

    def noted(machine: Machine, queue_id: int) -> int:
        counted.append(queue_id)
        return deliverable(machine, queue_id)

    monkeypatch.setattr(Machine, "deliverable", noted)
    sent(pair, 3)
    assert counted == []
    _, waiter = watched(pair.a, ("r", 1))
    sent(pair)
    counted.clear()
    sent(pair, 3)
    pair.settle(5_000)
    assert (counted, heard(waiter)) == ([], [])

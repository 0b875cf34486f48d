"""How many consumers a queue has and which of them is served, through either member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.state.calls import Consumer, PendingCall
from replica.core.state.outcomes import Failed, LeaseDone
from replica.machine import QueueCall, SettleCall
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_UPDATE
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, Settlement
from tests.support.clients import Producer, Waiter, create
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tests.support.member import Member


class Taker:
    """A consumer's stream and what it was handed."""

    def __init__(self, pair: Pair, name: str, *, credit: int = 10, one_shot: bool = False, via: str = "a") -> None:
        self.pair = pair
        self.waiter = Waiter()
        self.consumer = Consumer(
            self.waiter, "q", name.encode(), 500, credit_messages=credit, credit_bytes=1 << 20,
            one_shot=one_shot, member=via,
        )  # fmt: skip
        self.member.attach(self.consumer)
        pair.quiesce()

    @property
    def member(self) -> Member:
        assert self.pair.master is not None
        return self.pair.master

    @property
    def refused(self) -> Any:
        (failed,) = self.waiter.answers
        assert isinstance(failed, Failed)
        return failed.reason

    @property
    def leases(self) -> list[LeaseDone]:
        return [done for done in self.waiter.answers if isinstance(done, LeaseDone)]

    @property
    def indexes(self) -> list[int]:
        return [part.first_index + at for done in self.leases for part in done.slices for at in range(part.count)]

    def ack(self) -> None:
        settlements = [
            Settlement(
                lease_id=done.lease_id,
                ranges=[IndexRange(first=part.first_index, count=part.count) for part in done.slices],
                outcome=OUTCOME_ACK,
            )
            for done in self.leases
        ]
        self.member.submit(PendingCall(Waiter(), SettleCall("q", settlements)))
        self.pair.quiesce()

    def leave(self) -> None:
        self.waiter.cancelled = True
        self.member.core.consumers.detach(self.consumer)
        self.member.dispatch(self.member.core)
        self.pair.quiesce()


def sent(pair: Pair, count: int) -> None:
    producer = Producer(pair, "p")
    for _ in range(count):
        assert pair.master is not None
        producer.send(pair.master)
    pair.quiesce()


@pytest.fixture
def pair() -> Pair:
    made = Pair()
    made.start()
    create(made, single_active=True)
    return made


def test_only_the_oldest_is_served_and_the_next_when_its_leases_have_ended(pair: Pair) -> None:
    first, second, third = (Taker(pair, name, via=via) for name, via in (("1", "a"), ("2", "b"), ("3", "a")))
    sent(pair, 4)
    assert (first.indexes, second.indexes, third.indexes) == ([1, 2, 3, 4], [], [])
    first.leave()
    assert second.indexes == [], "what the first one was given may still be in work"
    pair.settle(600)  # its leases of 500 ms end
    assert (second.indexes, third.indexes) == ([1, 2, 3, 4], [])
    second.ack()
    second.leave()
    producer = Producer(pair, "other")
    producer.send(pair.a)
    pair.quiesce()
    assert third.indexes == [5], "settled leases have ended too"


def test_an_active_consumer_without_credit_keeps_the_others_waiting(pair: Pair) -> None:
    first, second = Taker(pair, "1", credit=1), Taker(pair, "2")
    sent(pair, 2)
    assert (first.indexes, second.indexes) == ([1], [])
    first.ack()
    assert second.indexes == []
    first.leave()
    assert second.indexes == [2]


def test_a_consumer_that_comes_back_takes_the_place_of_its_broken_stream(pair: Pair) -> None:
    Taker(pair, "1", credit=0)
    second = Taker(pair, "2")
    again = Taker(pair, "1")
    sent(pair, 2)
    assert (again.indexes, second.indexes) == ([1, 2], [])


def test_single_calls_stand_in_the_same_order(pair: Pair) -> None:
    call = Taker(pair, "call", one_shot=True, credit=1)
    stream = Taker(pair, "stream")
    sent(pair, 2)
    assert (call.indexes, stream.indexes) == ([1], [])
    call.ack()
    assert stream.indexes == [2]


def test_a_takeover_begins_with_whoever_comes_first_and_waits_for_older_leases(pair: Pair) -> None:
    first = Taker(pair, "1")
    sent(pair, 2)
    pair.settle(100)
    assert first.indexes == [1, 2]
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.quiesce()
    assert pair.master is pair.b
    other = Taker(pair, "2", via="b")
    assert other.indexes == []
    pair.settle(700)
    assert other.indexes == [1, 2]


def test_the_attribute_can_change_while_consumers_are_attached(pair: Pair) -> None:
    def single_active(value: bool) -> None:
        config = QueueConfig(single_active=value)
        pair.a.submit(PendingCall(Waiter(), QueueCall(QUEUE_ACTION_UPDATE, "q", config, mask=["single_active"])))
        pair.quiesce()

    first, second = Taker(pair, "1", credit=1), Taker(pair, "2", credit=1)
    sent(pair, 1)
    single_active(False)
    sent_again = Producer(pair, "more")
    sent_again.send(pair.a)
    pair.quiesce()
    assert (first.indexes, second.indexes) == ([1], [2])
    single_active(True)
    first.ack()
    for taker in (second, first):
        taker.consumer.credit_messages += 5
    sent_again.send(pair.a)
    pair.quiesce()
    assert (first.indexes, second.indexes) == ([1], [2]), "the second one still holds a lease"
    second.ack()
    assert (first.indexes, second.indexes) == ([1, 3], [2])


def test_no_more_consumers_than_the_queue_may_have() -> None:
    pair = Pair()
    pair.start()
    create(pair, max_consumers=2)
    first, second = Taker(pair, "1", via="a"), Taker(pair, "2", via="b")
    assert Taker(pair, "3", via="b").refused == Reason.REASON_QUOTA_EXCEEDED
    assert Taker(pair, "4", one_shot=True).refused == Reason.REASON_QUOTA_EXCEEDED
    assert not Taker(pair, "1").waiter.answers, "one that opens its stream again is no third one"
    first.waiter.cancelled = True
    second.leave()
    assert not Taker(pair, "5").waiter.answers


@pytest.mark.parametrize("single_active", [True, False])
def test_of_a_queue_that_nobody_reads_any_more_nothing_is_kept(single_active: bool) -> None:
    """Queues and readers come and go for years: what is kept of each would only grow."""
    pair = Pair()
    pair.start()
    create(pair, single_active=single_active)
    first, second = Taker(pair, "1"), Taker(pair, "2", via="b")
    sent(pair, 1)
    consumers = first.member.core.consumers
    first.leave()
    assert list(consumers.turns.values()) != []
    second.leave()
    assert (consumers.turns, consumers.sole.active, consumers.count) == ({}, {}, 0)

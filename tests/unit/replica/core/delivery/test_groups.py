"""A queue with group_mode ORDERED gives nothing out that the other member does not know to be given out."""

from __future__ import annotations

import pytest

from replica.core.state.calls import Consumer, PendingCall
from replica.core.state.outcomes import LeaseDone
from replica.machine import SettleCall
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_NONE, GROUP_MODE_ORDERED, GroupMode
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, Settlement
from tests.support.clients import Producer, Waiter, create
from tests.support.pair import Pair


def taken(waiter: Waiter) -> list[int]:
    return [
        part.first_index + at
        for done in waiter.answers
        if isinstance(done, LeaseDone)
        for part in done.slices
        for at in range(part.count)
    ]


@pytest.mark.parametrize(("mode", "before"), [(GROUP_MODE_NONE, [1]), (GROUP_MODE_ORDERED, [])])
def test_a_delivery_waits_until_its_lease_is_on_every_copy(mode: GroupMode, before: list[int]) -> None:
    pair = Pair()
    pair.start()
    create(pair, group_mode=mode)
    Producer(pair, "p").send(pair.a)
    pair.quiesce()
    waiter = Waiter()
    pair.a.attach(Consumer(waiter, "q", b"c", 500, credit_messages=10, credit_bytes=1 << 20, member="a"))
    pair.quiesce(disks="a")
    assert taken(waiter) == before, "else a new master would give it, and the next of its group, to others"
    pair.quiesce()
    assert taken(waiter) == [1]


def test_the_next_of_a_group_comes_when_the_one_before_is_settled() -> None:
    pair = Pair()
    pair.start()
    create(pair, group_mode=GROUP_MODE_ORDERED)
    producer = Producer(pair, "p", group="g")
    for _ in range(2):
        producer.send(pair.a)
    pair.quiesce()
    waiter = Waiter()
    pair.a.attach(Consumer(waiter, "q", b"c", 500, credit_messages=10, credit_bytes=1 << 20, member="a"))
    pair.quiesce()
    assert taken(waiter) == [1]
    ranges = [IndexRange(first=1, count=1)]
    settlement = Settlement(lease_id=waiter.answers[0].lease_id, ranges=ranges, outcome=OUTCOME_ACK)
    pair.a.submit(PendingCall(Waiter(), SettleCall("q", [settlement])))
    pair.quiesce(disks="a")
    assert taken(waiter) == [1]
    pair.quiesce()
    assert taken(waiter) == [1, 2]

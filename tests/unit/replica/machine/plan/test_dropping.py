"""A DROP_HEAD queue makes room: what goes, and that it is no more than it must be."""

from __future__ import annotations

import random
from typing import Any

import pytest

from replica.machine import columns_of
from replica.machine.plan.move import fits_in
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import ACK, Driver, batch_of, indexes_of

FULL = common_pb2.REASON_QUEUE_FULL


def dropping(**attributes: Any) -> Driver:
    driver = Driver()
    driver.create(overflow=admin_pb2.OVERFLOW_DROP_HEAD, **attributes)
    return driver


def test_the_oldest_of_the_lowest_priority_go_and_no_more_than_it_takes():
    driver = dropping(max_length=6)
    driver.enqueue(batch_of([1] * 6, priorities=[9, 1, 4, 1, 1, 9]))
    op = driver.send(2)
    assert indexes_of(op.dropped) == [2, 4]
    assert driver.browse() == [1, 3, 5, 6, 7, 8]
    assert indexes_of(driver.send(2).dropped) == [5, 3]
    info = driver.info()
    assert (info.length, info.dropped_total, info.enqueued_total, info.refused_full_total) == (6, 4, 10, 0)


@pytest.mark.requirement("R157")
def test_leased_messages_are_never_dropped():
    driver = dropping(max_length=3)
    driver.send(3)
    lease_id, _ = driver.lease(2)
    op = driver.send(2)
    assert indexes_of(op.dropped) == [3]
    assert [(refusal.ordinal, refusal.reason) for refusal in op.refusals] == [(1, FULL)]
    driver.lease(1)
    assert [refusal.reason for refusal in driver.send(1).refusals] == [FULL]
    driver.outcome(ACK, lease_id, (1, 2))
    assert not driver.send(2).dropped
    assert driver.info().length == 3


def test_a_batch_larger_than_the_queue_drops_what_it_can_and_the_rest_is_refused():
    driver = dropping(max_length=3)
    driver.send(2)
    op = driver.send(5)
    assert indexes_of(op.dropped) == [1, 2]
    assert [refusal.ordinal for refusal in op.refusals] == [3, 4]
    assert driver.browse() == [3, 4, 5]


def test_what_enters_nothing_drops_nothing():
    driver = dropping(max_length=2, max_message_bytes=10)
    driver.send(2)
    assert not driver.enqueue(batch_of([11])).dropped
    assert driver.browse() == [1, 2]


def test_a_lower_maximum_is_reached_with_the_next_message():
    driver = dropping(max_length=5)
    driver.send(5)
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=admin_pb2.QueueConfig(max_length=2), mask=["max_length"])
    assert driver.info().length == 5
    assert indexes_of(driver.send(1).dropped) == [1, 2, 3, 4]


def test_records_that_hold_nothing_any_more_are_freed():
    driver = dropping(max_length=2)
    driver.send(2)
    driver.send(2)
    assert driver.freed == [2]


@pytest.mark.requirement("R025")
def test_the_end_of_a_dropped_message_is_known():
    driver = dropping(max_length=1, queue_type=admin_pb2.QUEUE_TYPE_ONE_WAY_ACK)
    driver.send(2)
    driver.send(1)
    assert driver.finals(1, 2) == ["dropped", "pending"]


@pytest.mark.parametrize("seed", range(30))
def test_the_limits_are_exact_whatever_the_sizes(seed: int):
    """A list is the model; bytes of a part of a batch are shared evenly, as the queue itself counts them."""
    rng = random.Random(seed)
    driver = dropping(max_length=20, max_bytes=300, max_message_bytes=60)
    for _ in range(60):
        sizes = [rng.randrange(0, 60) for _ in range(rng.randrange(1, 8))]
        before = driver.info()
        op = driver.enqueue(batch_of(sizes, priorities=[rng.choice((1, 4)) for _ in sizes]))
        dropped = sum(part.count for part in op.dropped)
        accepted = op.count - len(op.refusals)
        info = driver.info()
        assert info.length == before.length + accepted - dropped
        assert info.length <= 20
        assert info.bytes <= 300
        if dropped and accepted:
            assert before.length + accepted > 20 or before.bytes + op.payload_bytes > 300
        if rng.random() < 0.3:
            driver.commit()
            lease_id, indexes = driver.lease(rng.randrange(1, 5))
            if indexes and rng.random() < 0.5:
                driver.outcome(ACK, lease_id, *((index, index) for index in indexes))


def test_messages_without_a_payload_are_dropped_by_their_number():
    driver = dropping(max_length=2, max_bytes=0)
    driver.enqueue(batch_of([0, 0]))
    assert indexes_of(driver.enqueue(batch_of([0])).dropped) == [1]
    assert indexes_of(driver.enqueue(batch_of([0, 5])).dropped) == [2, 3]
    assert (driver.browse(), driver.info().bytes) == ([4, 5], 5)


@pytest.mark.parametrize("seed", range(10))
def test_how_many_copies_fit_is_how_many_enter(seed: int):
    """As of a producer's batch: the first ones, up to one for which even the heads make no room."""
    rng = random.Random(seed)
    driver = dropping(max_length=8, max_bytes=100, max_message_bytes=100)
    for _ in range(60):
        columns = columns_of(batch_of([rng.randrange(40) for _ in range(rng.randrange(1, 12))]))
        fitting = fits_in(driver.master.state, "q", columns)
        op = driver.plan_enqueue(batch_of(columns.sizes)).header.enqueue
        assert fitting == columns.count - len(op.refusals)
        if fitting:
            assert not driver.enqueue(batch_of(columns.sizes[:fitting])).refusals
        if rng.random() < 0.6:
            lease_id, indexes = driver.lease(rng.randrange(1, 5))
            if indexes and rng.random() < 0.7:
                driver.outcome(ACK, lease_id, *((index, index) for index in indexes))


@pytest.mark.parametrize(
    ("attributes", "sizes", "fitting"),
    [
        ({"max_length": 2}, [1, 1], 2),
        ({"max_length": 2}, [1, 1, 1], 2),
        ({"max_length": 9, "max_bytes": 20}, [10, 10], 2),
        ({"max_length": 9, "max_bytes": 20}, [10, 11], 1),
        ({"max_length": 9, "max_bytes": 20}, [10, 11, 1], 1),
        ({"max_length": 9, "max_bytes": 20}, [21], 0),
        ({"max_length": 9, "max_bytes": 0}, [21, 1 << 20], 2),
    ],
)
def test_copies_fit_up_to_the_first_that_does_not(attributes: dict[str, int], sizes: list[int], fitting: int):
    driver = Driver()
    driver.create(**attributes, max_message_bytes=20)
    columns = columns_of(batch_of([1]))._replace(
        count=len(sizes), sizes=sizes, payload_bytes=sum(sizes), payload_bytes_max=max(sizes)
    )
    assert fits_in(driver.master.state, "q", columns) == fitting

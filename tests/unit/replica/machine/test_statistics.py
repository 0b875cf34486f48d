"""What a queue and a domain count: the same on both members, after a restart, and of queues that are gone."""

from __future__ import annotations

import pytest

from replica.machine import Machine, Sums, Totals
from replica.machine.statistics import first_queues
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import REJECT, RELEASE, Driver, batch_of

DELETE = record_pb2.QUEUE_ACTION_DELETE


def sums_of(machine: Machine) -> Sums:
    sums = Sums("a")
    sums.add(machine.state)
    return sums


@pytest.mark.requirement("R048", "R126")
def test_r048_every_way_out_of_a_queue_is_counted_where_it_happens() -> None:
    driver = Driver()
    driver.create(max_length=3, dead_letter_queue="", default_ttl={"seconds": 5}, dedup_window={"seconds": 60})
    driver.enqueue(batch_of([1, 1, 1, 1, 1], dedup_ids=["x", "x", "", "", ""]))  # one is double, one finds no room
    lease_id, _ = driver.lease(3)
    driver.outcome(RELEASE, lease_id, (1, 1))
    driver.ack(lease_id, (2, 2))
    driver.outcome(REJECT, lease_id, (3, 3))
    driver.now_ms += 5_000
    driver.expire()
    totals = first_queues(driver.master.state, 1)[0].totals
    assert totals == Totals(
        enqueued=3,
        acked=1,
        rejected=1,
        expired=1,
        highest_length=3,
        refused_full=1,
        delivered=3,
        processed=1,
        released=1,
        duplicates=1,
    )
    info = driver.info()
    assert (info.released_total, info.duplicates_total, info.rejected_total, info.expired_total) == (1, 1, 1, 1)
    assert (info.length, info.highest_length, info.config.max_length, info.refused_full_total) == (0, 3, 3, 1)
    for machine in (driver.replica, driver.restored()):
        assert first_queues(machine.state, 1)[0].totals == totals


def test_unanswered_requests_are_told() -> None:
    driver = Driver()
    driver.create(queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY, reply_timeout={"seconds": 1})
    driver.send(2)
    driver.now_ms += 2_000
    driver.expire()
    assert driver.info().reply_timeouts_total == 2


@pytest.mark.requirement("R043")
def test_r043_a_domain_sums_up_its_queues_by_what_they_are() -> None:
    driver = Driver()
    driver.create("one")
    driver.create("two", queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY)
    driver.queue(record_pb2.QUEUE_ACTION_CREATE, "three", configuring=True)
    driver.enqueue(batch_of([10, 20, 30], delays_ms=[0, 0, 1_000], queue="one"))
    driver.lease(1, name="one")
    sums = sums_of(driver.master)
    assert (sums.queues, sums.open, sums.types[admin_pb2.QUEUE_TYPE_TWO_WAY]) == (3, 2, 1)
    assert (sums.length, sums.ready, sums.leased, sums.delayed, sums.dying, sums.bytes) == (3, 1, 1, 1, 0, 60)
    assert sums_of(driver.replica) == sums_of(driver.restored()) == sums


def test_totals_of_a_domain_never_fall() -> None:
    driver = Driver()
    for name in ("one", "two"):
        driver.create(name)
        driver.send(4, queue=name)
        driver.lease(2, name=name)
    before = sums_of(driver.master).totals
    driver.queue(DELETE, "one")
    after = sums_of(driver.master).totals
    assert (after, after.enqueued, after.delivered, after.highest_length) == (before, 8, 4, 4)
    assert sums_of(driver.restored()).totals == sums_of(driver.replica).totals == before


def test_the_first_queues_are_those_by_name() -> None:
    driver = Driver()
    for name in ("c", "a", "d", "b"):
        driver.create(name)
    assert [queue.name for queue in first_queues(driver.master.state, 3)] == ["a", "b", "c"]

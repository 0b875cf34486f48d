"""What ends by itself: messages, leases, volatile bodies. Time is the record's, never a clock's."""

from __future__ import annotations

import pytest

from replica.machine import EnqueueCall, LeaseCall, Limits, columns_of
from replica.machine.plan.enqueue import plan_enqueue
from replica.machine.plan.lease import plan_lease
from replica.machine.plan.time import next_due_ms, plan_expire, plan_volatile_lost
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import ACK, RELEASE, Driver, batch_of, indexes_of

HOUR = columns_of(batch_of([1], ttls_ms=[3_600_000]))


def test_a_message_ends_at_its_time_and_not_before(driver):
    driver.enqueue(batch_of([1, 1, 1], ttls_ms=[100, 0, 50]))
    begun = driver.now_ms
    assert next_due_ms(driver.master.state) == begun + 50
    driver.now_ms = begun + 49
    assert driver.expire() == 0
    driver.now_ms = begun + 50
    assert driver.expire() == 1
    assert driver.browse() == [1, 2]
    driver.now_ms = begun + 1_000
    driver.expire()
    assert (driver.browse(), driver.info().expired_total, next_due_ms(driver.master.state)) == ([2], 2, None)


def test_nobody_gets_a_message_whose_time_is_over(driver):
    driver.enqueue(batch_of([1] * 4, ttls_ms=[100, 0, 100, 0]))
    driver.now_ms += 100
    assert driver.lease()[1] == [2, 4]


def test_the_queues_time_to_live_is_for_messages_that_name_none():
    driver = Driver()
    driver.create(default_ttl={"seconds": 2})
    driver.send(1)
    driver.enqueue(batch_of([1, 1], ttls_ms=[0, 5_000]))
    driver.now_ms += 2_000
    driver.expire()
    assert driver.browse() == [3]


def test_a_leased_message_ends_only_when_it_is_back(driver):
    driver.enqueue(batch_of([1] * 3, ttls_ms=[100]))
    lease_id, _ = driver.lease(2)
    driver.now_ms += 200
    driver.expire()
    assert driver.browse() == [1, 2]
    driver.outcome(RELEASE, lease_id, (2, 2))
    assert next_due_ms(driver.master.state) is not None
    driver.expire()
    assert driver.browse() == [1]
    assert driver.outcome(ACK, lease_id, (1, 1)).settled == 1


def test_a_lease_that_ends_gives_its_messages_back_and_counts_the_delivery(driver):
    driver.send(3)
    driver.lease(2, duration_ms=100)
    driver.now_ms += 100
    assert driver.expire() == 0, "it may have begun within a millisecond, and would end early"
    driver.now_ms += 1
    assert driver.expire() == 1
    header = driver.plan_lease()
    assert header is not None
    assert indexes_of(header.lease.ranges) == [1, 2, 3]
    assert driver.master.segments_of(1, header.lease.ranges)[0].delivery_counts == [2, 2, 1]
    browsed = driver.master.segments_of(1, driver.master.browse(1, 0, 0), delivered=False)
    assert browsed[0].delivery_counts == [1, 1, 0]
    lease_id = driver.order(header).lease_id
    driver.outcome(ACK, lease_id, (1, 3))
    assert driver.master.queue(1).deliveries == {}


def test_expiry_is_bounded_and_goes_on():
    driver = Driver(Limits(expire_max=10))
    driver.create()
    driver.enqueue(batch_of([1] * 25, ttls_ms=[5]))
    driver.now_ms += 5
    assert driver.expire() == 3
    assert driver.info().length == 0


def test_time_never_falls(driver):
    driver.send(1)
    now_ms = driver.now_ms
    driver.now_ms -= 50_000
    driver.send(1)
    assert driver.headers[-1][1].time_ms == driver.master.state.time_ms == now_ms


def test_a_message_that_is_released_again_and_again_is_waited_for_once(driver):
    driver.enqueue(batch_of([1], ttls_ms=[100_000]))
    for _ in range(10):
        lease_id, _ = driver.lease()
        driver.outcome(RELEASE, lease_id, (1, 1))
    assert len(driver.master.state.message_ends) <= 2
    driver.now_ms += 100_000
    driver.expire()
    assert (driver.browse(), next_due_ms(driver.master.state)) == ([], None)


def test_a_settled_message_leaves_nothing_to_wait_for(driver):
    for _ in range(5_000):
        driver.master.apply(
            driver.log_index + 1,
            1,
            plan_enqueue(
                driver.master.state,
                driver.now_ms,
                EnqueueCall("q", b"c", driver.master.last_sequence("q", b"c") + 1, HOUR, "a"),
            ).header,
        )
        driver.log_index += 1
        driver.master.commit(driver.log_index)
        header = plan_lease(driver.master.state, driver.now_ms, LeaseCall(1, 1, 1, b"c", 0, immediate=True))
        driver.log_index += 1
        driver.master.apply(driver.log_index, 1, header)
    assert len(driver.master.state.message_ends) < 5_000
    assert next_due_ms(driver.master.state) is None


def test_lost_volatile_bodies_are_said_in_a_record_ready_and_leased_alike():
    driver = Driver()
    queue_id = driver.create(persistence=admin_pb2.PERSISTENCE_CONDITIONAL)
    driver.enqueue(batch_of([1] * 4, persistence=[2, 1, 2, 1]))
    driver.enqueue(batch_of([1] * 2))
    lease_id, _ = driver.lease(2)
    asked = []

    def has_body(log_index):
        asked.append(log_index)
        return log_index == 3

    header = driver.plan(lambda: plan_volatile_lost(driver.master.state, driver.now_ms, has_body))
    driver.order(header)
    assert set(asked) == {2, 3}
    assert driver.browse() == [1, 3, 5, 6]
    assert driver.info().volatile_lost_total == 2
    assert driver.outcome(ACK, lease_id, (1, 2)).error.reason == common_pb2.REASON_LEASE_LOST
    assert plan_volatile_lost(driver.master.state, driver.now_ms, has_body) is None
    assert driver.master.live(2, queue_id)
    assert driver.master.live(3)
    assert not driver.master.live(1)


def amounts(op: record_pb2.ExpireOp) -> tuple[int, int, int, int]:
    """Leases, messages, requests and delayed messages that a record ends."""
    ranges = (
        sum(part.count for each in found for part in each.ranges)
        for found in (op.messages, op.reply_timeouts, op.matured)
    )
    return (len(op.lease_ids), *ranges)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 7, 8, 100])
def test_one_record_ends_as_much_as_it_may_of_all_that_is_due(most):
    """Leases first, then messages, requests, and what is delayed; of several queues and batches together."""
    driver = Driver(Limits(expire_max=most))
    for name in ("q", "r"):
        driver.create(name, queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY, reply_timeout={"seconds": 5})
        for _ in range(2):
            driver.enqueue(batch_of([1] * 2, queue=name))
        driver.lease(1, name=name, duration_ms=1_000)
    driver.create("s")
    for _ in range(2):
        driver.enqueue(batch_of([1] * 2, queue="s", ttls_ms=[4_000]))
    for delay_ms in (3_000, 2_900, 2_800):
        driver.enqueue(batch_of([1], queue="s", delays_ms=[delay_ms]))
    driver.now_ms += 5_000
    found = []
    while (header := driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms))) is not None:
        driver.order(header)
        found.append(amounts(header.expire))
    assert tuple(map(sum, zip(*found, strict=True))) == (2, 4, 8, 3)
    assert [sum(each) for each in found[:-1]] == [most] * (len(found) - 1)
    assert 0 < sum(found[-1]) <= most
    kinds = [kind for each in found for kind, count in enumerate(each) if count]
    assert kinds == sorted(kinds)
    assert (driver.info("q").length, driver.info("r").length, driver.lease(9, name="s")[1]) == (0, 0, [5, 6, 7])


def test_what_is_due_has_its_time_and_nothing_before_it():
    """A lease and a delay end in the millisecond after the one they say, all else in that one."""
    driver = Driver()
    driver.create(queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY, reply_timeout={"seconds": 9})
    driver.send(1)
    driver.lease(1, duration_ms=100)
    driver.enqueue(batch_of([1], delays_ms=[200]))
    driver.enqueue(batch_of([1], ttls_ms=[300]))
    driver.queue(record_pb2.QUEUE_ACTION_CREATE, "idle", config=admin_pb2.QueueConfig(empty_idle_expiry={"seconds": 1}))
    began_ms, seen = driver.now_ms, []
    while (due_ms := next_due_ms(driver.master.state)) is not None and due_ms < began_ms + 10_000:
        driver.now_ms = due_ms - 1
        assert driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms)) is None
        driver.now_ms = due_ms
        op = driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms)).expire
        driver.expire()
        seen.append((due_ms - began_ms, [field.name for field, _ in op.ListFields() if field.name != "lease_rules"]))
    assert seen == [
        (101, ["lease_ids"]),
        (201, ["matured"]),
        (300, ["messages"]),
        (1_000, ["idle_queue_ids"]),
        (9_000, ["reply_timeouts"]),
    ]


@pytest.mark.parametrize("what", ["expired", "lease ended", "delay over", "volatile lost", "enabled again"])
def test_a_record_of_time_says_which_queues_something_has_happened_to(what: str) -> None:
    """There may be something to deliver, or room, that was not there before: nobody else looks."""
    driver = Driver()
    for name in ("other", "q", "third"):
        driver.create(name, persistence=admin_pb2.PERSISTENCE_VOLATILE)
    driver.send(1, queue="other")
    match what:
        case "expired":
            driver.enqueue(batch_of([1], ttls_ms=[100]))
        case "lease ended":
            driver.send(1)
            driver.lease(1, duration_ms=100)
        case "delay over":
            driver.enqueue(batch_of([1], delays_ms=[100]))
        case "enabled again":
            until = {"dequeue_enabled": False, "dequeue_enabled_at": {"seconds": (driver.now_ms + 100) // 1_000 + 1}}
            driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=admin_pb2.QueueConfig(**until), mask=list(until))
        case _:
            driver.send(1)
    state, now_ms = driver.master.state, driver.now_ms + 2_000
    header = driver.plan(
        lambda: (
            plan_volatile_lost(state, now_ms, lambda log_index: log_index < driver.log_index)
            if what == "volatile lost"
            else plan_expire(state, now_ms)
        )
    )
    assert driver.order(header).queue_ids == (driver.master.queue_id("q"),)

"""Messages that wait for their time: asked for by the producer, by a release, or after a delivery that failed."""

from __future__ import annotations

import tracemalloc

import pytest

from replica.machine import Limits, Machine, columns_of
from replica.machine.plan.time import next_due_ms, plan_volatile_lost
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tests.unit.replica.machine.driver import ACK, MEMBERS, REJECT, RELEASE, Driver, batch_of, ranges_of

PURGE = record_pb2.QUEUE_ACTION_PURGE


def counts(driver: Driver) -> tuple[int, int, int, int]:
    info = driver.info()
    return info.length, info.ready, info.delayed, info.leased


def test_a_delayed_message_is_delivered_at_its_time_and_not_before(driver):
    """It keeps its index: what came after it and waits for nothing goes first, and it comes before what came later."""
    driver.enqueue(batch_of([1] * 3, delays_ms=[0, 100, 50]))
    begun = driver.now_ms
    assert counts(driver) == (3, 1, 2, 0)
    assert driver.lease()[1] == [1]
    assert next_due_ms(driver.master.state) == begun + 51
    driver.now_ms = begun + 50  # its last millisecond: it may have begun late in its first one
    assert driver.expire() == 0
    driver.now_ms = begun + 51
    driver.expire()
    driver.send(1)
    assert driver.lease()[1] == [3, 4]
    driver.now_ms = begun + 101
    driver.expire()
    assert driver.lease()[1] == [2]
    assert driver.info().delayed == 0


def test_the_moment_may_be_named_and_the_later_one_counts(driver):
    now = driver.now_ms
    batch = batch_of([1] * 3, delays_ms=[10, 200, 0], deliver_at_ms=[now + 100, now + 100, now - 1])
    op = driver.enqueue(batch)
    assert list(op.deliver_at_ms) == [now + 100, now + 200, 0]


@pytest.mark.parametrize("columns", [{"delays_ms": [0]}, {"deliver_at_ms": [5]}, {"delays_ms": [0, 0, 0]}, {}])
def test_a_batch_that_waits_for_nothing_says_nothing_of_it(driver, columns):
    op = driver.enqueue(batch_of([1] * 3, **columns))
    assert not op.deliver_at_ms
    assert counts(driver) == (3, 3, 0, 0)


def test_a_delay_that_no_clock_can_tell_is_refused(driver):
    refused = driver.refusal(lambda: columns_of(batch_of([1], delays_ms=[(1 << 64) - 1])))
    assert refused.reason == common_pb2.REASON_BAD_ATTRIBUTE


def test_a_column_has_an_entry_for_all_or_one_each():
    refused = Driver().refusal(lambda: columns_of(batch_of([1] * 3, delays_ms=[1, 2])))
    assert refused.reason == common_pb2.REASON_BAD_REQUEST
    refused = Driver().refusal(lambda: columns_of(batch_of([1] * 3, deliver_at_ms=[1, 2])))
    assert refused.reason == common_pb2.REASON_BAD_REQUEST


def test_the_length_counts_what_is_delayed():
    driver = Driver()
    driver.create(max_length=2)
    driver.enqueue(batch_of([1, 1], delays_ms=[1_000]))
    assert [refusal.reason for refusal in driver.send(1).refusals] == [common_pb2.REASON_QUEUE_FULL]


def test_a_refused_entry_has_no_time():
    driver = Driver()
    driver.create(max_message_bytes=100)
    driver.enqueue(batch_of([1, 200, 1], delays_ms=[0, 10, 20]))
    assert counts(driver) == (2, 1, 1, 0)
    driver.now_ms += 21
    driver.expire()
    assert driver.lease()[1] == [1, 2]


def test_a_browser_sees_what_is_delayed(driver):
    driver.enqueue(batch_of([1] * 4, delays_ms=[100, 0, 100, 0]))
    assert driver.browse() == [1, 2, 3, 4]
    slices = driver.master.segments_of(1, ranges_of((1, 4)), delivered=False)
    assert [part.delivery_counts for part in slices] == [[0, 0, 0, 0]]


def test_a_delayed_message_may_expire_before_its_time(driver):
    driver.enqueue(batch_of([1] * 2, delays_ms=[100, 50], ttls_ms=[100, 100]))
    driver.now_ms += 101  # both: the first one is gone before anybody could have it
    driver.expire()
    assert (driver.info().expired_total, counts(driver)) == (2, (0, 0, 0, 0))
    assert next_due_ms(driver.master.state) is None


def test_purging_reaches_what_is_delayed(driver):
    driver.enqueue(batch_of([1] * 4, delays_ms=[100, 0, 100, 200]))
    lease_id, _ = driver.lease()
    assert driver.queue(PURGE).queue.removed == 3
    assert counts(driver) == (1, 0, 0, 1)
    assert driver.outcome(ACK, lease_id, (2, 2)).settled == 1
    assert driver.freed
    driver.now_ms += 201
    assert driver.expire() == 0


def test_a_release_may_ask_for_time(driver):
    driver.send(3)
    lease_id, _ = driver.lease()
    driver.outcome(RELEASE, lease_id, (1, 2), delay_ms=70)
    driver.outcome(RELEASE, lease_id, (3, 3))
    assert driver.lease()[1] == [3]
    assert counts(driver) == (3, 0, 2, 1)
    driver.now_ms += 71
    driver.expire()
    lease_id, indexes = driver.lease()
    assert indexes == [1, 2]
    (part,) = driver.master.segments_of(1, ranges_of((1, 2)))
    assert part.delivery_counts is None, "a release takes the count back, whenever the next delivery is"


def test_a_release_may_not_ask_for_more_than_a_year(driver):
    driver.send(1)
    lease_id, _ = driver.lease()
    settlement = queue_service_pb2.Settlement(lease_id=lease_id, ranges=ranges_of((1, 1)), outcome=RELEASE)
    settlement.delay.FromSeconds(-1)
    assert driver.settle(settlement)[0].error.reason == common_pb2.REASON_BAD_REQUEST
    settlement.delay.FromSeconds(367 * 86_400)
    assert driver.settle(settlement)[0].error.reason == common_pb2.REASON_BAD_REQUEST
    assert counts(driver) == (1, 0, 0, 1)


@pytest.mark.parametrize("outcome", [ACK, REJECT])
def test_a_settlement_that_comes_late_reaches_what_is_delayed(driver, outcome):
    """Nobody holds it: its consumer did the work, and the lease ended all the same."""
    driver.send(2)
    lease_id, _ = driver.lease()
    driver.outcome(RELEASE, lease_id, (1, 1), delay_ms=1_000)
    driver.now_ms += 30_001
    driver.expire()
    assert driver.outcome(outcome, lease_id, (1, 2)).settled == 2


def retrying(**attributes) -> Driver:
    driver = Driver()
    driver.create(lease_duration={"seconds": 1}, max_deliveries=0, **attributes)
    return driver


def fail(driver: Driver) -> int:
    """A delivery that nobody settles; how long the message then waits."""
    assert driver.lease()[1]
    driver.now_ms += 1_001
    driver.expire()
    begun = driver.now_ms
    while not driver.info().ready:
        due = next_due_ms(driver.master.state)
        assert due is not None
        driver.now_ms = due
        driver.expire()
    return driver.now_ms - begun - 1


def test_after_a_failed_delivery_a_message_waits_longer_each_time():
    driver = retrying(retry_delay_min={"seconds": 2}, retry_delay_max={"seconds": 5})
    driver.send(1)
    assert [fail(driver) for _ in range(4)] == [2_000, 4_000, 5_000, 5_000]


def test_without_a_highest_retry_delay_it_stays_the_same():
    driver = retrying(retry_delay_min={"seconds": 2})
    driver.send(1)
    assert [fail(driver) for _ in range(3)] == [2_000, 2_000, 2_000]


def test_each_message_of_a_lease_waits_by_its_own_count():
    driver = retrying(retry_delay_min={"seconds": 1}, retry_delay_max={"seconds": 60})
    driver.send(1)
    fail(driver)
    driver.send(2)
    assert driver.lease()[1] == [1, 2, 3]
    driver.now_ms += 1_001
    driver.expire()
    begun = driver.now_ms
    assert next_due_ms(driver.master.state) == begun + 1_001
    driver.now_ms = begun + 1_001
    driver.expire()
    assert driver.lease()[1] == [2, 3]


def test_one_record_matures_a_bounded_number():
    driver = Driver(Limits(expire_max=10))
    driver.create()
    driver.enqueue(batch_of([1] * 25, delays_ms=[5]))
    driver.enqueue(batch_of([1] * 3, delays_ms=[6, 7, 5]))
    driver.now_ms += 10
    assert driver.expire() == 3
    assert counts(driver) == (28, 28, 0, 0)
    assert driver.lease(30)[1] == list(range(1, 29))


def test_what_is_cut_out_of_a_run_leaves_the_rest_on_time(driver):
    driver.enqueue(batch_of([1] * 9, delays_ms=[50]))
    lease_id, _ = driver.lease()  # none yet; any lease id may settle what nobody holds
    assert driver.outcome(ACK, lease_id or 77, (1, 1), (4, 5)).settled == 3
    driver.now_ms += 51
    driver.expire()
    assert driver.lease()[1] == [2, 3, 6, 7, 8, 9]


def test_delays_survive_a_restart(driver):
    driver.enqueue(batch_of([1] * 5, delays_ms=[50, 0, 70, 70, 50]))
    driver.master = Machine.restore(driver.master.snapshot(), MEMBERS)
    assert driver.master.digest() == driver.replica.digest()
    assert next_due_ms(driver.master.state) == driver.now_ms + 51
    driver.now_ms += 71
    driver.expire()
    assert driver.lease()[1] == [1, 2, 3, 4, 5]


def test_volatile_ones_are_lost_like_others():
    driver = Driver()
    driver.create(persistence=2)
    driver.enqueue(batch_of([1] * 3, delays_ms=[50]))
    header = plan_volatile_lost(driver.master.state, driver.now_ms, lambda _: False)
    driver.order(header)
    assert counts(driver) == (0, 0, 0, 0)
    assert next_due_ms(driver.master.state) is None


@pytest.mark.slow
def test_many_delayed_messages_stay_small():
    """Distinct times: at most 200 bytes a message. Equal ones: nothing worth counting."""
    driver = Driver(Limits(batch_messages_max=20_000))
    driver.create()
    apply_delayed(driver, [5_000])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    apply_delayed(driver, [5_000])
    uniform = tracemalloc.get_traced_memory()[0] - before
    apply_delayed(driver, [1_000 + (at * 7_919) % 999_983 for at in range(20_000)])
    distinct = tracemalloc.get_traced_memory()[0] - before - uniform
    tracemalloc.stop()
    assert uniform < 10_000
    assert distinct / 20_000 < 200


def apply_delayed(driver: Driver, delays_ms: list[int]) -> None:
    plan = driver.plan_enqueue(batch_of([1] * 20_000, delays_ms=delays_ms))
    driver.log_index += 1
    driver.master.apply(driver.log_index, 1, plan.header)


def test_a_time_that_a_message_no_longer_waits_for_matures_nothing(driver):
    """Neither what lies behind it, nor the message itself, which waits for another time by now."""
    driver.enqueue(batch_of([1, 1], delays_ms=[100, 1_000]))
    driver.enqueue(batch_of([1], delays_ms=[100]))
    assert driver.outcome(ACK, 4242, (1, 1)).settled == 1
    driver.now_ms += 101
    driver.expire()
    assert (driver.info().delayed, driver.lease()[1]) == (1, [3])
    lease_id = max(driver.master.queue(1).leases)
    driver.outcome(RELEASE, lease_id, (3, 3), delay_ms=5_000)
    assert next_due_ms(driver.master.state) == driver.now_ms - 101 + 1_001
    driver.now_ms += 900
    driver.expire()
    assert driver.lease()[1] == [2]
    assert driver.info().delayed == 1
    assert [tuple(due)[2] for due in driver.master.state.delay_ends.due(driver.now_ms)] == []

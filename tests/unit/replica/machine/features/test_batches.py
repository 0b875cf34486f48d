"""Numbered batches: which number may be taken, what is in it each time, and when it is gone."""

from __future__ import annotations

from typing import Any

import pytest

from replica.machine import AckBatchCall, BatchCall, Limits
from replica.machine.features.batches import (
    ACKED_KEPT,
    NUMBER_MAX,
    OPEN_MAX,
    last_batch,
    open_batch,
    open_batches,
    plan_ack_batch,
    plan_batch,
)
from replica.machine.plan.lease import FOR_EVER
from replica.machine.plan.time import next_due_ms
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY
from tests.unit.replica.machine.driver import RELEASE, Driver

LEASE_MS = 60_000
GONE, GAP = common_pb2.REASON_BATCH_GONE, common_pb2.REASON_BATCH_GAP


def take(driver: Driver, number: int, count: int = 3, consumer: str = "spark", queue: str = "q", **more: Any) -> bool:
    """Whether it was taken now; not: there was nothing, or it was taken before."""
    call = BatchCall(queue, consumer, number, count, more.get("max_bytes", 1 << 40), LEASE_MS)
    header = driver.plan(lambda: plan_batch(driver.master.state, driver.now_ms, call))
    if header is not None:
        driver.order(header)
    return header is not None


def ack(driver: Driver, number: int, consumer: str = "spark") -> bool:
    """Whether it was acknowledged now."""
    header = driver.plan(
        lambda: plan_ack_batch(driver.master.state, driver.now_ms, AckBatchCall("q", consumer, number))
    )
    if header is not None:
        driver.order(header)
    return header is not None


def content(driver: Driver, number: int, consumer: str = "spark") -> list[int]:
    batch, _ = open_batch(driver.master.state, driver.master.state.named("q"), consumer, number)
    return [index for start, end in batch.runs for index in range(start, end)]


def reason(driver: Driver, make: Any) -> int:
    return driver.refusal(make).reason


def test_a_batch_is_the_same_each_time_until_it_is_acknowledged(driver: Driver) -> None:
    driver.send(5)
    assert take(driver, 1)
    assert not take(driver, 1, count=1)
    assert content(driver, 1) == [1, 2, 3]
    driver.send(2)
    assert content(driver, 1) == [1, 2, 3]
    assert ack(driver, 1)
    assert not ack(driver, 1), "a repetition changes nothing"
    assert driver.info().length == 4
    assert reason(driver, lambda: content(driver, 1)) == GONE
    assert reason(driver, lambda: take(driver, 1)) == GONE
    assert take(driver, 2, count=10)
    assert content(driver, 2) == [4, 5, 6, 7]


def test_a_number_follows_the_last_one(driver: Driver) -> None:
    driver.send(20)
    take(driver, 57)
    refusal = driver.refusal(lambda: take(driver, 59))
    assert (refusal.reason, refusal.metadata["last_number"]) == (GAP, "57")
    assert reason(driver, lambda: take(driver, 56)) == GONE
    assert take(driver, 58)
    assert (content(driver, 57), content(driver, 58)) == ([1, 2, 3], [4, 5, 6])
    assert last_batch(driver.master.state, driver.master.state.named("q"), "spark") == 58
    assert [number for number, _, _ in open_batches(driver.master.state, driver.master.state.named("q"), "spark")] == [
        57,
        58,
    ]
    assert ack(driver, 58)
    assert ack(driver, 57)


def test_nothing_to_take_uses_up_no_number(driver: Driver) -> None:
    assert not take(driver, 1)
    assert last_batch(driver.master.state, driver.master.state.named("q"), "spark") == 0
    driver.send(1)
    assert take(driver, 1)
    assert not take(driver, 2)
    assert last_batch(driver.master.state, driver.master.state.named("q"), "spark") == 1


def test_when_the_lease_ends_its_messages_return_in_order_and_the_number_is_refused(driver: Driver) -> None:
    driver.send(5)
    take(driver, 1)
    driver.now_ms += LEASE_MS + 1
    driver.expire()
    for make in (lambda: content(driver, 1), lambda: take(driver, 1), lambda: ack(driver, 1)):
        assert reason(driver, make) == GONE
    assert open_batches(driver.master.state, driver.master.state.named("q"), "spark") == []
    assert take(driver, 2, count=10)
    assert content(driver, 2) == [1, 2, 3, 4, 5]


def test_a_batch_of_which_something_is_settled_by_itself_is_gone(driver: Driver) -> None:
    driver.send(3)
    take(driver, 1)
    _, lease = open_batch(driver.master.state, driver.master.state.named("q"), "spark", 1)
    driver.outcome(RELEASE, lease.lease_id, (2, 2))
    assert reason(driver, lambda: content(driver, 1)) == GONE
    assert reason(driver, lambda: ack(driver, 1)) == GONE


def test_a_takeover_begins_the_lease_anew_and_changes_nothing_else(driver: Driver) -> None:
    driver.send(3)
    take(driver, 1)
    driver.now_ms += LEASE_MS - 1
    driver.epoch = 2
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, role=record_pb2.RoleOp(owner="b")))
    driver.now_ms += LEASE_MS - 1
    assert driver.expire() == 0
    assert content(driver, 1) == [1, 2, 3]
    assert ack(driver, 1)


def test_batches_outlive_a_restart(driver: Driver) -> None:
    driver.send(9)
    take(driver, 1)
    take(driver, 2)
    ack(driver, 1)
    restored = driver.restored()
    assert restored.digest() == driver.master.digest()
    assert (
        open_batch(restored.state, restored.state.named("q"), "spark", 2)[0]
        == open_batch(driver.master.state, driver.master.state.named("q"), "spark", 2)[0]
    )
    assert plan_ack_batch(restored.state, driver.now_ms, AckBatchCall("q", "spark", 1)) is None
    assert plan_ack_batch(restored.state, driver.now_ms, AckBatchCall("q", "spark", 2)) is not None


def test_consumers_share_a_queue_and_not_a_batch(driver: Driver) -> None:
    driver.send(6)
    take(driver, 1)
    take(driver, 1, consumer="other")
    assert (content(driver, 1), content(driver, 1, "other")) == ([1, 2, 3], [4, 5, 6])
    assert reason(driver, lambda: content(driver, 2, "other")) == GONE


def test_bytes_bound_a_batch(driver: Driver) -> None:
    driver.send(5)
    take(driver, 1, count=5, max_bytes=20)
    assert content(driver, 1) == [1, 2]
    take(driver, 2, max_bytes=1)
    assert content(driver, 2) == [3], "one is taken whatever its size"


def test_batches_that_are_not_acknowledged_are_limited_in_number(driver: Driver) -> None:
    driver.send(OPEN_MAX + 2)
    for number in range(1, OPEN_MAX + 1):
        assert take(driver, number, count=1)
    assert reason(driver, lambda: take(driver, OPEN_MAX + 1)) == common_pb2.REASON_QUOTA_EXCEEDED
    ack(driver, 3)
    assert take(driver, OPEN_MAX + 1, count=1)


def test_acknowledged_numbers_are_remembered_for_a_while(driver: Driver) -> None:
    driver.send(ACKED_KEPT + 1)
    for number in range(1, ACKED_KEPT + 2):
        take(driver, number, count=1)
        ack(driver, number)
    assert not ack(driver, 2)
    assert reason(driver, lambda: ack(driver, 1)) == GONE


def test_who_holds_nothing_is_forgotten_for_a_new_consumer() -> None:
    driver = Driver(Limits(batch_consumers_max=2))
    driver.create()
    driver.send(10)
    for consumer in ("one", "two"):
        take(driver, 1, 1, consumer)
        driver.now_ms += 1
    assert reason(driver, lambda: take(driver, 1, 1, "three")) == common_pb2.REASON_QUOTA_EXCEEDED
    ack(driver, 1, "two")
    assert take(driver, 1, 1, "three")
    assert last_batch(driver.master.state, driver.master.state.named("q"), "two") == 0
    assert last_batch(driver.master.state, driver.master.state.named("q"), "one") == 1


def test_batches_go_with_their_queue(driver: Driver) -> None:
    driver.send(3)
    take(driver, 4)
    driver.queue(record_pb2.QUEUE_ACTION_DELETE)
    driver.create()
    assert last_batch(driver.master.state, driver.master.state.named("q"), "spark") == 0
    assert driver.restored().digest() == driver.master.digest()


@pytest.mark.parametrize(
    ("number", "consumer", "reason_"),
    [
        (0, "spark", common_pb2.REASON_BAD_REQUEST),
        (NUMBER_MAX + 1, "spark", common_pb2.REASON_BAD_REQUEST),
        (1, "", common_pb2.REASON_BAD_NAME),
        (1, "a/b", common_pb2.REASON_BAD_NAME),
    ],
)
def test_what_a_batch_may_not_be(driver: Driver, number: int, consumer: str, reason_: int) -> None:
    assert reason(driver, lambda: take(driver, number, 1, consumer)) == reason_


def test_queues_that_have_none(driver: Driver) -> None:
    driver.create("asked", queue_type=QUEUE_TYPE_TWO_WAY)
    driver.create("sole", single_active=True)
    assert reason(driver, lambda: take(driver, 1, queue="asked")) == common_pb2.REASON_REPLY_REQUIRED
    assert reason(driver, lambda: take(driver, 1, queue="sole")) == common_pb2.REASON_INVALID_STATE
    assert reason(driver, lambda: take(driver, 1, queue="nobody")) == common_pb2.REASON_QUEUE_NOT_FOUND
    assert (
        reason(driver, lambda: last_batch(driver.master.state, driver.master.state.named("nobody"), "x"))
        == common_pb2.REASON_QUEUE_NOT_FOUND
    )


def test_x4_a_lease_without_end_ends_by_its_acknowledgement_alone(driver: Driver) -> None:
    driver.send(2)
    state = driver.master.state
    call = BatchCall("q", "xmit", 1, 1, 1 << 20, FOR_EVER)
    driver.order(driver.plan(lambda: plan_batch(state, driver.now_ms, call)))
    driver.now_ms += 1_000 * 365 * 86_400_000
    assert driver.expire() == 0
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, role=record_pb2.RoleOp(owner="b")))
    driver.now_ms += 365 * 86_400_000
    assert driver.expire() == 0, "no takeover gives it an end"
    assert driver.restored().digest() == driver.master.digest()
    assert next_due_ms(driver.restored().state) is None
    assert driver.lease()[1] == [2]
    ack = plan_ack_batch(state, driver.now_ms, AckBatchCall("q", "xmit", 1))
    assert ack is not None
    driver.order(ack)
    assert driver.info().length == 1


def test_numbers_that_were_used_elsewhere_are_skipped(driver: Driver) -> None:
    """A backup that came back knows fewer numbers than the target of its messages does."""
    driver.send(2)
    assert take(driver, 1, count=1)
    state = driver.master.state
    call = BatchCall("q", "spark", 7, 1, 1 << 20, LEASE_MS, may_skip=True)
    driver.order(driver.plan(lambda: plan_batch(state, driver.now_ms, call)))
    assert [number for number, _, _ in open_batches(state, state.named("q"), "spark")] == [1, 7]

"""A dedup id is the application's word that two messages are one, whoever sends them and however often."""

from __future__ import annotations

import pytest

from replica.machine import Machine, Refused, Repeated, columns_of
from tandemq.v1 import common_pb2
from tests.unit.replica.machine.driver import MEMBERS, Driver, batch_of

WINDOW = {"dedup_window": {"seconds": 5}}


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.create(**WINDOW)
    return driver


def doubles(op):
    return [(double.ordinal, double.index) for double in op.duplicates]


def test_a_second_message_is_not_stored_and_told_the_first_ones_index(driver):
    driver.enqueue(batch_of([1, 1, 1], dedup_ids=["a", "", "b"]))
    again = driver.enqueue(batch_of([1, 1, 1], dedup_ids=["b", "c", "a"]), client_id=b"another")
    assert (again.first_index, doubles(again), list(again.refusals)) == (4, [(0, 3), (2, 1)], [])
    assert driver.info().length == 4
    assert driver.lease()[1] == [1, 2, 3, 4]
    log_index, ordinal = driver.log_index - 1, 1
    assert driver.master.locate(driver.master.queue_id("q"), 4) == (log_index, ordinal)


def test_one_id_for_all_stores_the_first(driver):
    op = driver.enqueue(batch_of([1, 1, 1], dedup_ids=["a"]))
    assert (op.first_index, doubles(op), driver.info().length) == (1, [(1, 1), (2, 1)], 1)
    only = driver.enqueue(batch_of([1], dedup_ids=["a"]))
    assert (only.first_index, doubles(only), driver.info().length) == (0, [(0, 1)], 1)


def test_the_window_ends(driver):
    driver.enqueue(batch_of([1], dedup_ids=["a"]))
    driver.now_ms += 4_999
    assert doubles(driver.enqueue(batch_of([1], dedup_ids=["a"])))
    driver.now_ms += 1
    assert driver.enqueue(batch_of([1], dedup_ids=["a"])).first_index == 2


def test_what_was_consumed_is_remembered_too(driver):
    driver.enqueue(batch_of([1], dedup_ids=["a"]))
    driver.lease(immediate=True)
    assert doubles(driver.enqueue(batch_of([1], dedup_ids=["a"]))) == [(0, 1)]


def test_the_number_is_bounded():
    driver = Driver()
    driver.create(dedup_max=2, **WINDOW)
    for name in "abc":
        driver.enqueue(batch_of([1], dedup_ids=[name]))
    assert len(driver.master.queue(1).dedup_ids) == 2
    assert doubles(driver.enqueue(batch_of([1, 1], dedup_ids=["b", "c"]))) == [(0, 2), (1, 3)]
    assert driver.enqueue(batch_of([1], dedup_ids=["a"])).first_index == 4


def test_what_was_refused_names_nothing():
    driver = Driver()
    driver.create(max_length=1, max_message_bytes=10)
    op = driver.enqueue(batch_of([11, 1, 1], dedup_ids=["a", "a", "b"]))
    assert [(refusal.ordinal, refusal.reason) for refusal in op.refusals] == [
        (0, common_pb2.REASON_MESSAGE_TOO_LARGE),
        (2, common_pb2.REASON_QUEUE_FULL),
    ]
    driver.lease(immediate=True)
    again = driver.enqueue(batch_of([1, 1], dedup_ids=["b", "a"]))
    assert (again.first_index, doubles(again)) == (2, [(1, 1)])


@pytest.mark.parametrize("unary", [False, True])
def test_a_repeated_call_gets_the_first_answer(driver, unary):
    identity = {"request_id": bytes(16), "request_hash": 1} if unary else {"request_hash": 1}
    driver.enqueue(batch_of([1], dedup_ids=["a"]), client_id=b"another")
    batch = batch_of([1, 1], dedup_ids=["a", "b"])
    driver.enqueue(batch, **identity)
    driver.now_ms += 60_000  # the window is over; the answer is not
    driver.master = Machine.restore(driver.master.snapshot(), MEMBERS, driver.limits)
    plan = driver.plan_enqueue(batch, first_sequence=1, **identity)
    assert isinstance(plan, Repeated)
    assert (plan.run.first_index, plan.run.doubles) == (2, ((0, 1),))


def test_a_snapshot_knows_them(driver):
    driver.enqueue(batch_of([1, 1], dedup_ids=["a", "b"]))
    again = Machine.restore(driver.master.snapshot(), MEMBERS, driver.limits)
    assert again.digest() == driver.master.digest()
    assert again.queue(1).dedup_ids.rows() == driver.master.queue(1).dedup_ids.rows()


def test_who_names_none_pays_for_none(driver):
    driver.send(3)
    assert driver.master.queue(1).dedup_ids is None


def test_an_id_is_bounded():
    with pytest.raises(Refused) as info:
        columns_of(batch_of([1], dedup_ids=["x" * 256]))
    assert info.value.reason == common_pb2.REASON_BAD_ATTRIBUTE
    assert "255" in info.value.message

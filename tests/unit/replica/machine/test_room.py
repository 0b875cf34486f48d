"""Whether a batch finds room now, later or never: as its sending would show."""

from __future__ import annotations

import random

import pytest

from replica.machine import columns_of
from replica.machine.room import Fit, fit_of
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver, batch_of

NOW, LATER, NEVER = Fit.NOW, Fit.LATER, Fit.NEVER


def fit(driver: Driver, *sizes: int) -> Fit:
    return fit_of(driver.master.queue(1), columns_of(batch_of(sizes)))


@pytest.mark.parametrize(
    ("held", "sizes", "wanted"),
    [
        ([], [10] * 3, NOW),
        ([], [10] * 4, NEVER),
        ([], [20, 10], NOW),
        ([], [20, 11], NEVER),
        ([1], [10, 10], NOW),
        ([1], [10] * 3, LATER),
        ([1, 1, 1], [1], LATER),
        ([10], [20], NOW),
        ([11], [20], LATER),
        ([1, 1, 1], [21], NOW),
        ([1, 1, 1], [21, 22, 23, 24], NOW),
        ([1], [21, 10, 10], NOW),
        ([1], [21, 10, 20], LATER),
        ([], [21, 20, 11], NEVER),
        ([], [21, 1, 1, 1, 1], NEVER),
        ([20, 10], [0], NOW),
    ],
)
def test_what_is_too_large_by_itself_needs_no_room(held: list[int], sizes: list[int], wanted: Fit) -> None:
    """Three messages and 30 bytes, of which one may have 20."""
    driver = Driver()
    driver.create(max_length=3, max_bytes=30, max_message_bytes=20)
    if held:
        driver.enqueue(batch_of(held))
    assert fit(driver, *sizes) is wanted


@pytest.mark.parametrize("max_bytes", [0, 40])
def test_it_is_as_sending_would_show(max_bytes: int) -> None:
    chance = random.Random(3)
    driver = Driver()
    driver.create(max_length=6, max_bytes=max_bytes, max_message_bytes=20)
    for _ in range(150):
        sizes = [chance.randrange(23) for _ in range(chance.randrange(1, 8))]
        good = [size for size in sizes if size <= 20]
        found = fit(driver, *sizes)
        enters = driver.plan_enqueue(batch_of(good)).header.enqueue.refusals == [] if good else True
        assert (found is NOW) == enters
        assert (found is NEVER) == (len(good) > 6 or (0 < max_bytes < sum(good)))
        if chance.random() < 0.5:
            driver.enqueue(batch_of(sizes))
        lease_id, indexes = driver.lease(chance.randrange(1, 4))
        if indexes:
            driver.ack(lease_id, *((index, index) for index in indexes))


def test_a_queue_that_drops_its_head_lets_nobody_wait() -> None:
    driver = Driver()
    driver.create(max_length=1, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.send(1)
    assert fit(driver, 1, 1, 1) is NOW


def test_who_waits_for_ends_hears_each_once_and_nobody_else_pays() -> None:
    driver = Driver()
    driver.create(queue_type=admin_pb2.QUEUE_TYPE_ONE_WAY_ACK)
    driver.create("untracked")
    machine = driver.master
    driver.send(4)
    lease_id, _ = driver.lease()
    driver.ack(lease_id, (1, 1))
    assert machine.heard(1) == [], "nobody has listened"
    machine.listen(1, wanted=True)
    driver.ack(lease_id, (2, 3))
    assert machine.heard(1) == [(2, 4)]
    assert machine.heard(1) == []
    driver.ack(lease_id, (4, 4))
    machine.listen(1, wanted=False)
    assert machine.heard(1) == [], "who begins or ends to listen begins anew"
    for queue_id in (2, 3):
        machine.listen(queue_id, wanted=True)
        assert machine.heard(queue_id) is None

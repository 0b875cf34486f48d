"""What browsers, readers of bodies and administrators are told of a queue whose messages are everywhere."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from replica.machine.plan.time import plan_expire
from replica.machine.views import browse, left_of, segments_of
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import REJECT, Driver, batch_of, indexes_of, ranges_of

LEASED, DYING, DELAYED, BLOCKED, GONE = {2, 3, 9}, {5, 6}, {11, 12}, {8, 15}, {4}


@pytest.fixture
def driver() -> Driver:
    """Messages 1 to 16, of which each place has some; 17 is not committed."""
    made = Driver()
    made.create(group_mode=admin_pb2.GROUP_MODE_ORDERED, max_deliveries=5)
    made.enqueue(batch_of([10] * 6, priorities=[1, 9, 9, 9, 9, 9]))
    lease_id, indexes = made.lease(5)
    assert indexes == [2, 3, 4, 5, 6]
    for index in sorted(DYING):
        made.outcome(REJECT, lease_id, (index, index))
    made.ack(lease_id, (4, 4))
    made.enqueue(batch_of([10] * 4, group_ids=["red", "red", "blue", ""], priorities=[4, 4, 8, 2]))
    assert made.lease(1)[1] == [9]
    made.enqueue(batch_of([10] * 6, delays_ms=[50, 50, 0, 0, 0, 0], group_ids=["", "", "", "", "blue", ""]))
    made.commits = False
    made.send(1)
    return made


def places(driver: Driver) -> tuple[int, ...]:
    info = driver.info()
    return info.ready, info.leased, info.dying, info.delayed, info.blocked


def test_each_place_has_its_messages(driver: Driver) -> None:
    assert places(driver) == (7, len(LEASED), len(DYING), len(DELAYED), len(BLOCKED))
    assert driver.info().length == 16
    assert list(driver.info().ready_by_priority) == [0, 1, 1, 0, 5, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5, 14, 15, 99])
def test_a_browser_sees_what_is_committed_wherever_it_is(driver: Driver, limit: int) -> None:
    visible = [index for index in range(1, 17) if index not in GONE]
    queue = driver.master.queue(1)
    for first in range(19):
        wanted = [index for index in visible if index >= first]
        found = browse(queue, first, limit)
        assert indexes_of(found) == (wanted[:limit] if limit else wanted)
        assert all(before.first + before.count < after.first for before, after in pairwise(found))
    driver.commit()
    assert indexes_of(browse(queue, 16, 0)) == [16, 17]


def counts(driver: Driver, *, delivered: bool) -> dict[int, int]:
    """Deliveries of each message, as consumers and browsers are told."""
    told = {}
    for part in segments_of(driver.master.queue(1), [(1, 17)], delivered=delivered):
        for at in range(part.count):
            told[part.first_index + at] = part.delivery_counts[at] if part.delivery_counts else 1
    return told


def test_a_browser_is_told_of_deliveries_that_began(driver: Driver) -> None:
    told = counts(driver, delivered=False)
    assert {index for index, count in told.items() if count == 1} == LEASED | DYING | GONE
    assert {index for index, count in told.items() if count == 0} == set(range(1, 17)) - LEASED - DYING - GONE
    driver.now_ms += 30_001
    driver.order(plan_expire(driver.master.state, driver.now_ms))
    told = counts(driver, delivered=False)
    assert {index: told[index] for index in (1, 2, 3, 9)} == {1: 0, 2: 1, 3: 1, 9: 1}
    assert {index: count for index, count in counts(driver, delivered=True).items() if index in (1, 2, 3, 9)} == {
        1: 1,
        2: 2,
        3: 2,
        9: 2,
    }


def test_what_was_never_delivered_before_costs_no_column() -> None:
    driver = Driver()
    driver.create()
    driver.send(3)
    driver.send(3)
    queue = driver.master.queue(1)
    assert [part.delivery_counts for part in segments_of(queue, [(1, 7)], delivered=True)] == [None, None]
    driver.lease(1, duration_ms=1)
    driver.now_ms += 2
    driver.expire()
    assert [part.delivery_counts for part in segments_of(queue, [(1, 7)], delivered=True)] == [[2, 1, 1], None]


def test_a_slice_names_its_ordinals_only_where_one_is_left_out() -> None:
    driver = Driver()
    driver.create(max_message_bytes=10)
    driver.enqueue(batch_of([11, 1, 1, 11, 1, 1]))
    queue = driver.master.queue(1)

    def told(*runs: tuple[int, int]) -> list[tuple[int, int, int, list[int] | None]]:
        found = segments_of(queue, runs, delivered=True)
        return [(part.first_index, part.first_ordinal, part.count, part.ordinals) for part in found]

    assert told((1, 5)) == [(1, 1, 4, [1, 2, 4, 5])]
    assert told((1, 3)) == [(1, 1, 2, None)]
    assert told((2, 4)) == [(2, 2, 2, [2, 4])]
    assert told((3, 5), (1, 2)) == [(3, 4, 2, None), (1, 1, 1, None)], "in the order of the runs"


def test_what_is_left_of_an_answer_is_ready_or_leased(driver: Driver) -> None:
    found = left_of(driver.master.queue(1), ranges_of((5, 14), (1, 3)))
    assert indexes_of(found) == [7, 9, 10, 13, 14, 1, 2, 3]


@pytest.mark.parametrize(
    ("members", "state"),
    [
        ({"open_members": ["b"]}, "CLOSED"),
        ({"open_members": ["a", "b"]}, "OPEN"),
        ({}, "CONFIGURED"),
        ({"configuring": True}, "CONFIGURING"),
        ({"members": {"b"}}, "UNSPECIFIED"),
    ],
)
def test_an_instance_is_in_one_state(driver: Driver, members: dict[str, Any], state: str) -> None:
    queue = driver.master.queue(1)
    queue.open_members = set(members.get("open_members", ()))
    queue.closed_members = {"a"} if state == "CLOSED" else set()
    queue.members = members.get("members", queue.members)
    queue.configuring = members.get("configuring", False)
    assert admin_pb2.QueueState.Name(driver.info().state) == f"QUEUE_STATE_{state}"


def test_times_and_means_are_told(driver: Driver) -> None:
    info = driver.info()
    assert (info.created_at.ToMilliseconds(), info.last_activity_at.ToMilliseconds()) == (1_000_000, 1_000_000)
    assert info.mean_process_time.ToMilliseconds() == 0
    lease_id, _ = driver.lease(1)
    driver.now_ms += 30
    driver.ack(lease_id, (13, 13))
    assert driver.info().mean_process_time.ToMicroseconds() == 30_000 // 2, "the first one took no time"


def test_a_queue_that_is_gone_is_neither_ordered_nor_for_one_consumer_alone() -> None:
    made = Driver()
    made.create(group_mode=admin_pb2.GROUP_MODE_ORDERED, single_active=True)
    queue_id = made.master.queue_id("q")
    assert queue_id is not None
    assert (made.master.is_ordered(queue_id), made.master.is_single_active(queue_id)) == (True, True)
    assert (made.master.is_ordered(queue_id + 1), made.master.is_single_active(queue_id + 1)) == (False, False)

"""The place of a side that does not come along: which limits it is beyond, what its loss frees, and how it begins anew
(K6).
"""

from __future__ import annotations

import pytest

from replica.machine.plan.sides import HOUR_MS, SideLimits, late_sides, plan_lost, plan_passed, side_lost
from replica.machine.plan.sides import plan_side as side_of
from replica.machine.state.lockstep import SideOf
from replica.machine.state.queue import QueueState
from replica.node.journal_rows import facts_of
from storage.records import Prefix
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.journal_service_pb2 import JournalKind
from tests.unit.replica.machine.driver import Driver, batch_of

LIMITS = SideLimits(bytes=100, ms=HOUR_MS, full_ms=60_000)
RESTART, DESTROY = record_pb2.QUEUE_ACTION_RESTART_SIDE, record_pb2.QUEUE_ACTION_DESTROY


@pytest.fixture
def driver() -> Driver:
    """The pair's domain, with a queue of ten messages at most that has sides."""
    made = Driver()
    made.create(replication=admin_pb2.REPLICATION_PRODUCER, max_length=10)
    return made


def queue_of(driver: Driver) -> QueueState:
    return driver.master.state.named("q")


def mark(driver: Driver, **marks: int) -> None:
    driver.order(driver.plan(lambda: plan_passed(driver.master.state, driver.now_ms, queue_of(driver), marks)))


def late(driver: Driver, *, no_room: bool = False) -> dict[str, str]:
    return late_sides(queue_of(driver), driver.now_ms, LIMITS, no_room=no_room)


def lose(driver: Driver, member: str = "b") -> record_pb2.RecordHeader:
    queue = queue_of(driver)
    header: record_pb2.RecordHeader = driver.plan(
        lambda: plan_lost(driver.master.state, driver.now_ms, queue, {member: "it was away"})
    )
    driver.order(header)
    return header


def test_k6_a_side_that_stands_before_a_full_queue_loses_its_place(driver: Driver) -> None:
    driver.send(10)
    mark(driver, a=8, b=2)
    driver.send(2)
    assert queue_of(driver).length == 10
    driver.now_ms += LIMITS.full_ms - 1
    assert late(driver) == {}
    driver.now_ms += 1
    assert list(late(driver)) == ["b"]
    assert "limits.side_full_seconds" in late(driver)["b"]
    mark(driver, a=9)
    assert list(late(driver)) == ["b"], "that the other one has moved is none of its doing"
    mark(driver, b=3)
    driver.send(1)
    assert queue_of(driver).length == 10, "full once more"
    assert late(driver) == {}, "it comes along: senders wait for it"


@pytest.mark.parametrize(("max_bytes", "is_late"), [(90, True), (100, False)])
def test_k6_a_queue_is_full_of_bytes_too(max_bytes: int, is_late: bool) -> None:
    """Where a message as long as the others has no room."""
    driver = Driver()
    driver.create(
        replication=admin_pb2.REPLICATION_PRODUCER, max_length=1_000, max_message_bytes=10, max_bytes=max_bytes
    )
    driver.send(9)
    mark(driver, a=8)
    driver.now_ms += LIMITS.full_ms
    assert ("b" in late(driver)) is is_late


@pytest.mark.parametrize(("no_room", "what"), [(False, "the queue was full"), (True, "the store was full")])
def test_k6_a_side_that_loses_its_place_hears_what_was_full(driver: Driver, no_room: bool, what: str) -> None:
    driver.send(10)
    mark(driver, a=8, b=0 if no_room else 2)
    driver.send(2)
    driver.now_ms += LIMITS.full_ms
    assert late(driver, no_room=no_room)["b"].startswith(f"{what} and it settled nothing")


def test_k6_a_side_that_is_in_nobodys_way_keeps_its_place(driver: Driver) -> None:
    driver.send(9)
    driver.now_ms += LIMITS.ms
    mark(driver, a=8)
    driver.now_ms += LIMITS.full_ms
    assert late(driver) == {}, "there is room, and what it holds is not old: nobody was ahead of it before"
    assert list(late(driver, no_room=True)) == ["b"], "the master's store is full"
    driver.now_ms += LIMITS.ms
    assert "limits.side_hours" in late(driver)["b"]


@pytest.mark.parametrize("furthest", [8, 9])
def test_k6_a_side_that_has_caught_up_is_behind_no_more(driver: Driver, furthest: int) -> None:
    """Up to the other one, or past it: it has all its time again when it falls behind once more."""
    driver.send(9)
    mark(driver, a=8)
    driver.now_ms += LIMITS.ms
    mark(driver, b=furthest)
    driver.now_ms += LIMITS.ms
    assert "b" not in late(driver, no_room=True)
    mark(driver, a=9)
    driver.send(1)
    mark(driver, a=10)
    assert "b" not in late(driver, no_room=True), "it has only now fallen behind"


def test_k6_a_full_queue_that_both_sides_hold_back_costs_neither_its_place(driver: Driver) -> None:
    driver.send(10)
    mark(driver, a=2, b=2)
    driver.now_ms += 10 * LIMITS.ms
    assert late(driver) == {}


def test_k6_a_side_holds_back_so_many_bytes(driver: Driver) -> None:
    driver.enqueue(batch_of([40] * 9))
    mark(driver, a=2)
    assert late(driver) == {}
    mark(driver, a=3)
    assert "120 bytes, more than 100 (limits.side_bytes)" in late(driver)["b"]


def test_k6_the_loss_is_a_record_that_frees_what_the_other_side_has_passed(driver: Driver) -> None:
    driver.send(10)
    mark(driver, a=8, b=2)
    header = lose(driver)
    queue = queue_of(driver)
    assert (queue.length, queue.passed, queue.behind) == (2, {"a": 8}, {})
    (fact,) = facts_of(Prefix(*[0] * len(Prefix._fields)), header)
    assert (fact.kind, fact.first, fact.messages) == (JournalKind.JOURNAL_KIND_ACKED, 3, 6)
    assert not driver.send(8).refusals, "senders go on"
    refused = side_lost(queue, "b")
    assert refused.reason == common_pb2.REASON_SIDE_LOST
    facts = {"queue": "q", "member": "b", "lost_after": "2", "lost_until": "8", "because": "it was away"}
    assert refused.metadata == facts
    assert "tandemq queue restart-side q --member b" in refused.message
    (a, b) = driver.info().sides
    assert (a.member, a.lost, b.member, b.lost, b.passed, b.lost_until, b.because) == (
        *("a", False, "b", True, 2, 8, "it was away"),
    )
    mark(driver, a=12)
    assert queue.length == 6, "it holds back nothing any more"


def test_k6_a_side_begins_anew_with_what_is_still_there(driver: Driver) -> None:
    driver.send(10)
    mark(driver, a=8, b=2)
    lose(driver)
    driver.queue(RESTART, member="b")
    queue = queue_of(driver)
    assert (queue.passed, queue.lost) == ({"a": 8, "b": 8}, {})
    mark(driver, a=10)
    assert queue.length == 2, "it is held back for again"
    side = side_of(driver.master.state, driver.now_ms, SideOf(7, b"h" * 16, 1), queue, "b")
    assert side.side.first == 9
    driver.now_ms += LIMITS.ms
    assert list(late_sides(queue, driver.now_ms, LIMITS, no_room=True)) == ["b"], "and may lose its place again"


@pytest.mark.parametrize(("after", "begins"), [(8, 8), (9, 9), (10, 10), (7, None), (11, None)])
def test_k6_a_side_begins_anew_where_it_is_asked_to(driver: Driver, after: int, begins: int | None) -> None:
    driver.send(10)
    mark(driver, a=8, b=2)
    lose(driver)
    if begins is None:
        refused = driver.refusal(lambda: driver.queue(RESTART, member="b", after=after))
        assert refused.reason == common_pb2.REASON_OUT_OF_RANGE
        assert (refused.metadata["first_index"], refused.metadata["last_index"]) == ("9", "10")
    else:
        driver.queue(RESTART, member="b", after=after)
        assert queue_of(driver).passed == {"a": 8, "b": begins}


@pytest.mark.parametrize("member", ["a", "b", "c", ""])
def test_a_side_that_has_its_place_does_not_begin_anew(driver: Driver, member: str) -> None:
    driver.send(1)
    refused = driver.refusal(lambda: driver.queue(RESTART, member=member))
    assert refused.reason == common_pb2.REASON_INVALID_STATE


def test_a_side_of_an_empty_queue_begins_anew_at_its_end(driver: Driver) -> None:
    driver.send(5)
    mark(driver, a=5)
    lose(driver)
    assert queue_of(driver).length == 0
    driver.queue(RESTART, member="b")
    assert queue_of(driver).passed == {"a": 5, "b": 5}


def test_an_instance_that_is_destroyed_frees_what_its_side_alone_has_held_back(driver: Driver) -> None:
    """Nobody marks anything any more where the other side has nothing left to do, and senders would wait for ever."""
    driver.send(10)
    mark(driver, a=10)
    driver.now_ms += LIMITS.full_ms
    assert list(late(driver)) == ["b"]
    driver.queue(DESTROY, member="b")
    queue = queue_of(driver)
    assert (queue.length, queue.passed, queue.behind) == (0, {"a": 10}, {})
    assert late(driver) == {}
    assert not driver.send(1).refusals

"""What is done twice: a deletion, a purge, a move, a removal. It is known by its id, or meets what is gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.machine import MoveCall, RemoveCall, columns_of
from replica.machine.plan.move import plan_move, plan_remove
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_PURGED
from tests.unit.replica.machine.driver import Driver, batch_of

DELETE, PURGE = record_pb2.QUEUE_ACTION_DELETE, record_pb2.QUEUE_ACTION_PURGE
ID, HASH = b"once" * 4, 7


@pytest.fixture
def driver() -> Driver:
    made = Driver()
    made.create()
    made.create("r")
    made.send(4)
    return made


def delete(driver: Driver) -> None:
    driver.queue(DELETE, request_id=ID, request_hash=HASH)


def purge(driver: Driver) -> None:
    driver.queue(PURGE, request_id=ID, request_hash=HASH)


def move(driver: Driver, request_id: bytes = ID) -> None:
    call = MoveCall(
        1, "r", [2, 3], columns_of(batch_of([10, 10])), FINAL_STATE_PURGED, request_id=request_id, request_hash=HASH
    )
    driver.order(driver.plan(lambda: plan_move(driver.master.state, driver.now_ms, call)))


def remove(driver: Driver, request_id: bytes = ID) -> None:
    call = RemoveCall(1, [2, 3], 2, request_id=request_id, request_hash=HASH)
    driver.order(driver.plan(lambda: plan_remove(driver.master.state, driver.now_ms, call)))


@pytest.mark.parametrize("do", [delete, purge, move, remove])
def test_a_repetition_finds_the_first_answer_also_after_a_restart(driver: Driver, do: Callable[[Driver], None]) -> None:
    do(driver)
    answer = driver.master.find_request(ID, HASH)
    assert answer is not None
    assert (answer.kind, answer.log_index, answer.queue_id) == {
        delete: ("queue", driver.log_index, 1),
        purge: ("queue", driver.log_index, 1),
        move: ("enqueue", driver.log_index, 2),
        remove: ("remove", driver.log_index, 1),
    }[do]
    assert answer.removed == {delete: 4, purge: 4, move: 0, remove: 2}[do]
    assert (answer.count, answer.first_index) == ((2, 1) if do is move else (0, 0))
    assert driver.restored().find_request(ID, HASH) == answer
    refused = driver.refusal(lambda: driver.master.find_request(ID, HASH + 1))
    assert refused.reason == common_pb2.REASON_REQUEST_MISMATCH


def test_a_queue_is_deleted_once(driver: Driver) -> None:
    delete(driver)
    assert driver.refusal(lambda: driver.queue(DELETE)).reason == common_pb2.REASON_QUEUE_NOT_FOUND
    driver.create()
    assert driver.queue(DELETE).queue.removed == 0, "the one of that name now; the messages went with the first"
    assert driver.master.names() == ["r"]


def test_a_purge_removes_once(driver: Driver) -> None:
    assert [driver.queue(PURGE).queue.removed for _ in range(2)] == [4, 0]
    assert driver.info().purged_total == 4


@pytest.mark.parametrize("do", [move, remove])
def test_a_message_is_taken_once(driver: Driver, do: Callable[[Driver, bytes], None]) -> None:
    do(driver, b"")
    assert (driver.browse(), driver.info().purged_total) == ([1, 4], 2)
    before = driver.log_index
    for again in (move, remove):
        refused = driver.refusal(lambda again=again: again(driver, b""))
        assert refused.reason == common_pb2.REASON_MESSAGE_NOT_FOUND
    assert driver.log_index == before
    assert driver.info("r").length == (2 if do is move else 0)


@pytest.mark.parametrize(("do", "broken"), [(move, "moved what is not there"), (remove, "removed what is not there")])
def test_a_record_that_takes_what_is_gone_stops_the_member(
    driver: Driver, do: Callable[..., None], broken: str
) -> None:
    do(driver, b"")
    _, header = driver.headers[-1]
    if do is move:
        header.enqueue.first_index = driver.master.queue(2).next_index
    with pytest.raises(AssertionError, match=broken):
        driver.replica.apply(driver.log_index + 1, driver.epoch, header)

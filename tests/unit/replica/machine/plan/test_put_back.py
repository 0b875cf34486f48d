"""Messages that an administrator puts back: into a closed queue too, whole or not at all, and each once."""

from __future__ import annotations

import pytest

from replica.machine import Repeated
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver, batch_of

CLOSE = record_pb2.QUEUE_ACTION_CLOSE


def closed(**attributes: int) -> Driver:
    driver = Driver()
    driver.create(**attributes)
    for member in ("a", "b"):
        driver.queue(CLOSE, member=member)
    return driver


@pytest.mark.requirement("R155")
def test_a_closed_queue_takes_what_is_put_back_and_no_producers_message() -> None:
    driver = closed()
    assert driver.refusal(lambda: driver.send(1)).reason == common_pb2.REASON_INVALID_STATE
    op = driver.enqueue(batch_of([1, 2, 3]), left_out=())
    assert (op.first_index, op.internal, driver.info().length) == (1, True, 3)


def test_what_is_there_already_consumes_its_place_and_nothing_more() -> None:
    driver = closed()
    op = driver.enqueue(batch_of([1, 20, 3, 40]), left_out={1, 3})
    assert ([refusal.ordinal for refusal in op.refusals], op.payload_bytes) == ([1, 3], 4)
    assert (driver.info().length, driver.info().bytes) == (2, 4)
    assert driver.master.last_sequence("q", b"producer") == 4
    again = driver.plan_enqueue(batch_of([1, 20, 3, 40]), first_sequence=1, left_out=())
    assert isinstance(again, Repeated)
    assert [ordinal for ordinal, _ in again.run.refusals] == [1, 3], "the first answer, whatever is there by now"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_length": 2}, common_pb2.REASON_QUEUE_FULL),
        ({"max_bytes": 5, "max_message_bytes": 5}, common_pb2.REASON_QUEUE_FULL),
        ({"max_message_bytes": 2}, common_pb2.REASON_MESSAGE_TOO_LARGE),
    ],
)
def test_a_batch_that_does_not_fit_whole_is_not_ordered_at_all(limits: dict[str, int], reason: int) -> None:
    """A part of it would be remembered as refused, and the repetition would never bring it."""
    driver = closed(**limits)
    assert driver.refusal(lambda: driver.plan_enqueue(batch_of([1, 2, 3]), left_out=())).reason == reason
    assert driver.master.last_sequence("q", b"producer") == 0


def test_what_is_put_back_drops_nothing_to_make_room() -> None:
    """A producer takes the oldest message's place in such a queue; a backup would take what is newer than it."""
    driver = Driver()
    driver.create(max_length=3, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.send(3)
    assert (
        driver.refusal(lambda: driver.plan_enqueue(batch_of([1]), left_out=())).reason == common_pb2.REASON_QUEUE_FULL
    )
    driver.send(1)
    assert driver.browse() == [2, 3, 4]

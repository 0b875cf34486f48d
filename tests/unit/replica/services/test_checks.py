"""What a request says is turned into numbers here."""

from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration

from replica.services.checks import problem_of_answer, problem_of_wait, wait_ms, wait_s
from tandemq.v1.common_pb2 import REASON_BAD_ATTRIBUTE
from tandemq.v1.message_pb2 import Message


@pytest.mark.requirement("R023")
@pytest.mark.parametrize(
    ("seconds", "nanos", "milliseconds"),
    [(0, 0, 0), (0, 1, 1), (0, 999_999, 1), (0, 1_000_000, 1), (0, 1_000_001, 2), (3, 0, 3_000), (3, 1, 3_001)],
)
def test_a_wait_is_rounded_up_so_that_a_nanosecond_is_one(seconds: int, nanos: int, milliseconds: int) -> None:
    wait = Duration(seconds=seconds, nanos=nanos)
    assert problem_of_wait("wait", wait) is None
    assert wait_ms(wait) == milliseconds
    assert wait_s(wait) == pytest.approx(seconds + nanos / 1e9, abs=0)
    assert (wait_s(wait) > 0) is (seconds + nanos > 0)


@pytest.mark.parametrize(
    "message",
    [
        Message(ttl={"seconds": 1 << 62}),
        Message(ttl={"seconds": -1}),
        Message(delay={"seconds": 1 << 62}),
        Message(deliver_at={"seconds": 1 << 62}),
        Message(deliver_at={"seconds": 1, "nanos": -1}),
        Message(priority=10),
        Message(dedup_id="x" * 256),
    ],
)
def test_an_answer_that_no_queue_could_hold_is_refused(message: Message) -> None:
    problem = problem_of_answer(message)
    assert problem is not None
    assert problem.reason == REASON_BAD_ATTRIBUTE


def test_an_answer_that_a_queue_can_hold_is_not() -> None:
    assert problem_of_answer(Message(payload=b"plain")) is None
    whole = Message(priority=9, ttl={"seconds": 60}, dedup_id="x" * 255, persistent=True, reply_to="r")
    assert problem_of_answer(whole) is None

"""Which unary calls are remembered: the latest, and those of the window; each with its answer, also read back."""

from __future__ import annotations

import random

import pytest

from replica.machine import Limits
from replica.machine.state.requests import Requests
from tandemq.peer.v1 import record_pb2

WINDOW_MS, KEPT = 10_000, 20


def header_of(number: int, time_ms: int) -> record_pb2.RecordHeader:
    op = record_pb2.EnqueueOp(queue_id=number, count=1, first_index=number)
    return record_pb2.RecordHeader(
        time_ms=time_ms, request_id=number.to_bytes(16, "big"), request_hash=number, enqueue=op
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_call_is_known_for_its_time_or_among_so_many_and_not_much_longer(seed: int) -> None:
    chance, requests = random.Random(seed), Requests(Limits(dedup_window_ms=WINDOW_MS, requests_kept=KEPT))
    times: list[int] = []
    now_ms = 0
    for number in range(400):
        now_ms += chance.choice((0, 1, 300, 999, 1_000, 2_500))
        times.append(now_ms)
        requests.add(number + 1, 2, header_of(number, now_ms), "q", number)
        if chance.random() < 0.05:
            rows, marks, seen = requests.dump()
            requests = Requests(Limits(dedup_window_ms=WINDOW_MS, requests_kept=KEPT))
            requests.load(iter(rows), iter(marks), seen)
            assert requests.dump() == (rows, marks, seen)
    known = [number for number in range(400) if requests.find(number.to_bytes(16, "big"), number) is not None]
    assert known == list(range(known[0], 400)), "the oldest go first"
    assert len(requests) == len(known)
    must = {number for number in range(400) if number >= 400 - KEPT or now_ms - times[number] <= WINDOW_MS}
    may = {number for number in range(400) if number >= 400 - KEPT or now_ms - times[number] <= WINDOW_MS + 3_501}
    assert must <= set(known) <= may
    for number in known:
        answer = requests.find(number.to_bytes(16, "big"), number)
        assert answer is not None
        assert (answer.log_index, answer.epoch, answer.queue_id, answer.first_index) == (number + 1, 2, number, number)
        assert number.to_bytes(16, "big") in requests
    assert b"other" not in requests
    assert requests.find(b"", 0) is None


def test_what_comes_once_a_second_is_forgotten_a_second_after_its_time() -> None:
    requests = Requests(Limits(dedup_window_ms=WINDOW_MS, requests_kept=1))
    for number in range(40):
        requests.add(number + 1, 2, header_of(number, 1_000 * number), "q", number)
        oldest = max(0, number - WINDOW_MS // 1_000 - 1)
        assert [each for each in range(number + 1) if each.to_bytes(16, "big") in requests] == list(
            range(oldest, number + 1)
        )


def test_a_call_is_executed_once_and_the_masters_own_records_answer_none() -> None:
    requests = Requests(Limits())
    requests.add(1, 1, header_of(1, 0), "q", 1)
    with pytest.raises(AssertionError, match="executed twice"):
        requests.add(2, 1, header_of(1, 0), "q", 1)
    role = record_pb2.RecordHeader(request_id=b"r" * 16, role=record_pb2.RoleOp(owner="a"))
    with pytest.raises(AssertionError, match="answers no call"):
        requests.add(2, 1, role, "q", 1)

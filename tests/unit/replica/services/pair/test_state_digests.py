"""A state digest is of what is applied now, and looking at a busy member again and again takes little of its time."""

from __future__ import annotations

import pytest

from replica.services.pair import state_digests
from replica.services.pair.state_digests import QUICK_MS, SHARE, StateDigests
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE
from tests.unit.replica.machine.test_many_queues import Counted


class Clock:
    """Each reading is so many ms later than the one before."""

    def __init__(self, step_ms: int) -> None:
        self.now_ms, self.step_ms = 0, step_ms

    def __call__(self) -> int:
        self.now_ms += self.step_ms
        return self.now_ms


def test_a_digest_that_takes_long_is_left_out_until_its_share_of_the_time_is_over() -> None:
    clock, counted = Clock(4 * QUICK_MS), Counted(1)
    digests = StateDigests(clock)
    machine = counted.machine
    first = digests.look("main", 1, machine)
    assert first == machine.digest().hex()
    assert digests.look("main", 1, machine) == first, "nothing was applied: it is kept"
    counted.send()
    looks = 0
    while (found := digests.look("main", 1, machine)) is None:
        looks += 1
    assert looks == round(1 / SHARE) - 1
    assert found == machine.digest().hex() != first


def test_a_quick_digest_is_made_for_each_look() -> None:
    counted = Counted(1)
    digests = StateDigests(Clock(QUICK_MS))
    for _ in range(3):
        counted.send()
        assert digests.look("main", 1, counted.machine) == counted.machine.digest().hex()


def test_another_history_at_the_same_index_is_looked_at_anew() -> None:
    digests, before, after = StateDigests(Clock(0)), Counted(1), Counted(1)
    before.send()
    after.apply(after.queue(QUEUE_ACTION_DELETE, after.name))
    assert before.machine.applied_index == after.machine.applied_index
    assert digests.look("main", 1, before.machine) == before.machine.digest().hex()
    assert digests.look("main", 2, after.machine) == after.machine.digest().hex()


def test_a_state_that_is_too_large_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_digests, "RECORDS_MAX", 1)
    counted = Counted(1)
    counted.send()
    assert StateDigests().look("main", 1, counted.machine)
    counted.send()
    assert StateDigests().look("main", 1, counted.machine) == ""

"""What a call costs does not depend on how many queues there are: counted in calls of functions, not in time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from replica.machine import EnqueueCall, Machine, QueueCall, columns_of
from replica.machine.plan.enqueue import plan_enqueue
from replica.machine.plan.queue import plan_queue
from tandemq.peer.v1 import record_pb2
from tests.unit.replica.machine.driver import MEMBERS, Driver, batch_of

FEW, MANY = 10, 10_000


def steps(act: Callable[[], Any]) -> int:
    """How many functions of Python and of C are called."""
    count = 0

    def on_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # who listens to collections would be counted when one happens to fall in here
    sys.setprofile(on_event)
    try:
        act()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


class Counted:
    """One machine with so many queues, and what is done to the one in the middle."""

    def __init__(self, queues: int, driver: Driver | None = None) -> None:
        driver = driver or Driver()
        self.machine = Machine(7, MEMBERS, driver.limits)
        self.now_ms, self.log_index = driver.now_ms, 0
        self.name = f"q/{queues // 2}"
        for number in range(queues):
            self.apply(self.queue(record_pb2.QUEUE_ACTION_CREATE, f"q/{number}"))

    def apply(self, header: record_pb2.RecordHeader) -> None:
        self.log_index += 1
        self.machine.apply(self.log_index, 1, header)
        self.machine.commit(self.log_index)

    def queue(self, action: record_pb2.QueueAction, name: str) -> record_pb2.RecordHeader:
        return plan_queue(self.machine.state, self.machine.member_names, self.now_ms, QueueCall(action, name))

    def find(self) -> None:
        assert self.machine.queue_id(self.name) is not None

    def send(self) -> None:
        plan: Any = plan_enqueue(
            self.machine.state,
            self.now_ms,
            EnqueueCall(
                self.name, b"c", self.machine.last_sequence(self.name, b"c") + 1, columns_of(batch_of([1])), "a"
            ),
        )
        self.apply(plan.header)

    def destroy_and_make_anew(self) -> None:
        self.apply(self.queue(record_pb2.QUEUE_ACTION_DELETE, self.name))
        self.apply(self.queue(record_pb2.QUEUE_ACTION_CREATE, self.name))


@pytest.mark.slow
@pytest.mark.requirement("R014")
def test_finding_using_and_destroying_a_queue_cost_the_same_among_ten_thousand() -> None:
    costs, driver = [], Driver()  # the same limits: under equal ones a default costs one comparison more
    for queues in (FEW, MANY):
        counted = Counted(queues, driver)
        counted.send()
        costs.append([steps(act) for act in (counted.find, counted.send, counted.destroy_and_make_anew)])
    few, many = costs
    assert many == few

"""What a message costs does not depend on how many are queued, whatever they have: counted in calls of functions."""

from __future__ import annotations

from typing import Any

import pytest

from replica.machine import EnqueueCall, LeaseCall, Limits, SettleCall, columns_of
from replica.machine.plan.enqueue import plan_enqueue
from replica.machine.plan.lease import plan_lease
from replica.machine.plan.settle import plan_settle
from replica.machine.plan.time import plan_expire
from replica.machine.state.config import resolve
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import Settlement
from tests.unit.replica.machine.driver import ACK, batch_of, ranges_of
from tests.unit.replica.machine.test_many_queues import Counted, steps

SHALLOW, DEEP, BATCH, OF_EACH = 1_000, 20_000, 1_000, 10
HOUR_MS = 3_600_000


def filling(feature: str, number: int) -> dict[str, Any]:
    """What the messages have that stay in the queue: each its own."""
    each = range(number * BATCH, (number + 1) * BATCH)
    match feature:
        case "priority":
            return {"priorities": [place % 5 for place in each]}
        case "delayed":
            return {"delays_ms": [HOUR_MS + place * 7_919 % HOUR_MS for place in each]}
        case "expiry":
            return {"ttls_ms": [HOUR_MS + place * 7_919 % HOUR_MS for place in each]}
    return {}


def using(feature: str) -> dict[str, Any]:
    match feature:
        case "priority":
            return {"priorities": [9] * OF_EACH}
        case "expiry":
            return {"ttls_ms": [HOUR_MS] * OF_EACH}
    return {}


class Deep(Counted):
    """One queue of so many messages."""

    def __init__(self, feature: str, depth: int) -> None:
        super().__init__(1)
        self.feature = feature
        for number in range(depth // BATCH):
            self.put([10] * BATCH, filling(feature, number))

    def put(self, sizes: list[int], attributes: dict[str, Any]) -> None:
        plan: Any = plan_enqueue(
            self.machine.state,
            self.now_ms,
            EnqueueCall(
                self.name,
                b"c",
                self.machine.last_sequence(self.name, b"c") + 1,
                columns_of(batch_of(sizes, **attributes)),
                "a",
            ),
        )
        self.apply(plan.header)

    def use(self) -> None:
        """Ten are sent, delivered, and settled; what was there stays."""
        self.put([10] * OF_EACH, using(self.feature))
        queue_id = self.machine.queue_id(self.name)
        assert queue_id is not None
        header = plan_lease(
            self.machine.state, self.now_ms, LeaseCall(queue_id, OF_EACH, 1 << 30, b"taker", 0, immediate=False)
        )
        assert header is not None
        self.apply(header)
        runs = [(part.first, part.first + part.count - 1) for part in header.lease.ranges]
        lease_id = next(iter(self.machine.queue(queue_id).leases))
        settlement = Settlement(lease_id=lease_id, ranges=ranges_of(*runs), outcome=ACK)
        plan = plan_settle(self.machine.state, self.now_ms, SettleCall(self.name, [settlement]))
        assert plan.header is not None
        self.apply(plan.header)
        assert plan_expire(self.machine.state, self.now_ms) is None


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["plain", "priority", "delayed", "expiry"])
def test_a_message_costs_the_same_among_twenty_times_as_many(feature: str) -> None:
    costs = []
    for depth in (SHALLOW, DEEP):
        deep = Deep(feature, depth)
        deep.use()
        costs.append(min(steps(deep.use) for _ in range(3)))
    few, many = costs
    assert many <= 1.2 * few


def test_equal_attributes_resolve_equally_and_are_nobody_elses() -> None:
    asked = admin_pb2.QueueConfig(max_length=7, labels={"a": "b"})
    first = resolve(asked, Limits())
    first.max_length = 1
    assert (resolve(asked, Limits()).max_length, asked.max_length) == (7, 7)
    assert resolve(asked, Limits(queue_bytes_max=5 << 20)).max_bytes == 5 << 20
    manager = admin_pb2.QueueConfig(max_length=9, annotation="the manager's")
    assert resolve(None, Limits(), manager).max_length == 9
    assert resolve(asked, Limits(), manager).annotation == "the manager's"

"""What a side has of the attributes of its pair's queue, and what of them the pair alone has (K3, K4)."""

from __future__ import annotations

from typing import Any

import pytest

from replica.machine.plan.sides import plan_side
from replica.machine.state.lockstep import SideOf
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver

THE_SAME = {
    "max_length": 7,
    "max_bytes": 9_000,
    "max_message_bytes": 500,
    "dequeue_enabled": False,
    "lease_duration": {"seconds": 3},
}
THE_PAIRS_ALONE: dict[str, Any] = {
    "enqueue_enabled": False,
    "enqueue_enabled_at": {"seconds": 4_000},
    "dequeue_enabled": False,
    "dequeue_enabled_at": {"seconds": 5_000},
}


@pytest.mark.parametrize("attributes", [{}, THE_SAME, THE_PAIRS_ALONE, {**THE_SAME, **THE_PAIRS_ALONE}])
def test_a_side_is_as_the_queue_is_but_for_who_sends_and_when_it_is_enabled(attributes: dict[str, Any]) -> None:
    driver, own = Driver(), Driver()
    driver.create(replication=admin_pb2.REPLICATION_PRODUCER, **attributes)
    of, queue = SideOf(7, b"h" * 16, 1), driver.master.state.named("q")
    own.order(own.plan(lambda: plan_side(own.master.state, own.now_ms, of, queue, "a")))
    side = own.master.state.named("SYSTEM.SIDE/q").config
    assert (side.replication, side.domain) == (admin_pb2.REPLICATION_NONE, "local")
    assert not side.enqueue_enabled, "the pair's master gives it what it has"
    alone = ("enqueue_enabled_at", "dequeue_enabled_at")
    assert [name for name in alone if side.HasField(name)] == []
    for name in THE_SAME:
        assert getattr(side, name) == getattr(queue.config, name)

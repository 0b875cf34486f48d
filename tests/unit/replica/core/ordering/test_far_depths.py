"""What proxies have seen of queues at other managers counts when a macro queue deals to them (M3, M4)."""

from __future__ import annotations

import pytest

from replica.core.ordering.far_depths import FarDepth, FarDepths
from replica.core.ordering.steering import Steering
from replica.machine import EnqueueCall, Fresh, MacroCall, columns_of
from replica.machine.features.macros import ADD, CREATE, DELETE, REMOVE, plan_macro
from replica.machine.plan.deal import plan_deal
from tandemq.v1 import macro_service_pb2 as pb
from tests.unit.replica.machine.driver import Driver, batch_of
from tests.unit.replica.machine.features.test_weights import publish

TARGET = "//west/orders"
HERE, WAY = "here", "SYSTEM.XMIT/west/orders"
AWAY = FarDepth(0, "MANAGER_UNREACHABLE: nobody answers")


class World:
    """A macro queue over a queue here and, first by member priority, one at another manager."""

    def __init__(self, policy: str, room: int = 100, members: tuple[str, str] = (WAY, HERE)) -> None:
        self.driver, self.far = Driver(), FarDepths()
        kind = pb.MacroPolicy.Value(f"MACRO_POLICY_{policy}")
        self.change(MacroCall(CREATE, "m", b"", 0, relationship=pb.RELATIONSHIP_PRODUCER, policy=kind))
        for name, priority in zip(members, (9, 0), strict=True):
            self.driver.create(name, max_length=room)
            self.change(MacroCall(ADD, "m", b"", 0, queue=name, priority=priority))

    def change(self, call: MacroCall) -> None:
        self.driver.order(plan_macro(self.driver.master.state, self.driver.now_ms, call))

    def sent(self, count: int = 1, groups: list[str] | None = None) -> tuple[int, int]:
        """So many messages are here, and on their way, after a batch more."""
        state, now_ms = self.driver.master.state, self.driver.now_ms
        macro = state.macros.by_name["m"]
        columns = columns_of(batch_of([1] * count, queue="m", group_ids=groups or []))
        call = EnqueueCall("m", b"p", self.driver.master.last_sequence("m", b"p") + 1, columns, "a")
        plan = plan_deal(state, now_ms, macro, call, (), (), self.far.view(state, macro))
        assert isinstance(plan, Fresh)
        self.driver.order(plan.header)
        return state.named(HERE).length, state.named(WAY).length


def test_the_shortest_queue_is_the_one_with_the_fewest_here_and_there() -> None:
    world = World("SHORTEST_QUEUE")
    assert world.sent() == (0, 1), "nothing is known, and it was added first"
    world.far.seen[TARGET] = FarDepth(2)
    assert [world.sent() for _ in range(4)] == [(1, 1), (2, 1), (3, 1), (3, 2)]
    world.far.seen["//west/other"] = FarDepth(50)
    world.far.seen[TARGET] = FarDepth(0)
    assert world.sent() == (3, 3)


@pytest.mark.parametrize("policy", ["FIRST_AVAILABLE", "SHORTEST_QUEUE", "ROUND_ROBIN", "FASTEST_RESPONSE"])
def test_who_is_away_is_dealt_what_no_other_member_takes(policy: str) -> None:
    world = World(policy, room=3)
    world.far.seen[TARGET] = AWAY
    assert [world.sent() for _ in range(4)] == [(1, 0), (2, 0), (3, 0), (3, 1)]
    world.far.seen[TARGET] = FarDepth(0)
    assert world.sent() == (3, 2)


def test_weights_do_not_send_to_who_is_away() -> None:
    world = World("ROUND_ROBIN", room=3)
    publish(world.driver, (WAY, 9.0), (HERE, 1.0), name="m", valid_ms=60_000)
    world.far.seen[TARGET] = AWAY
    assert world.sent(4) == (3, 1)


def test_a_group_and_a_copy_wait_for_who_is_away() -> None:
    world = World("BY_GROUP")
    groups = [f"g{number}" for number in range(16)]
    before = world.sent(16, groups)
    world.far.seen[TARGET] = AWAY
    assert world.sent(16, groups) == (2 * before[0], 2 * before[1])
    assert world.sent(2) == (2 * before[0] + 2, 2 * before[1]), "what is of no group waits for nobody"
    copies = World("DUPLICATE")
    copies.far.seen[TARGET] = AWAY
    assert copies.sent(2) == (2, 2)


def test_all_may_be_away() -> None:
    world = World("ROUND_ROBIN")
    world.change(MacroCall(REMOVE, "m", b"", 0, queue=HERE))
    world.far.seen[TARGET] = AWAY
    assert world.sent(2) == (0, 2)


def test_a_version_of_a_history_that_was_lost_says_nothing_of_the_one_that_counts() -> None:
    """A master that was replaced had ordered other members under the same numbers and versions."""
    lost, kept = World("ROUND_ROBIN"), World("ROUND_ROBIN", members=(HERE, WAY))
    kept.far = lost.far
    lost.far.seen[TARGET] = AWAY
    assert lost.sent() == (1, 0)
    assert kept.sent(2) == (2, 0)


def test_a_macro_queue_that_is_gone_is_forgotten() -> None:
    world, steering = World("ROUND_ROBIN"), Steering()
    steering.far = world.far
    world.far.seen[TARGET] = AWAY
    world.sent()
    assert world.far._ways
    world.change(MacroCall(DELETE, "m", b"", 0))
    steering.forget(world.driver.master.state)
    assert not world.far._ways

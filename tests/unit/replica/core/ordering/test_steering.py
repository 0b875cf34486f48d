"""How members of a macro queue are ranked by what they settled lately, and each choice is counted (M8, R091)."""

from __future__ import annotations

import pytest

from replica.core.ordering.steering import Steering
from replica.machine import EnqueueCall, Fresh, MacroCall, columns_of
from replica.machine.features.macros import ADD, CREATE, DELETE, plan_macro
from replica.machine.plan.deal import plan_deal
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import Settlement
from tests.unit.replica.machine.driver import ACK, Driver, batch_of, ranges_of

NAMES = ("q0", "q1", "q2")
SECOND = 1_000


class World:
    """A macro queue over three queues, and who ranks them."""

    def __init__(self, policy: pb.MacroPolicy = pb.MACRO_POLICY_FASTEST_RESPONSE) -> None:
        self.driver, self.steering = Driver(), Steering()
        self.change(MacroCall(CREATE, "m", b"", 0, relationship=pb.RELATIONSHIP_PRODUCER, policy=policy))
        for name in NAMES:
            self.driver.create(name, max_length=10)
            self.change(MacroCall(ADD, "m", b"", 0, queue=name))

    def change(self, call: MacroCall) -> None:
        self.driver.order(plan_macro(self.driver.master.state, self.driver.now_ms, call))

    def send(self, count: int = 1) -> str:
        """The member that a batch enters."""
        state, now_ms = self.driver.master.state, self.driver.now_ms
        macro = state.macros.by_name["m"]
        batch = columns_of(batch_of([1] * count, queue="m"))
        call = EnqueueCall("m", b"p", self.driver.master.last_sequence("m", b"p") + 1, batch, "a")
        plan = plan_deal(state, now_ms, macro, call, (), self.steering.ranked(state, macro, now_ms))
        assert isinstance(plan, Fresh)
        self.steering.chose(macro, plan.header.enqueue.queue_id, now_ms)
        self.driver.order(plan.header)
        return str(plan.header.enqueue.queue)

    def serve(self, name: str, taken_ms: int) -> None:
        """A consumer takes all there is, and has settled it after so long."""
        lease_id, indexes = self.driver.lease(100, name=name)
        self.driver.now_ms += taken_ms
        ranges = ranges_of((indexes[0], indexes[-1]))
        self.driver.settle(Settlement(lease_id=lease_id, outcome=ACK, ranges=ranges), name=name)

    def choices(self) -> dict[str, int]:
        return dict(self.steering.choices(self.driver.master.state.macros.by_name["m"].queue_id))


def learnt(**taken_ms: int) -> World:
    """Each member has settled its first batch."""
    world = World()
    for _ in NAMES:
        world.serve(name := world.send(), taken_ms[name])
    return world


@pytest.mark.requirement("R085", "R091")
def test_a_member_of_which_nothing_is_known_comes_first_and_then_the_fastest() -> None:
    world = learnt(q0=300, q1=20, q2=100)
    assert world.choices() == {"NO_FIGURE": 3}
    assert [world.send() for _ in range(4)] == ["q1"] * 4
    assert world.choices() == {"NO_FIGURE": 3, "FASTEST": 4}
    assert world.steering.by_policy == {("FASTEST_RESPONSE", "NO_FIGURE"): 3, ("FASTEST_RESPONSE", "FASTEST"): 4}


def test_whoever_was_not_chosen_for_ten_seconds_is_tried_once() -> None:
    world = learnt(q0=300, q1=20, q2=100)
    world.driver.now_ms += 9 * SECOND
    assert world.send() == "q1"
    world.driver.now_ms += SECOND
    assert [world.send() for _ in range(4)] == ["q2", "q0", "q1", "q1"], "the better one of them first"
    assert world.choices()["PROBE"] == 2


def test_older_settlements_count_half_after_half_a_minute() -> None:
    world = learnt(q0=100, q1=200, q2=200)
    macro_id = world.driver.master.state.macros.by_name["m"].queue_id
    queue_id = world.driver.master.queue_id("q0") or 0
    world.driver.now_ms += 30 * SECOND
    assert world.send() == "q0"
    world.serve("q0", 250)
    world.send()
    mean_ms = world.steering.mean_ms(macro_id, queue_id)
    assert mean_ms is not None
    assert 195 < mean_ms < 205, "(100 / 2 + 250) / 1.5"
    world.driver.now_ms += 300 * SECOND
    world.send()
    assert world.steering.mean_ms(macro_id, queue_id) is None, "so long ago that it says nothing"


def test_of_two_that_are_as_fast_the_one_with_fewer_messages_is_chosen() -> None:
    world = learnt(q0=50, q1=50, q2=400)
    assert [world.send() for _ in range(4)] == ["q0", "q1", "q0", "q1"]
    assert world.choices() == {"NO_FIGURE": 3, "FEWEST": 4}


def test_who_has_no_room_or_is_shut_is_passed_over_and_is_not_taken_for_chosen() -> None:
    world = learnt(q0=300, q1=20, q2=100)
    world.driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q1", config=QueueConfig(enqueue_enabled=False))
    assert world.send(10) == "q2"
    assert world.send() == "q0"
    world.driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q1", config=QueueConfig(enqueue_enabled=True))
    world.driver.now_ms += 10 * SECOND
    assert (world.send(), world.choices()["PROBE"]) == ("q1", 1)


def test_the_next_master_begins_without_figures_and_the_first_choices_stand() -> None:
    """Only what was chosen is in the records."""
    world = learnt(q0=300, q1=20, q2=100)
    world.driver.master = world.driver.restored()
    world.steering = Steering()
    assert [world.send() for _ in range(3)] == list(NAMES)
    assert world.choices() == {"NO_FIGURE": 3}


def test_other_policies_look_at_no_figures_and_what_is_gone_is_forgotten() -> None:
    world = World(pb.MACRO_POLICY_SHORTEST_QUEUE)
    assert [world.send() for _ in range(3)] == list(NAMES)
    state = world.driver.master.state
    macro_id = state.macros.by_name["m"].queue_id
    assert world.choices() == {"POLICY": 3}
    world.change(MacroCall(DELETE, "m", b"", 0))
    world.steering.forget(state)
    assert world.steering.choices(macro_id) == ()

"""How a macro queue deals by the table of weights of its name, against a plain model, and until when (M9)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica.machine import EnqueueCall, Fresh, MacroCall, Repeated, columns_of
from replica.machine.features.macros import ADD, CREATE, DELETE, REMOVE, plan_macro, shown_weights
from replica.machine.plan.deal import plan_deal
from replica.machine.state.weighing import STEP_MS, UNIT, WHOLE
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.common_pb2 import REASON_QUEUE_FULL
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.unit.replica.machine.driver import Driver, batch_of
from tests.unit.replica.machine.features.test_dealing import outcome
from tests.unit.replica.machine.features.test_weights import delete, publish

NAMES = ("q0", "q1", "q2")
VALID_MS = 600_000


class World:
    """A macro queue over three queues, and tables under its name."""

    def __init__(self, policy: str = "ROUND_ROBIN", room: int = 10_000) -> None:
        self.driver = Driver()
        self.change(
            CREATE, relationship=pb.RELATIONSHIP_PRODUCER, policy=pb.MacroPolicy.Value(f"MACRO_POLICY_{policy}")
        )
        for name in NAMES:
            self.driver.create(name, max_length=room)
            self.change(ADD, queue=name)

    def change(self, action: record_pb2.MacroAction, **fields: Any) -> None:
        call = MacroCall(action, "m", b"", 0, **fields)
        self.driver.order(plan_macro(self.driver.master.state, self.driver.now_ms, call))

    def publish(self, **weights: float) -> int:
        return publish(self.driver, *weights.items(), name="m", valid_ms=VALID_MS)

    def plan(self, count: int, **fields: Any) -> Any:
        driver = self.driver
        sequence = fields.pop("sequence", driver.master.last_sequence("m", b"p") + 1)
        columns = columns_of(batch_of([1] * count, queue="m", **fields.pop("columns", {})))
        macro = driver.master.state.macros.by_name["m"]
        call = EnqueueCall("m", b"p", sequence, columns, "a", **fields)
        return driver.plan(lambda: plan_deal(driver.master.state, driver.now_ms, macro, call))

    def send(self, count: int = 1, **fields: Any) -> list[Any]:
        """Where each message has entered, or why it did not."""
        plan = self.plan(count, **fields)
        assert isinstance(plan, Fresh)
        self.driver.order(plan.header)
        came = outcome(plan.header)
        return [came[place] for place in range(count)]

    def shares(self) -> list[int | None]:
        """Parts of a million."""
        driver = self.driver
        return [each.share for each in shown_weights(driver.master.state, "m", driver.now_ms).members]

    def at_target(self) -> None:
        """All steps that a table takes are done."""
        for _ in range(6):
            self.driver.now_ms += STEP_MS
            self.send()

    def toggle(self, name: str, *, enabled: bool) -> None:
        self.driver.queue(record_pb2.QUEUE_ACTION_UPDATE, name, config=QueueConfig(enqueue_enabled=enabled))


@pytest.mark.requirement("R091")
@pytest.mark.parametrize("policy", ["FIRST_AVAILABLE", "ROUND_ROBIN", "SHORTEST_QUEUE", "FASTEST_RESPONSE"])
def test_a_table_overrides_a_policy_message_by_message_while_it_is_valid(policy: str) -> None:
    world = World(policy)
    world.publish(q0=3, q1=1, q2=4)
    world.at_target()
    assert Counter(world.send(800)) == {"q0": 300, "q1": 100, "q2": 400}
    assert Counter(each for _ in range(80) for each in world.send()) == {"q0": 30, "q1": 10, "q2": 40}


@pytest.mark.parametrize("policy", ["FIRST_AVAILABLE", "ROUND_ROBIN", "SHORTEST_QUEUE"])
def test_a_table_that_is_over_moves_nothing(policy: str) -> None:
    """At its very end already; the record says that no table was looked at."""
    world, other = World(policy), World(policy)
    world.publish(q2=1)
    end_ms = world.driver.master.state.weights["m"].valid_until_ms
    world.driver.now_ms = other.driver.now_ms = end_ms
    plan = world.plan(6)
    assert not plan.header.enqueue.weighed
    assert not plan.header.txn.deal.weighed
    assert world.send(6) == other.send(6)
    assert world.shares() == [None] * 3
    weights = shown_weights(world.driver.master.state, "m", end_ms).weights
    assert weights is not None
    assert not weights.in_force
    weights = shown_weights(world.driver.master.state, "m", end_ms - 1).weights
    assert weights is not None
    assert weights.in_force


def test_a_table_that_was_published_before_there_was_a_macro_queue_of_its_name_moves_nothing() -> None:
    """Whoever made it knew of no such thing: it was a router's."""
    world, other = World(), World()
    world.change(DELETE)
    world.publish(q2=1)
    world.driver.now_ms += 1
    world.change(CREATE, relationship=pb.RELATIONSHIP_PRODUCER, policy=pb.MACRO_POLICY_ROUND_ROBIN)
    for name in NAMES:
        world.change(ADD, queue=name)
    assert world.send(6) == other.send(6)
    weights = shown_weights(world.driver.master.state, "m", world.driver.now_ms).weights
    assert weights is not None
    assert not weights.in_force
    world.publish(q2=1)
    world.at_target()
    assert set(world.send(6)) == {"q2"}


def test_a_table_that_is_deleted_or_of_no_member_moves_nothing() -> None:
    world = World()
    world.publish(q2=1)
    world.send()
    delete(world.driver, name="m")
    assert Counter(world.send(3)) == dict.fromkeys(NAMES, 1)
    world.driver.create("other")
    world.publish(other=1)
    assert Counter(world.send(6)) == {"q0": 2, "q1": 2, "q2": 2}
    assert world.driver.master.state.macros.by_name["m"].weighing is None


@pytest.mark.parametrize("policy", ["BY_GROUP", "DUPLICATE", "DUPLICATE_BEST_EFFORT"])
def test_a_group_keeps_its_member_and_a_copy_goes_to_all(policy: str) -> None:
    world, other = World(policy), World(policy)
    world.publish(q2=1)
    columns = {"group_ids": ["a", "b", "c", "d"]} if policy == "BY_GROUP" else {}
    assert world.send(4, columns=columns) == other.send(4, columns=columns)
    assert shown_weights(world.driver.master.state, "m", world.driver.now_ms).weights is None


def test_shares_move_by_a_fifth_a_version_and_a_fifth_each_ten_seconds() -> None:
    """CLIENTS, Routing weights: a wrong table does not move all messages at once."""
    world = World()
    world.publish(q0=1)
    third, fifth = WHOLE // 3, WHOLE // 5
    world.send()
    assert world.shares() == [third + fifth, third - fifth, third - fifth]
    world.driver.now_ms += STEP_MS - 1
    world.send()
    assert world.shares() == [third + fifth, third - fifth, third - fifth], "no step is due"
    world.driver.now_ms += 1
    world.send()
    assert world.shares() == [third + 2 * fifth, 0, 0]
    world.publish(q1=1)
    world.send()
    assert world.shares() == [third + fifth, fifth, 0]
    world.at_target()
    assert world.shares() == [0, WHOLE, 0]


def test_from_live_figures_shares_begin_at_equal_ones() -> None:
    """What a table was long ago is no place to begin from."""
    world = World()
    world.publish(q0=1)
    world.at_target()
    world.driver.now_ms += VALID_MS
    world.send()
    world.publish(q1=1)
    world.send()
    third, fifth = WHOLE // 3, WHOLE // 5
    assert world.shares() == [third - fifth, third + fifth, third - fifth]


def test_a_member_without_a_share_takes_what_no_other_one_takes() -> None:
    """A table is advice, and no reason to refuse anything."""
    world = World(room=10)
    world.publish(q0=1, q1=1)
    world.at_target()
    world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, "q0")
    world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, "q1")
    world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, "q2")
    came = world.send(32)
    assert Counter(came[:20]) == {"q0": 10, "q1": 10}
    assert came[20:30] == ["q2"] * 10
    assert came[30:] == [REASON_QUEUE_FULL] * 2


def test_who_was_shut_for_a_while_is_next_and_is_not_given_all_that_it_has_missed() -> None:
    world = World()
    world.publish(q0=1, q1=1)
    world.at_target()
    world.toggle("q1", enabled=False)
    assert world.send(100) == ["q0"] * 100
    world.toggle("q1", enabled=True)
    came = world.send(20)
    assert came[0] == "q1"
    assert 10 <= came.count("q1") <= 11


def test_a_repetition_finds_the_first_dealing_and_the_next_master_goes_on() -> None:
    """M2, M3: shares and what each has had of them are state, and the batch is one record."""
    world, other = World(), World()
    for each in (world, other):
        each.publish(q0=3, q1=1, q2=1)
        assert len(each.send(7)) == 7
    assert isinstance(world.plan(7, sequence=1), Repeated)
    assert world.driver.restored().digest() == world.driver.master.digest()
    world.driver.master = world.driver.restored()
    assert [world.send(3) for _ in range(5)] == [other.send(3) for _ in range(5)]


def test_a_member_that_comes_has_no_share_and_one_that_goes_leaves_none() -> None:
    world = World()
    world.publish(q0=1, q1=1)
    world.at_target()
    world.change(REMOVE, queue="q0")
    world.driver.create("q9")
    world.change(ADD, queue="q9")
    assert Counter(world.send(50)) == {"q1": 50}
    macro = world.driver.master.state.macros.by_name["m"]
    assert macro.weighing is not None
    assert len(macro.weighing.shares) == 2
    assert world.driver.restored().digest() == world.driver.master.digest()


@dataclass
class Model:
    """Whoever stands least far back is next, and goes back by one over its share."""

    room: int
    shares: list[int]
    held: list[int] = field(default_factory=lambda: [0, 0, 0])
    enabled: list[bool] = field(default_factory=lambda: [True] * 3)
    back: list[int] = field(default_factory=lambda: [0] * 3)
    clock: int = 0

    def send(self) -> int | None:
        able = [at for at in range(3) if self.enabled[at] and self.held[at] < self.room]
        shared = [at for at in able if self.shares[at]]
        if not shared:
            return self.take(able[0]) if able else None
        at = min(shared, key=lambda each: (self.back[each], -self.shares[each], each))
        began = max(self.back[at], self.clock)
        self.clock = began
        self.back[at] = began + UNIT // self.shares[at]
        return self.take(at)

    def take(self, at: int) -> int:
        self.held[at] += 1
        return at


STEP = st.one_of(st.integers(1, 6), st.sampled_from(["q0", "q1", "q2", "-q0", "-q1", "-q2"]))


@settings(max_examples=60, deadline=None)
@given(weights=st.lists(st.sampled_from((0, 1, 2, 4, 5)), min_size=3, max_size=3).filter(any), steps=st.lists(STEP))
def test_messages_go_where_the_model_says(weights: list[int], steps: list[int | str]) -> None:
    """With members that fail and return."""
    world = World(room=8)
    world.publish(**dict(zip(NAMES, map(float, weights), strict=True)))
    world.at_target()
    for name in NAMES:
        world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, name)
    for machine in (world.driver.master, world.driver.replica):
        weighing = machine.state.macros.by_name["m"].weighing
        assert weighing is not None
        weighing.tags.clear()
        weighing.clock = 0
    shares = [each or 0 for each in world.shares()]
    assert all(
        abs(share * sum(weights) - weight * WHOLE) <= sum(weights)
        for share, weight in zip(shares, weights, strict=True)
    )
    model = Model(8, shares)
    for step in steps:
        if isinstance(step, str) and step.startswith("-"):
            world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, step[1:])
            model.held[NAMES.index(step[1:])] = 0
        elif isinstance(step, str):
            at = NAMES.index(step)
            model.enabled[at] = not model.enabled[at]
            world.toggle(step, enabled=model.enabled[at])
        elif any(model.enabled):
            expected = [model.send() for _ in range(step)]
            came = world.send(step)
            assert [each for each in came if each in NAMES] == [NAMES[at] for at in expected if at is not None]

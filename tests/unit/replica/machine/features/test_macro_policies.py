"""Each policy of macro queues against a plain model of it, with members that are disabled and come back (R078-R087)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica.machine import EnqueueCall, Fresh, LeaseCall, MacroCall, Refused, columns_of
from replica.machine.features.macros import ADD, CREATE, plan_macro
from replica.machine.plan.deal import plan_deal
from replica.machine.plan.fan_in import asked_in_order
from replica.machine.plan.lease import plan_lease
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_UPDATE
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.common_pb2 import REASON_QUEUE_FULL
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.unit.replica.machine.driver import Driver, batch_of, indexes_of

PRODUCER, CONSUMER = pb.RELATIONSHIP_PRODUCER, pb.RELATIONSHIP_CONSUMER
ROOM = 4
PRIORITIES = (0, 5, 5, 9)
MEMBERS = range(len(PRIORITIES))


@dataclass
class Member:
    """A queue of the model: what it holds, (message priority, when, index) in the order of delivery."""

    priority: int
    enabled: bool = True
    held: list[tuple[int, int, int]] = field(default_factory=list)
    sent: int = 0

    def put(self, priority: int, when: int) -> None:
        self.sent += 1
        self.held.append((priority, when, self.sent))
        self.held.sort(key=lambda each: (-each[0], each[2]))


class Model:
    """All that a policy says, in one line each."""

    def __init__(self, policy: pb.MacroPolicy) -> None:
        self.policy = policy
        self.members = [Member(priority) for priority in PRIORITIES]
        self.last = -1

    def order(self) -> list[int]:
        members = self.members
        by_priority = sorted(MEMBERS, key=lambda at: -members[at].priority)
        match self.policy:
            case pb.MACRO_POLICY_ROUND_ROBIN:
                return [(self.last + step) % len(members) for step in range(1, len(members) + 1)]
            case pb.MACRO_POLICY_SHORTEST_QUEUE:
                return sorted(MEMBERS, key=lambda at: len(members[at].held))
            case pb.MACRO_POLICY_CHRONOLOGICAL:
                return sorted((at for at in by_priority if members[at].held), key=lambda at: members[at].held[0][1])
            case pb.MACRO_POLICY_MESSAGE_PRIORITY:
                some = [at for at in by_priority if members[at].held]
                return sorted(some, key=lambda at: (-members[at].held[0][0], members[at].held[0][1]))
        return by_priority

    def choose(self, *, taking: bool) -> int | None:
        """The member that gives, or takes, the next message."""
        for at in self.order():
            member = self.members[at]
            if member.enabled and (member.held if taking else len(member.held) < ROOM):
                self.last = at
                return at
        return None


class World:
    """The model and a machine, side by side."""

    def __init__(self, relationship: pb.Relationship, policy: pb.MacroPolicy) -> None:
        self.driver, self.model, self.when = Driver(), Model(policy), 0
        self.macro_change(MacroCall(CREATE, "m", b"", 0, relationship=relationship, policy=policy))
        for at, priority in enumerate(PRIORITIES):
            self.driver.create(f"q{at}", max_length=ROOM)
            self.macro_change(MacroCall(ADD, "m", b"", 0, queue=f"q{at}", priority=priority))

    def macro_change(self, call: MacroCall) -> None:
        self.driver.order(plan_macro(self.driver.master.state, self.driver.now_ms, call))

    def put(self, at: int, priority: int) -> None:
        """Sent to a member by its own name."""
        member = self.model.members[at]
        if member.enabled and len(member.held) < ROOM:
            self.when += 1
            self.driver.enqueue(batch_of([1], [priority], queue=f"q{at}"))
            member.put(priority, self.when)

    def toggle(self, at: int) -> None:
        member = self.model.members[at]
        member.enabled = not member.enabled
        config = QueueConfig(enqueue_enabled=member.enabled, dequeue_enabled=member.enabled)
        self.driver.queue(QUEUE_ACTION_UPDATE, f"q{at}", config=config)

    def send(self) -> None:
        """To the macro queue."""
        state = self.driver.master.state
        sequence = self.driver.master.last_sequence("m", b"p") + 1
        call = EnqueueCall("m", b"p", sequence, columns_of(batch_of([1], queue="m")), "a")
        chosen = self.model.choose(taking=False)
        if not any(member.enabled for member in self.model.members):
            with pytest.raises(Refused):
                plan_deal(state, self.driver.now_ms, state.macros.by_name["m"], call)
            return
        plan = plan_deal(state, self.driver.now_ms, state.macros.by_name["m"], call)
        assert isinstance(plan, Fresh)
        self.driver.order(plan.header)
        if chosen is None:
            assert [each.reason for each in plan.header.enqueue.refusals] == [REASON_QUEUE_FULL]
            return
        assert plan.header.enqueue.queue == f"q{chosen}"
        self.when += 1
        self.model.members[chosen].put(4, self.when)

    def take(self) -> None:
        """One message, from the macro queue."""
        state, chosen = self.driver.master.state, self.model.choose(taking=True)
        macro = state.macros.by_name["m"]
        asked = next(asked_in_order(state, macro, self.driver.now_ms, immediate=True), None)
        if asked is None or chosen is None:
            assert (asked, chosen) == (None, None)
            return
        call = LeaseCall(asked.queue.queue_id, 1, 1 << 40, b"c", 0, immediate=True)
        header = plan_lease(state, self.driver.now_ms, call)
        assert header is not None
        header.lease.macro_id = macro.queue_id
        self.driver.order(header)
        (index,) = indexes_of(header.lease.ranges)
        assert (asked.queue.name, index) == (f"q{chosen}", self.model.members[chosen].held.pop(0)[2])


STEP = st.tuples(
    st.sampled_from(["put", "put", "put", "go", "go", "toggle"]), st.sampled_from(MEMBERS), st.sampled_from((0, 4, 9))
)
STEPS = st.lists(STEP, min_size=15, max_size=30)


def played(world: World, steps: list[tuple[str, int, int]], *, taking: bool) -> None:
    for what, at, priority in steps:
        if what == "put":
            world.put(at, priority)
        elif what == "toggle":
            world.toggle(at)
        elif taking:
            world.take()
        else:
            world.send()
    restored = world.driver.restored()
    assert restored.digest() == world.driver.master.digest()


@pytest.mark.requirement("R078", "R079", "R080", "R081", "R082")
@pytest.mark.parametrize(
    "policy", ["PRIORITIZED", "FIRST_AVAILABLE", "ROUND_ROBIN", "CHRONOLOGICAL", "MESSAGE_PRIORITY"]
)
@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_a_consumer_is_given_what_the_model_says(policy: str, steps: list[tuple[str, int, int]]) -> None:
    played(World(CONSUMER, pb.MacroPolicy.Value(f"MACRO_POLICY_{policy}")), steps, taking=True)


@pytest.mark.requirement("R083", "R086", "R087")
@pytest.mark.parametrize("policy", ["FIRST_AVAILABLE", "ROUND_ROBIN", "SHORTEST_QUEUE"])
@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_a_batch_enters_where_the_model_says(policy: str, steps: list[tuple[str, int, int]]) -> None:
    played(World(PRODUCER, pb.MacroPolicy.Value(f"MACRO_POLICY_{policy}")), steps, taking=False)

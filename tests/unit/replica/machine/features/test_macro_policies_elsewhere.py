"""Each policy of macro queues that are sent to against a plain model of it, over members here and at other managers
whose proxies fail and come back, and whose links carry on what waits for them (M4, R083, R086, R087).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica.core.ordering.far_depths import FarDepth, FarDepths
from replica.machine import EnqueueCall, Fresh, MacroCall, Refused, columns_of
from replica.machine.features.macros import ADD, CREATE, plan_macro
from replica.machine.plan.deal import plan_deal
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_UPDATE, EnqueueOp
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import Settlement
from tests.unit.replica.machine.driver import ACK, Driver, batch_of, ranges_of

ROOM = 4
WAYS = ("SYSTEM.XMIT/west/q", "SYSTEM.XMIT/east/q")
NAMES = ("q0", WAYS[0], "q1", WAYS[1])
PRIORITIES = (0, 9, 5, 5)
MEMBERS = range(len(NAMES))
GROUPS = ("a", "b", "c")


@dataclass
class Member:
    """A member of the model: what waits in its queue here, and what is known of the queue that it leads to."""

    priority: int
    is_way: bool
    enabled: bool = True
    away: bool = False
    waits: list[int] = field(default_factory=list)
    there: int = 0
    """Messages that have arrived there."""
    seen: int = 0
    """Of them, when somebody looked last."""
    sent: int = 0

    @property
    def takes(self) -> bool:
        return self.enabled and len(self.waits) < ROOM

    def put(self) -> int:
        self.sent += 1
        self.waits.append(self.sent)
        return self.sent


class Model:
    """All that a policy says of one message, in a few lines each."""

    def __init__(self, policy: pb.MacroPolicy) -> None:
        self.policy, self.last = policy, -1
        self.members = [Member(each, NAMES[at].startswith("SYSTEM")) for at, each in enumerate(PRIORITIES)]
        self.homes: dict[str, int] = {}

    def _order(self) -> list[int]:
        members = self.members
        match self.policy:
            case pb.MACRO_POLICY_ROUND_ROBIN:
                order = [(self.last + step) % len(members) for step in range(1, len(members) + 1)]
            case pb.MACRO_POLICY_SHORTEST_QUEUE | pb.MACRO_POLICY_BY_GROUP:
                order = sorted(MEMBERS, key=lambda at: len(members[at].waits) + members[at].seen)
            case _:
                order = sorted(MEMBERS, key=lambda at: -members[at].priority)
        return sorted(order, key=lambda at: members[at].away)

    def homes_of(self, group: str) -> list[int] | None:
        """Where the message enters; empty: it is refused; None: nobody says yet which member is that group's."""
        if self.policy == pb.MACRO_POLICY_DUPLICATE:
            return list(MEMBERS) if all(each.takes for each in self.members) else []
        if self.policy == pb.MACRO_POLICY_DUPLICATE_BEST_EFFORT:
            return [at for at in MEMBERS if self.members[at].takes]
        if self.policy == pb.MACRO_POLICY_BY_GROUP and group:
            home = self.homes.get(group)
            return None if home is None else [home] if self.members[home].takes else []
        return [at for at in self._order() if self.members[at].takes][:1]


class World:
    """The model and a machine, side by side."""

    def __init__(self, policy: pb.MacroPolicy) -> None:
        self.driver, self.model, self.depths = Driver(), Model(policy), FarDepths()
        self._change(MacroCall(CREATE, "m", b"", 0, relationship=pb.RELATIONSHIP_PRODUCER, policy=policy))
        for name, priority in zip(NAMES, PRIORITIES, strict=True):
            self.driver.create(name, max_length=ROOM)
            self._change(MacroCall(ADD, "m", b"", 0, queue=name, priority=priority))

    def _change(self, call: MacroCall) -> None:
        self.driver.order(plan_macro(self.driver.master.state, self.driver.now_ms, call))

    def send(self, at: int) -> None:
        """To the macro queue, one message: of a group, or of none."""
        state, group = self.driver.master.state, (*GROUPS, "")[at]
        macro = state.macros.by_name["m"]
        sequence = self.driver.master.last_sequence("m", b"p") + 1
        batch = batch_of([1], queue="m")
        batch.messages.group_ids.append(group)
        call = EnqueueCall("m", b"p", sequence, columns_of(batch), "a")
        wanted = self.model.homes_of(group)
        try:
            plan = plan_deal(state, self.driver.now_ms, macro, call, far=self.depths.view(state, macro))
        except Refused:
            assert not wanted, "nobody takes it"
            return
        assert isinstance(plan, Fresh)
        header = plan.header
        self.driver.order(header)
        ops = header.txn.enqueues if header.HasField("txn") else [header.enqueue]
        entered = [NAMES.index(op.queue) for op in ops if not op.refusals]
        if wanted is None:
            (home,) = [NAMES.index(op.queue) for op in ops]
            self.model.homes[group] = home
            wanted = [home] if self.model.members[home].takes else []
        assert sorted(entered) == sorted(wanted)
        for op in ops if wanted else ():
            self._put(op)

    def _put(self, op: EnqueueOp) -> None:
        at = NAMES.index(op.queue)
        if not op.refusals:
            assert op.first_index == self.model.members[at].put()
            self.model.last = at

    def toggle(self, at: int) -> None:
        """A member here is disabled, or comes back; one elsewhere is away, or reached again."""
        member = self.model.members[at]
        if member.is_way:
            member.away = not member.away
            self.look(at)
            return
        member.enabled = not member.enabled
        self.driver.queue(QUEUE_ACTION_UPDATE, NAMES[at], config=QueueConfig(enqueue_enabled=member.enabled))

    def look(self, at: int) -> None:
        """Its proxy looks at it: at its length too, if it is reached."""
        member = self.model.members[at]
        if member.is_way:
            member.seen = member.seen if member.away else member.there
            target = "//" + NAMES[at].removeprefix("SYSTEM.XMIT/")
            self.depths.seen[target] = FarDepth(member.seen, "nobody answers" if member.away else "")

    def carry(self, at: int) -> None:
        """The link brings the first one there, which needs no proxy; a consumer here takes it."""
        member = self.model.members[at]
        if member.waits:
            lease_id, indexes = self.driver.lease(1, name=NAMES[at])
            assert indexes == [member.waits.pop(0)]
            self.driver.settle(
                Settlement(lease_id=lease_id, ranges=ranges_of((indexes[0], indexes[0])), outcome=ACK), name=NAMES[at]
            )
            member.there += member.is_way


STEP = st.tuples(st.sampled_from(["send", "send", "send", "send", "toggle", "look", "carry"]), st.sampled_from(MEMBERS))


@pytest.mark.requirement("R083", "R086", "R087")
@pytest.mark.parametrize(
    "policy", ["FIRST_AVAILABLE", "ROUND_ROBIN", "SHORTEST_QUEUE", "BY_GROUP", "DUPLICATE", "DUPLICATE_BEST_EFFORT"]
)
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEP, min_size=20, max_size=40))
def test_a_batch_enters_where_the_model_says(policy: str, steps: list[tuple[str, int]]) -> None:
    world = World(pb.MacroPolicy.Value(f"MACRO_POLICY_{policy}"))
    for what, at in steps:
        getattr(world, what)(at)
    restored = world.driver.restored()
    assert restored.digest() == world.driver.master.digest()

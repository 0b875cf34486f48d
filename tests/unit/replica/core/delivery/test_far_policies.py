"""Each policy of macro queues that are received from against a plain model of it, over members here and at other
managers that fail, answer late, lose what they had leased and come back (M5, M7, R078-R082).

The pair is whole; the shell, which leases there and gives back, is the test: it does one thing at a time, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica.core.delivery.far_heads import AWAY, HEARD, IDLE, LATE, FarClaim, FarMember
from replica.core.messages.far_bodies import runs_of
from replica.core.state.calls import PendingCall, PendingEnqueue
from replica.core.state.outcomes import LeaseDone, QueueDone
from replica.machine import EnqueueCall, ProxyCall, QueueCall, columns_of
from replica.machine.features import proxies
from replica.machine.features.macros import ADD
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_UPDATE
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.message_pb2 import DeliveredSegment, MessageBatch
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import DequeueResponse, EnqueueBatch
from tests.support.clients import Waiter, create
from tests.unit.replica.core.delivery.test_fan_in import CONSUMER, Taker, begun, change
from tests.unit.replica.core.delivery.test_far_heads import Woken, far_of, indexes_of, look

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.member import Member

LONG_MS = 60_000
NEAR, FAR = {"q0": 5, "q1": 0}, {"p0": 9, "p1": 5}
"""Member priorities. In the order of adding q0, p0, q1, p1."""
ORDER = ("q0", "p0", "q1", "p1")
PRIORITY = {**NEAR, **FAR}
COMPARING = (pb.MACRO_POLICY_CHRONOLOGICAL, pb.MACRO_POLICY_MESSAGE_PRIORITY)


class Sent(NamedTuple):
    """A message of a member, as its queue has it."""

    priority: int
    at_ms: int
    index: int


@dataclass
class Queue:
    """A member in the model: what is ready at it, in the order of delivery."""

    ready: list[Sent] = field(default_factory=list)
    all: dict[int, Sent] = field(default_factory=dict)

    def sent(self, priority: int, at_ms: int) -> int:
        index = len(self.all) + 1
        self.all[index] = Sent(priority, at_ms, index)
        self.put_back([index])
        return index

    def put_back(self, indexes: Iterable[int]) -> None:
        self.ready += [self.all[index] for index in indexes]
        self.ready.sort(key=lambda each: (-each.priority, each.index))


@dataclass
class Near(Queue):
    """Of this domain."""

    enabled: bool = True


@dataclass
class Far(Queue):
    """Of another manager, with the heads that are leased there for this pair."""

    state: pb.FarState = IDLE
    heads: list[tuple[int, Sent]] = field(default_factory=list)
    """With their leases."""
    holder: tuple[int, int] | None = None
    """Lease of the first heads, and the consumer who was given a part of it."""

    @property
    def awaited(self) -> bool:
        return not self.heads and self.state == IDLE

    def lease(self, lease: int, count: int) -> list[Sent]:
        taken, self.ready, self.state = self.ready[:count], self.ready[count:], HEARD
        self.heads += [(lease, sent) for sent in taken]
        return taken

    def all_back(self) -> None:
        self.holder = None
        self._keep([])

    def end(self) -> tuple[int, int]:
        """The first lease, and how many were under it."""
        lease, before = self.heads[0][0], len(self.heads)
        self._keep([each for each in self.heads if each[0] != lease])
        return lease, before - len(self.heads)

    def take(self, who: int) -> int | None:
        """The first head, for that consumer; None: it is another one's, and all go back."""
        lease, sent = self.heads[0]
        if self.holder is not None and self.holder[0] == lease and self.holder[1] != who:
            self.all_back()
            return None
        self.heads.pop(0)
        self.holder = (lease, who) if self.heads and self.heads[0][0] == lease else None
        self._heard()
        return sent.index

    def _keep(self, heads: list[tuple[int, Sent]]) -> None:
        gone = [sent.index for lease, sent in self.heads if (lease, sent) not in heads]
        self.heads = heads
        self.put_back(gone)
        if gone:
            self._heard()

    def _heard(self) -> None:
        if not self.heads and self.state == HEARD:
            self.state = IDLE


class Model:
    """All that a policy says, in a few lines each: message by message."""

    def __init__(self, policy: pb.MacroPolicy) -> None:
        self.policy, self.last = policy, ""
        self.near = {name: Near() for name in NEAR}
        self.far = {name: Far() for name in FAR}

    def left(self) -> bool:
        """Something is ready, or a head."""
        return any(each.ready for each in (*self.near.values(), *self.far.values())) or self._heads()

    def _heads(self) -> bool:
        return any(each.heads for each in self.far.values())

    def choose(self, who: int) -> tuple[str, int] | None:
        """The next message for a consumer, and whose; None: he waits."""
        for name in self._order():
            if name in self.far:
                member = self.far[name]
                if member.awaited:
                    return None
                index = member.take(who) if member.heads else 0
                if index is None:
                    return None
            else:
                near = self.near[name]
                index = near.ready.pop(0).index if near.enabled and near.ready else 0
            if index:
                self.last = name
                return name, index
        return None

    def _order(self) -> list[str]:
        if self.policy == pb.MACRO_POLICY_ROUND_ROBIN:
            at = ORDER.index(self.last) + 1 if self.last else 0
            return [*ORDER[at:], *ORDER[:at]]
        if self.policy not in COMPARING:
            return sorted(ORDER, key=lambda name: -PRIORITY[name])
        if awaited := [name for name in FAR if self.far[name].awaited]:
            return awaited
        rows = [(self._age(each.ready[0]), name) for name, each in self.near.items() if each.ready]
        rows += [(self._age(each.heads[0][1]), name) for name, each in self.far.items() if each.heads]
        return [name for _, name in sorted(rows)]

    def _age(self, sent: Sent) -> tuple[int, int]:
        """No two of this model have entered at one moment."""
        by_priority = self.policy == pb.MACRO_POLICY_MESSAGE_PRIORITY
        return (-sent.priority if by_priority else 0, sent.at_ms)


class World:
    """The model and a pair, side by side."""

    def __init__(self, policy: pb.MacroPolicy) -> None:
        self.pair, self.model = begun(CONSUMER, policy), Model(policy)
        far_of(self.pair).shell = Woken()
        for name in ORDER:
            self._add(name)
        machine = self.master.core.shared.machine
        assert machine is not None
        found = far_of(self.pair).of(machine.state, machine.state.macros.by_name["m"])
        self.members: dict[str, FarMember] = {each.name: each for each in found.values()}
        self.takers = [Taker(self.pair, f"c{number}", credit=0, lease_ms=LONG_MS) for number in range(2)]
        self.waiting, self.credit = 0, 0
        """Who of them waits, one at a time, and for how many; 0: nobody."""
        self.heard = [0, 0]
        self.leases = 1 << 40
        self.claims: list[tuple[str, FarClaim]] = []
        """On their way to a consumer."""
        self.delivered: list[str] = []

    def _add(self, name: str) -> None:
        if name in NEAR:
            create(self.pair, name)
        else:
            waiter = Waiter()
            self._submit(PendingCall(waiter, ProxyCall(proxies.CREATE, name, b"", 0, target=f"//west/{name}")))
            assert isinstance(waiter.done, QueueDone), waiter.done
        change(self.pair, ADD, queue=name, priority=PRIORITY[name])

    @property
    def master(self) -> Member:
        assert self.pair.master is not None
        return self.pair.master

    def _submit(self, call: Any) -> None:
        self.master.submit(call)
        self.pair.quiesce()

    # -- what happens ------------------------------------------------------------------------------------------------

    def step(self, what: str, at: int, more: int) -> None:
        """One of the things that may happen, by the name of its method. `at`: which member or consumer."""
        self.pair.now_ms += 1
        getattr(self, f"on_{what}")(at, more)
        look(self.pair)
        self._compare()

    def on_put(self, at: int, priority: int) -> None:
        """Sent to a member here by its own name."""
        name = tuple(NEAR)[at]
        number = self.model.near[name].sent(priority, self.pair.wall_ms)
        messages = MessageBatch(payloads=[b"x"], priorities=[priority])
        batch = EnqueueBatch(queue=name, first_sequence=number, messages=messages)
        body = batch.SerializeToString()
        crc = google_crc32c.value(body)
        call = EnqueueCall(name, b"s", number, columns_of(batch), self.master.name, request_hash=crc)
        self._submit(PendingEnqueue(Waiter(), call, body, 0))

    def on_put_there(self, at: int, priority: int) -> None:
        """Sent to a queue of the other manager, whose clock is that of this pair."""
        name = tuple(FAR)[at]
        self.model.far[name].sent(priority, self.pair.wall_ms)

    def on_ask(self, at: int, more: int) -> None:
        """A consumer comes, where nobody waits."""
        if self.credit:
            return
        self.waiting = at
        self.credit = 3 if more and self.model.policy != pb.MACRO_POLICY_ROUND_ROBIN else 1
        consumer = self.takers[at].consumer
        consumer.credit_messages = self.credit
        self.master.core.consumers.on_credit(consumer)

    def on_toggle(self, at: int, _more: int) -> None:
        """A member here is disabled, or comes back."""
        name = tuple(NEAR)[at]
        member = self.model.near[name]
        member.enabled = not member.enabled
        config = QueueConfig(dequeue_enabled=member.enabled)
        self._submit(PendingCall(Waiter(), QueueCall(QUEUE_ACTION_UPDATE, name, config)))

    def on_answer(self, at: int, more: int) -> None:
        """The other manager says what it has, where it is reached, and leases it: one message, or three."""
        name = tuple(FAR)[at]
        model, member = self.model.far[name], self.members[name]
        if model.state != AWAY:
            self.leases += 1
            taken = model.lease(self.leases, 3 if more else 1)
            member.set(HEARD)
            member.keep(run for each in taken for run in runs_of(_answer(self.leases, each)))

    def on_late(self, at: int, _more: int) -> None:
        """It has not answered for a while."""
        name = tuple(FAR)[at]
        if self.model.far[name].awaited:
            self.model.far[name].state = LATE
            self.members[name].set(LATE, "no answer")

    def on_fail(self, at: int, _more: int) -> None:
        """Its proxy has failed: what it had is there again."""
        name = tuple(FAR)[at]
        self.model.far[name].all_back()
        self.model.far[name].state = AWAY
        self.members[name].give_back()
        self.members[name].set(AWAY, "nobody answers")

    def on_return(self, at: int, _more: int) -> None:
        """It is reached again."""
        name = tuple(FAR)[at]
        if self.model.far[name].state == AWAY:
            self.model.far[name].state = IDLE
            self.members[name].set(IDLE)

    def on_end(self, at: int, _more: int) -> None:
        """The lease of its first heads has ended there: they are there again, and nobody's here."""
        name = tuple(FAR)[at]
        if self.model.far[name].heads:
            lease, count = self.model.far[name].end()
            assert self.members[name].drop(lease, None) == count

    def on_confirm(self, _at: int, more: int) -> None:
        """The oldest that is on its way to a consumer is leased to him there; or was lost there meanwhile."""
        if not self.claims:
            return
        name, claim = self.claims.pop(0)
        indexes, consumer = indexes_of(claim.lease.runs), claim.consumer
        who = [taker.consumer for taker in self.takers].index(consumer)
        if more or (self.credit and who != self.waiting):
            consumer.waiter.deliver(claim.lease)
            self.delivered += [f"{name}/{index}" for index in indexes]
            return
        self.model.far[name].put_back(indexes)
        self.waiting, self.credit = who, self.credit + len(indexes)
        self.master.core.consumers.take_back(consumer, len(indexes))

    def on_release(self, at: int, _more: int) -> None:
        """A consumer gives back what he had of it, over there."""
        name = tuple(FAR)[at]
        if found := [each for each in self.delivered if each.startswith(name)]:
            self.delivered.remove(found[0])
            self.model.far[name].put_back([int(found[0].partition("/")[2])])

    def finish(self) -> None:
        """All members are back, and all is taken: each message was somebody's, once."""
        for at in range(2):
            if not self.model.near[tuple(NEAR)[at]].enabled:
                self.step("toggle", at, 0)
            self.step("return", at, 0)
        for _ in range(200):
            if not self.model.left() and not self.claims:
                break
            for what in ("ask", "answer", "answer", "confirm"):
                for at in range(2):
                    self.step(what, at, 1)
        everything = [*self.model.near.items(), *self.model.far.items()]
        assert sorted(self.delivered) == sorted(f"{name}/{index}" for name, each in everything for index in each.all)

    # -- what comes of it --------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """What consumers were given, and what is on its way to them, is what the model says."""
        wanted: dict[str, list[int]] = {}
        while self.credit and (given := self.model.choose(self.waiting)) is not None:
            wanted.setdefault(given[0], []).append(given[1])
            self.credit -= 1
        found: dict[str, list[int]] = {}
        for number, taker in enumerate(self.takers):
            for done in taker.waiter.answers[self.heard[number] :]:
                if isinstance(done, LeaseDone):
                    found.setdefault(done.queue, []).extend(self._given(done))
            self.heard[number] = len(taker.waiter.answers)
        self.delivered += [f"{name}/{index}" for name, indexes in found.items() for index in indexes]
        for name, member in self.members.items():
            member.back.clear()  # it is there again in the model too
            while member.claims:
                self.claims.append((name, claim := member.claims.popleft()))
                found.setdefault(name, []).extend(indexes_of(claim.lease.runs))
            model = self.model.far[name]
            assert (indexes_of(member.heads), member.state) == ([each.index for _, each in model.heads], model.state)
        for name in NEAR:  # in one step; in which order one queue gives is asked elsewhere
            wanted.get(name, []).sort()
            found.get(name, []).sort()
        assert found == wanted

    def _given(self, done: LeaseDone) -> list[int]:
        machine = self.master.core.shared.machine
        assert machine is not None
        lease = machine.queue(done.queue_id).leases[done.lease_id]
        return [index for low, high, *_ in lease.ranges for index in range(low, high)]


def _answer(lease_id: int, sent: Sent) -> DequeueResponse:
    messages = MessageBatch(payloads=[b"x"], priorities=[sent.priority])
    batch = EnqueueBatch(messages=messages).SerializeToString()
    segment = DeliveredSegment(batch=batch, first_index=sent.index, enqueue_time_ms=sent.at_ms)
    return DequeueResponse(lease_id=lease_id, segments=[segment])


HAPPENS = (
    *("put", "put", "put_there", "put_there", "ask", "ask", "ask", "answer", "answer", "answer", "confirm", "confirm"),
    *("toggle", "late", "fail", "return", "end", "release"),
)
STEP = st.tuples(st.sampled_from(HAPPENS), st.sampled_from((0, 1)), st.sampled_from((0, 4, 9)))


@pytest.mark.requirement("R072", "R078", "R079", "R080", "R081", "R082")
@pytest.mark.parametrize(
    "policy", ["PRIORITIZED", "FIRST_AVAILABLE", "ROUND_ROBIN", "CHRONOLOGICAL", "MESSAGE_PRIORITY"]
)
@settings(max_examples=20, deadline=None)
@given(steps=st.lists(STEP, min_size=20, max_size=40))
def test_a_consumer_is_given_what_the_model_says(policy: str, steps: list[tuple[str, int, int]]) -> None:
    world = World(pb.MacroPolicy.Value(f"MACRO_POLICY_{policy}"))
    for step in steps:
        world.step(*step)
    world.finish()

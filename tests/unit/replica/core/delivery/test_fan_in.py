"""Consumers of a macro queue at a pair, who gives them what and when they wake; and what is sent to one by way of the
replica (M2, M5, M6, R078, R082).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import google_crc32c
import pytest

from replica.core.state.calls import Consumer, PendingCall, PendingEnqueue
from replica.core.state.outcomes import EnqueueDone, Failed, LeaseDone, QueueDone
from replica.machine import EnqueueCall, MacroCall, QueueCall, SettleCall, columns_of
from replica.machine.features.macros import ADD, CREATE, DELETE
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_CLOSE, QUEUE_ACTION_DELETE
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, OUTCOME_RELEASE, EnqueueBatch, Settlement
from tests.support.clients import Producer, Waiter, create
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tandemq.peer.v1.record_pb2 import MacroAction
    from tests.support.member import Member

PRODUCER, CONSUMER = pb.RELATIONSHIP_PRODUCER, pb.RELATIONSHIP_CONSUMER


def change(pair: Pair, action: MacroAction, **fields: Any) -> None:
    waiter = Waiter()
    assert pair.master is not None
    pair.master.submit(PendingCall(waiter, MacroCall(action, "m", b"", 0, **fields)))
    pair.settle(200)
    assert isinstance(waiter.done, QueueDone), waiter.done


def begun(relationship: pb.Relationship, policy: pb.MacroPolicy, **priorities: int) -> Pair:
    pair = Pair().start()
    change(pair, CREATE, relationship=relationship, policy=policy)
    for name, priority in priorities.items():
        create(pair, name)
        change(pair, ADD, queue=name, priority=priority)
    return pair


class Taker:
    """A consumer of the macro queue and what it was handed."""

    def __init__(
        self,
        pair: Pair,
        name: str = "c",
        *,
        credit: int = 1,
        one_shot: bool = False,
        member: str = "a",
        lease_ms: int = 500,
    ) -> None:
        self.pair, self.waiter = pair, Waiter()
        self.consumer = Consumer(
            self.waiter, "m", name.encode(), lease_ms, credit_messages=credit, credit_bytes=1 << 20, one_shot=one_shot,
            member=member,
        )  # fmt: skip
        assert pair.master is not None
        pair.master.attach(self.consumer)
        pair.quiesce()

    @property
    def got(self) -> list[str]:
        return [done.queue for done in self.waiter.answers if isinstance(done, LeaseDone)]

    def ask(self) -> None:
        self.consumer.credit_messages += 1
        assert self.pair.master is not None
        self.pair.master.core.consumers.on_credit(self.consumer)
        self.pair.master.dispatch(self.pair.master.core)
        self.pair.quiesce()


def send(pair: Pair, queue: str, count: int = 1) -> None:
    producer = Producer(pair, f"to {queue} {pair.now_ms}", queue)
    assert pair.master is not None
    for _ in range(count):
        producer.send(pair.master)
    pair.quiesce()


@pytest.mark.requirement("R078", "R082")
def test_a_message_of_a_higher_member_overtakes_at_the_next_call() -> None:
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, low=1, high=9)
    send(pair, "low", 3)
    taker = Taker(pair)
    send(pair, "high")
    taker.ask()
    taker.ask()
    assert taker.got == ["low", "high", "low"]


@pytest.mark.parametrize("name", ["low", "high"])
def test_who_waits_wakes_when_any_member_has_something(name: str) -> None:
    """Without a tick: nothing is polled."""
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, low=1, high=9)
    stream, once = Taker(pair), Taker(pair, "once", one_shot=True)
    send(pair, name, 2)
    assert (stream.got, once.got) == ([name], [name])


def test_who_waits_wakes_when_a_member_comes_that_has_something() -> None:
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, one=0)
    create(pair, "two")
    send(pair, "two")
    taker = Taker(pair)
    change(pair, ADD, queue="two")
    assert taker.got == ["two"]


def test_the_oldest_of_all_goes_first_also_under_one_credit_for_many() -> None:
    """R079: what the other members have in between is not overtaken by what stands behind the oldest."""
    pair = begun(CONSUMER, pb.MACRO_POLICY_CHRONOLOGICAL, one=0, two=9)
    producers = {name: Producer(pair, "p", name) for name in ("one", "two")}
    assert pair.master is not None
    for name in ("one", "two", "one"):
        producers[name].send(pair.master)
        pair.quiesce()
    assert Taker(pair, credit=5).got == ["one", "two", "one"]


def test_members_take_turns_where_they_are_asked_to() -> None:
    pair = begun(CONSUMER, pb.MACRO_POLICY_ROUND_ROBIN, one=0, two=9, three=0)
    for name in ("one", "two", "three"):
        send(pair, name, 2)
    taker = Taker(pair)
    for _ in range(5):
        taker.ask()
    assert taker.got == ["one", "two", "three"] * 2


def test_a_member_that_goes_is_passed_over_and_the_others_serve_on() -> None:
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, low=1, high=9)
    send(pair, "high", 2)
    send(pair, "low")
    taker = Taker(pair)
    assert pair.master is not None
    pair.master.submit(PendingCall(Waiter(), QueueCall(QUEUE_ACTION_DELETE, "high")))
    pair.quiesce()
    taker.ask()
    assert taker.got == ["high", "low"]


def test_what_was_received_from_it_is_settled_by_its_name() -> None:
    """One call for leases of two members."""
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, low=1, high=9)
    for name in ("low", "high"):
        send(pair, name)
    taker = Taker(pair, credit=5)
    assert taker.got == ["high", "low"]
    leases = [done.lease_id for done in taker.waiter.answers]
    settlements = [
        Settlement(lease_id=each, ranges=[IndexRange(first=1, count=1)], outcome=OUTCOME_ACK) for each in leases
    ]
    waiter = Waiter()
    assert pair.master is not None
    pair.master.submit(PendingCall(waiter, SettleCall("m", settlements)))
    pair.quiesce()
    assert [result.settled for result in waiter.done.results] == [1, 1]
    machine = pair.master.core.shared.machine
    assert machine is not None
    assert [machine.queue(machine.queue_id(name) or 0).length for name in ("low", "high")] == [0, 0]


def test_whoever_waits_at_one_that_is_deleted_is_sent_away() -> None:
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, one=0)
    taker = Taker(pair)
    change(pair, DELETE)
    failed = taker.waiter.done
    assert isinstance(failed, Failed)
    assert failed.reason == Reason.REASON_QUEUE_NOT_FOUND


@pytest.mark.parametrize("what", ["unit", "relationship"])
def test_what_it_does_not_serve_is_refused_by_name(what: str) -> None:
    """M12."""
    pair = begun(PRODUCER if what == "relationship" else CONSUMER, pb.MACRO_POLICY_FIRST_AVAILABLE, one=0)
    waiter = Waiter()
    consumer = Consumer(waiter, "m", b"c", 500, member="a", unit=b"u" * 16 if what == "unit" else b"")
    assert pair.master is not None
    pair.master.attach(consumer)
    pair.quiesce()
    assert isinstance(waiter.done, Failed)
    wanted = Reason.REASON_BAD_REQUEST if what == "unit" else Reason.REASON_RELATIONSHIP_MISMATCH
    assert (waiter.done.reason, "macro queue" in waiter.done.message or "m is a" in waiter.done.message) == (
        wanted,
        True,
    )


def dealt(pair: Pair, member: Member, sequence: int) -> tuple[str, bool, int]:
    """Where a batch of a producer's stream entered, whether it was there before, and its index."""
    batch = EnqueueBatch(queue="m", first_sequence=sequence, messages=MessageBatch(payloads=[b"x"]))
    body, waiter = batch.SerializeToString(), Waiter()
    crc = google_crc32c.value(body)
    call = EnqueueCall("m", b"p", sequence, columns_of(batch), member.name, request_hash=crc)
    member.submit(PendingEnqueue(waiter, call, body, 0))
    pair.settle(200)
    assert isinstance(waiter.done, EnqueueDone), waiter.done
    return waiter.done.member_queue, waiter.done.duplicate, waiter.done.first_index


def test_a_batch_that_the_replica_holds_is_dealt_by_the_master_and_answered_there() -> None:
    """M2: held requests work as they do; a repetition finds the first dealing, and the turn goes on over a takeover."""
    pair = begun(PRODUCER, pb.MACRO_POLICY_ROUND_ROBIN, one=0, two=0, three=0)
    assert dealt(pair, pair.b, 1) == ("one", False, 1)
    assert dealt(pair, pair.a, 2) == ("two", False, 1)
    assert dealt(pair, pair.b, 2) == ("two", True, 1)
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(200)
    assert pair.master is pair.b
    assert [dealt(pair, pair.b, sequence) for sequence in (1, 2)] == [("one", True, 1), ("two", True, 1)]
    assert dealt(pair, pair.b, 3) == ("three", False, 1)


def closed_at_b() -> Pair:
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, low=1, high=9)
    assert pair.master is not None
    for name in ("low", "high"):
        waiter = Waiter()
        pair.master.submit(PendingCall(waiter, QueueCall(QUEUE_ACTION_CLOSE, name, member="b")))
        pair.settle(200)
        assert isinstance(waiter.done, QueueDone)
    return pair


def test_who_cannot_be_served_there_is_no_reason_to_leave_out_the_next_one() -> None:
    """Its members are open at one member of the pair; consumers of both wait."""
    pair = closed_at_b()
    waiting = [Taker(pair, name, member=member) for name, member in (("here", "a"), ("there", "b"))]
    send(pair, "low")
    assert [taker.got for taker in waiting] == [["low"], []]


def test_a_call_that_settles_at_two_members_is_ordered_before_anybody_is_handed_anything() -> None:
    """A lease between its records took what the second one settled, and the member failed."""
    pair = closed_at_b()
    assert pair.master is not None
    for name in ("low", "high"):
        send(pair, name)
    taker = Taker(pair, credit=2)
    leases = {done.queue: done.lease_id for done in taker.waiter.answers}
    Taker(pair, "waits")
    Taker(pair, "other", member="b")

    def settled(**outcomes: int) -> list[int]:
        parts = [
            Settlement(lease_id=leases[name], ranges=[IndexRange(first=1, count=1)], outcome=outcome, queue=name)
            for name, outcome in outcomes.items()
        ]
        waiter = Waiter()
        assert pair.master is not None
        pair.master.submit(PendingCall(waiter, SettleCall("m", parts)))
        pair.quiesce()
        return [result.settled for result in waiter.done.results]

    assert settled(high=OUTCOME_RELEASE) == [1]
    assert settled(low=OUTCOME_ACK, high=OUTCOME_ACK)[0] == 1


def test_an_answer_by_its_name_reaches_no_queue_that_is_no_member() -> None:
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, one=0)
    create(pair, "other")
    send(pair, "one")
    send(pair, "other")
    Taker(pair)
    assert pair.master is not None
    direct = Consumer(Waiter(), "other", b"d", 500, credit_messages=1, credit_bytes=1 << 20, member="a")
    pair.master.attach(direct)
    pair.quiesce()
    consumers = pair.master.core.consumers
    held = {
        queue.name: next(iter(queue.leases)) for queue in consumers.orders.machine.state.queues.values() if queue.leases
    }
    assert consumers.fan_in.answered_at("m", held["one"]) == "one"
    assert consumers.fan_in.answered_at("m", held["other"]) == "m"


def test_a_consumer_that_is_back_gives_back_what_it_was_given_there_alone() -> None:
    """Streams of the same client at the macro queue, at one of its members and at another macro queue know nothing of
    each other.
    """
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, one=0)
    send(pair, "one", 3)
    taker = Taker(pair)
    direct = Consumer(Waiter(), "one", b"c", 500, credit_messages=1, credit_bytes=1 << 20, member="a")
    assert pair.master is not None
    pair.master.attach(direct)
    pair.quiesce()
    machine = pair.master.core.shared.machine
    assert machine is not None
    queue = machine.queue(machine.queue_id("one") or 0)
    assert [lease.macro_id > 0 for lease in queue.leases.values()] == [True, False]

    def back(name: str) -> list[bool]:
        assert pair.master is not None
        pair.master.core.consumers.resume(name, b"c", 0)
        pair.master.dispatch(pair.master.core)
        pair.quiesce()
        return [lease.macro_id > 0 for lease in queue.leases.values()]

    assert back("m") == [False]
    taker.ask()
    assert [lease.macro_id > 0 for lease in queue.leases.values()] == [False, True]
    assert back("one") == [True]
    assert back("none") == [True]


def test_whoever_removes_at_delivery_is_told_at_once_that_requests_are_answered() -> None:
    """Also where it waits already when its members become such."""
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED)
    create(pair, "asks", queue_type=QUEUE_TYPE_TWO_WAY)
    assert pair.master is not None

    def attached() -> Waiter:
        waiter = Waiter()
        consumer = Consumer(waiter, "m", b"c", 500, immediate=True, credit_messages=1, credit_bytes=1, member="a")
        assert pair.master is not None
        pair.master.attach(consumer)
        pair.quiesce()
        return waiter

    waiting = attached()
    assert not waiting.answers
    change(pair, ADD, queue="asks")
    for waiter in (waiting, attached()):
        assert isinstance(waiter.done, Failed)
        assert waiter.done.reason == Reason.REASON_REPLY_REQUIRED


def test_what_is_answered_does_not_hang_on_what_the_name_is_by_then() -> None:
    pair = begun(CONSUMER, pb.MACRO_POLICY_PRIORITIZED, one=0)
    send(pair, "one", 2)
    taker = Taker(pair, one_shot=True)
    (done,) = taker.waiter.answers
    assert (done.queue, done.member_queue) == ("one", "one")
    direct = Taker(pair, one_shot=True)
    direct_done = direct.waiter.answers[0]
    assert direct_done.member_queue == "one"


def dealt_to_groups(pair: Pair, member: Member, sequence: int, groups: list[str]) -> EnqueueDone:
    """What a batch of a producer's stream came to."""
    messages = MessageBatch(payloads=[b"x"] * len(groups), group_ids=groups)
    batch = EnqueueBatch(queue="m", first_sequence=sequence, messages=messages)
    body, waiter = batch.SerializeToString(), Waiter()
    call = EnqueueCall("m", b"p", sequence, columns_of(batch), member.name, request_hash=google_crc32c.value(body))
    member.submit(PendingEnqueue(waiter, call, body, 0))
    pair.settle(200)
    assert isinstance(waiter.done, EnqueueDone), waiter.done
    return waiter.done


GROUPS = ["a", "b", "c", "d", "e", "f"]


def test_a_batch_of_several_groups_is_one_record_wherever_it_came_and_whoever_is_master() -> None:
    """M2, M13: a batch that the replica holds is completed by the one body that is there, and a repetition after a
    takeover finds the members that it was dealt to.
    """
    pair = begun(PRODUCER, pb.MACRO_POLICY_BY_GROUP, one=0, two=0, three=0)
    assert pair.master is not None
    homes: dict[str, str] = {}
    for sequence, member in ((1, pair.b), (7, pair.a)):
        before = pair.master.core.shared.log.last_index
        done = dealt_to_groups(pair, member, sequence, GROUPS)
        assert pair.master.core.shared.log.last_index == before + 1
        assert not done.duplicate
        entered = {GROUPS[place]: each.queue for each in done.members for place in each.ordinals}
        assert sorted(entered) == GROUPS
        homes = homes or entered
        assert entered == homes
    assert len(set(homes.values())) > 1
    again = dealt_to_groups(pair, pair.b, 1, GROUPS)
    assert again.duplicate
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(200)
    assert pair.master is pair.b
    after = dealt_to_groups(pair, pair.b, 1, GROUPS)
    assert (after.duplicate, after.members) == (True, again.members)
    more = dealt_to_groups(pair, pair.b, 13, ["a", "a"])
    assert (more.member_queue, more.first_index) == (homes["a"], 1 + 2 * list(homes.values()).count(homes["a"]))


def test_a_copy_is_at_all_members_whoever_is_master() -> None:
    """M4: one record, also of what the replica holds; a repetition finds every member."""
    pair = begun(PRODUCER, pb.MACRO_POLICY_DUPLICATE, one=0, two=9, three=0)
    done = dealt_to_groups(pair, pair.b, 1, ["", ""])
    assert [(each.queue, list(each.ordinals)) for each in done.members] == [
        ("two", [0, 1]),
        ("one", [0, 1]),
        ("three", [0, 1]),
    ]
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(200)
    assert pair.master is pair.b
    again = dealt_to_groups(pair, pair.b, 1, ["", ""])
    assert (again.duplicate, again.members) == (True, done.members)
    machine = pair.b.core.shared.machine
    assert machine is not None
    assert [machine.queue(machine.queue_id(name) or 0).length for name in ("one", "two", "three")] == [2, 2, 2]

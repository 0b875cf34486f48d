"""A record that is damaged on the master's disk is given to nobody, and stays; all else goes on."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from replica.core.delivery import consumers
from replica.core.messages.bodies import is_whole
from replica.core.state.calls import Consumer, PendingCall, PendingEnqueue
from replica.core.state.outcomes import LeaseDone
from replica.machine import EnqueueCall, SettleCall, columns_of
from replica.services.messages.consume import ConsumeStream
from storage.store import Append, WriteBatch
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_ORDERED
from tandemq.v1.queue_service_pb2 import (
    DELIVERY_FORMAT_MESSAGES,
    DELIVERY_FORMAT_SEGMENTS,
    OUTCOME_ACK,
    ConsumeOpen,
    ConsumeResponse,
    DeliveryFormat,
    EnqueueBatch,
    Settlement,
)
from tests.support.clients import Producer, Waiter, create, remaining
from tests.support.pair import Pair

if TYPE_CHECKING:
    from replica.machine import SegmentSlice
    from tests.support.member import Member

NUMBERS = (1, 2, 3, 4)


def filled(**config: Any) -> Pair:
    """Four messages in records of their own, in a queue that nobody reads yet."""
    pair = Pair().start()
    create(pair, **config)
    producer = Producer(pair, "p")
    for _ in NUMBERS:
        producer.send(pair.a)
    pair.quiesce()
    return pair


def slices_of(member: Member) -> list[SegmentSlice]:
    machine = member.shared.machine
    queue_id = machine.queue_id("q")
    return list(machine.segments_of(queue_id, machine.browse(queue_id, 0, 0), delivered=False))


def hurt(member: Member, *indexes: int) -> None:
    """A bit of each of these messages' bodies turns over on its disk, and its memory has let go of all records."""
    shared, store = member.shared, member.store
    for part in slices_of(member):
        if part.first_index in indexes:
            record = store.read(shared.domain, part.log_index)
            assert record is not None
            damaged = record[:-1] + bytes([record[-1] ^ 1])
            store.commit(WriteBatch(inserts=[Append(shared.domain, part.log_index, damaged)]))
    shared.log.ring.clear()
    member.core.consumers.damage.is_whole = partial(is_whole, store, shared)


def taken(waiter: Waiter) -> list[int]:
    leases = [done for done in waiter.answers if isinstance(done, LeaseDone)]
    return [part.first_index + at for done in leases for part in done.slices for at in range(part.count)]


def attach(pair: Pair, member: Member, **fields: Any) -> tuple[Waiter, Consumer]:
    waiter = Waiter()
    fields = {"credit_messages": 10, **fields}
    consumer = Consumer(waiter, "q", b"c", 600_000, credit_bytes=1 << 20, member=member.name, **fields)
    member.attach(consumer)
    pair.quiesce()
    return waiter, consumer


@pytest.mark.parametrize("indexes", [(1,), (2,), (4,), (2, 3), NUMBERS])
@pytest.mark.parametrize("fields", [{}, {"immediate": True}, {"one_shot": True}, {"credit_messages": 4}])
def test_what_is_damaged_is_given_to_nobody_and_all_else_is(indexes: tuple[int, ...], fields: Any) -> None:
    pair = filled()
    hurt(pair.a, *indexes)
    waiter, _ = attach(pair, pair.a, **fields)
    assert taken(waiter) == [index for index in NUMBERS if index not in indexes]
    assert len(pair.a.shared.damaged) == len(indexes)


def test_what_would_be_removed_at_its_delivery_stays_and_the_other_member_delivers_it() -> None:
    pair = filled()
    hurt(pair.a, 2)
    waiter, _ = attach(pair, pair.a, immediate=True)
    assert taken(waiter) == [1, 3, 4]
    told = pair.a.hand_over()
    pair.settle(200)
    assert pair.master is pair.b, told
    assert remaining(pair.b) == [(2, b"p/2")]
    waiter, _ = attach(pair, pair.b)
    assert taken(waiter) == [2]
    assert pair.a.shared.damaged == set(), "what it has is looked at again when it is master again"


def test_nobody_turns_round_it() -> None:
    pair = filled()
    hurt(pair.a, *NUMBERS)
    waiter, _ = attach(pair, pair.a)
    last = pair.a.shared.log.last_index
    pair.settle(2_000)
    assert pair.a.shared.log.last_index == last
    Producer(pair, "other").send(pair.a)
    pair.quiesce()
    assert taken(waiter) == [5], "whoever waits has it"


def test_the_next_of_a_group_waits_for_it() -> None:
    pair = Pair().start()
    create(pair, group_mode=GROUP_MODE_ORDERED)
    one, two = Producer(pair, "one", group="g"), Producer(pair, "two", group="h")
    for producer in (one, two, one, two):
        producer.send(pair.a)
    pair.quiesce()
    hurt(pair.a, 1)
    waiter, _ = attach(pair, pair.a)
    assert taken(waiter) == [2]
    lease_id = waiter.answers[0].lease_id
    settlement = Settlement(lease_id=lease_id, ranges=[IndexRange(first=2, count=1)], outcome=OUTCOME_ACK)
    pair.a.submit(PendingCall(Waiter(), SettleCall("q", [settlement])))
    pair.quiesce()
    assert taken(waiter) == [2, 4]


def test_it_is_told_as_it_doubles() -> None:
    pair = filled()
    hurt(pair.a, *NUMBERS)
    before = len(pair.a.notes)
    attach(pair, pair.a)
    attach(pair, pair.a)
    first, second, fourth = pair.a.notes[before:]
    index = slices_of(pair.a)[0].log_index
    way = "hand off to b, and resync a in full"
    assert first == f"record {index} is damaged at a: it is kept, and given to nobody; {way}"
    assert "2 records so far" in second
    assert "4 records so far" in fourth


def test_all_damage_is_met_in_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is asked for: a plan for each record that is damaged would hold everybody up."""
    pair = filled()
    producer = Producer(pair, "more")
    for _ in range(100):
        producer.send(pair.a)
    pair.quiesce()
    hurt(pair.a, *range(1, 104))
    plan, plans = consumers.plan_lease, []

    def counted(state: Any, now_ms: int, call: Any) -> Any:
        plans.append(call)
        return plan(state, now_ms, call)

    monkeypatch.setattr(consumers, "plan_lease", counted)
    waiter, _ = attach(pair, pair.a, one_shot=True, credit_messages=1)
    assert taken(waiter) == [104]
    assert len(plans) == 2


def test_a_record_of_many_pieces_is_looked_at_once() -> None:
    pair = Pair().start()
    create(pair)
    batch = EnqueueBatch(
        queue="q", first_sequence=1, messages=MessageBatch(payloads=[b"x"] * 40, priorities=[1, 2] * 20)
    )
    body = batch.SerializeToString()
    pair.a.submit(PendingEnqueue(Waiter(), EnqueueCall("q", b"p", 1, columns_of(batch), "a"), body))
    pair.quiesce()
    damage, looked = pair.a.core.consumers.damage, []
    for indexes in ((), (1,)):
        hurt(pair.a, *indexes)
        is_whole = damage.is_whole

        def counted(log_index: int, is_whole: Any = is_whole) -> bool:
            looked.append(log_index)
            return is_whole(log_index)

        damage.is_whole = counted
        waiter, _ = attach(pair, pair.a, one_shot=True, credit_messages=20)
        assert len(taken(waiter)) == (0 if indexes else 20)
        assert len(looked) <= 2
        looked.clear()


def test_what_was_met_before_it_is_master_again_is_looked_at_anew() -> None:
    pair = filled()
    pair.a.hand_over()
    pair.settle(200)
    assert pair.master is pair.b
    pair.a.shared.report_damage(slices_of(pair.a)[1].log_index)  # a late read of its; its copy is made anew after that
    pair.settle(5_000)
    told = pair.b.hand_over()
    pair.settle(200)
    assert pair.master is pair.a, told
    waiter, _ = attach(pair, pair.a)
    assert taken(waiter) == [1, 2, 3, 4]


@pytest.mark.parametrize("form", [DELIVERY_FORMAT_MESSAGES, DELIVERY_FORMAT_SEGMENTS])
def test_what_is_damaged_after_it_was_leased_is_left_out(form: DeliveryFormat) -> None:
    """The lease of it runs out; nothing but the delivery ends when its record cannot be read."""
    pair = filled()
    slices = slices_of(pair.a)
    hurt(pair.a, 3)
    node = SimpleNamespace(store=pair.a.store)
    members: Any = SimpleNamespace(node=node, member="a", pair="p", peer="b", master_endpoint=lambda _domain: "")
    context: Any = SimpleNamespace(invocation_metadata=tuple)
    stream = ConsumeStream(members, context, pair.a.core, ConsumeOpen(queue="q", client_id=b"c", format=form), None)
    stream.deliver(LeaseDone(1, "q", 77, slices, duplicate=False))
    (frame,) = stream.out
    deliveries = ConsumeResponse.FromString(frame).deliveries
    indexes = [row.index for row in deliveries.messages] + [part.first_index for part in deliveries.segments]
    assert indexes == [1, 2, 4]
    assert stream.consumer.credit_messages == 1, "what was not given takes no credit"
    assert pair.a.shared.damaged == {slices[2].log_index}
